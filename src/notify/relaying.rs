//! The notifier's loop: relays events and claims due deliveries.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::NotifierShared;
use super::delivering::{DeliveryTask, FinishedTry};
use super::ongoing_tries::{ClaimLimits, TryOwner};
use crate::domain::Timestamp;
use crate::runtime::faults::FaultPoint;
use crate::runtime::{LoopPause, RunError, TaskKind, Tasks};
use crate::store::{DeliveryClaim, RelayResult};
use crate::telemetry::metrics::{ALERTS, AlertResult, EVENTS_RELAYED, INCIDENTS_OPENED};

/// The maximum number of events in one relay batch.
const EVENTS: u32 = 500;
/// The maximum number of deliveries in one claim.
const DELIVERIES: usize = 128;
/// The longest pause of the loop without a hint. It is also the maximum delay until events of other
/// replicas are noticed.
const MAX_PAUSE: Duration = Duration::from_millis(250);

/// Relays events and starts deliveries.
pub(super) struct EventRelay {
    shared: Arc<NotifierShared>,
    ends: mpsc::Sender<FinishedTry>,
    tasks: Tasks,
    /// `true` until the claims of an earlier process on this store have been released.
    alone: bool,
}

impl EventRelay {
    pub(super) fn new(
        shared: Arc<NotifierShared>,
        ends: mpsc::Sender<FinishedTry>,
        tasks: Tasks,
        alone: bool,
    ) -> Self {
        Self { shared, ends, tasks, alone }
    }

    /// Relays a batch of events. Returns `true` if there may be more to do at once.
    async fn relay(&self, now: Timestamp) -> Result<bool, RunError> {
        let NotifierShared { store, settings, .. } = &*self.shared;
        let RelayResult { events, planned, merged, undeliverable, opened, closed } =
            store.relay(now, EVENTS, &settings.rules).await?;
        EVENTS_RELAYED.add(events);
        INCIDENTS_OPENED.add(opened);
        ALERTS.with(AlertResult::Planned).add(planned);
        ALERTS.with(AlertResult::Merged).add(merged);
        ALERTS.with(AlertResult::Undeliverable).add(undeliverable);
        if opened + closed > 0 {
            tracing::info!(opened, closed, "incidents opened and closed");
        }
        tracing::debug!(events, planned, merged, undeliverable, "events relayed");
        Ok(events + planned + merged + undeliverable > 0)
    }

    /// Claims due deliveries and starts their tries. Returns `true` if there may be more.
    async fn deliver(&self) -> Result<bool, RunError> {
        let NotifierShared { id, settings, store, clock, tries, .. } = &*self.shared;
        let ClaimLimits { total, per_channel, busy, per_account, busy_accounts, per_type } =
            tries.claim_limits();
        let limit = total.min(DELIVERIES);
        if limit == 0 {
            return Ok(false);
        }
        let (asked, now) = (clock.moment(), clock.now());
        // Checked after both are read: a suspension that follows makes the claim old.
        if !clock.is_trusted() {
            return Ok(false);
        }
        let claim = DeliveryClaim {
            notifier: *id,
            now,
            until: now.plus(settings.claim_time),
            limit: number(limit),
            per_channel: number(per_channel),
            busy,
            per_account: number(per_account),
            busy_accounts,
            per_type: per_type.into_iter().map(|(kind, left)| (kind, number(left))).collect(),
        };
        let claimed = store.claim_deliveries(&claim).await?;
        ALERTS.with(AlertResult::Undeliverable).add(claimed.undeliverable);
        let any = !claimed.taken.is_empty();
        if any {
            FaultPoint::AfterDeliveryClaim.reach();
        }
        for claimed in claimed.taken {
            let owner = TryOwner {
                channel: claimed.channel,
                account: claimed.account,
                kind: claimed.channel_type,
            };
            let ongoing = tries.begin(owner);
            let delivering = DeliveryTask { shared: self.shared.clone(), claimed, asked, ongoing };
            self.tasks.spawn(TaskKind::Delivery, delivering.run(self.ends.clone()));
        }
        Ok(any)
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl EventRelay {
    pub(super) async fn run_once(&mut self, now: Timestamp) -> Result<LoopPause, RunError> {
        if !self.shared.clock.is_trusted() {
            return Ok(LoopPause::For(MAX_PAUSE));
        }
        if self.alone {
            let released = self.shared.store.release_deliveries(now).await?;
            tracing::debug!(released, "released the deliveries of an earlier process");
            self.alone = false;
        }
        let work = self.shared.store.alert_work(now).await?;
        let relayed = work.relay && self.relay(now).await?;
        let delivered = (work.deliver || relayed) && self.deliver().await?;
        if relayed || delivered {
            return Ok(LoopPause::None);
        }
        let latest = self.shared.clock.after(now, MAX_PAUSE);
        // A due delivery that cannot be started now waits until a try ends. The recorder then
        // notifies the loop, so a past `next` needs no earlier wake-up.
        let next = work.next.filter(|next| *next > now);
        Ok(LoopPause::Until(next.map_or(latest, |next| next.min(latest))))
    }
}
