//! The notifier: delivers alerts about the outcomes of jobs to notification channels.
//!
//! Place in the flow: the transaction that ends a job writes its event into the outbox. One loop
//! relays the events, which plans their deliveries, and claims the deliveries that are due. Each
//! claimed delivery is sent by its own task. A recorder writes the results of the tries in batches.
//! The notifier is the only reader of the outbox.
//!
//! Invariants:
//! - ALERT-1: every event is delivered, merged into another delivery, or recorded as undeliverable.
//!   A claim records the try before anything is sent. A try whose result was never recorded is
//!   found when its claim has expired.
//! - A try is sent only if its timeout ends before its claim expires. The age of the claim is
//!   measured on the monotonic clock, from before the claim was requested. A notifier that was
//!   paused therefore sends nothing that another one may have sent.
//! - No transaction and no store connection is held while a channel is called.
//! - Within a replica, a channel has at most [`NotifierSettings::per_channel`] concurrent tries, an
//!   account a quarter of all slots, and a type of channel half of them. Mail is also limited by
//!   the number of connections to its server. A channel, account or provider that hangs therefore
//!   delays no other.
//!
//! On failure: a failed pass of the loop is retried with a growing pause of up to two seconds.
//! Results that cannot be recorded are kept and retried until their claims have expired. Those
//! alerts are then sent once more, with the same event id.

mod delivering;
mod message;
mod ongoing_tries;
mod recorder;
mod relaying;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, mpsc};

use crate::channels::Channels;
use crate::domain::Timestamp;
use crate::domain::alert::delivery::TrySchedule;
use crate::domain::alert::grouping::GroupingRules;
use crate::domain::plan::ChannelType;
use crate::runtime::{Clock, LoopPause, Random, RunError, TaskKind, Tasks, Worker, drive};
use crate::store::{ExecutorId, SharedStore};

use ongoing_tries::{OngoingTries, TryLimits};
use recorder::Recorder;
use relaying::EventRelay;

/// The settings of the notifier.
#[derive(Clone, Debug)]
pub struct NotifierSettings {
    /// The maximum number of concurrent tries.
    pub slots: usize,
    /// The maximum number of concurrent tries to one channel.
    pub per_channel: usize,
    /// The duration of a claim. It is also how long the deliveries of a lost notifier wait.
    pub claim_time: Duration,
    /// The timeout of a try.
    pub timeout: Duration,
    /// The schedule of the tries of a delivery.
    pub tries: TrySchedule,
    /// The rules that merge alerts into incidents and digests.
    pub rules: GroupingRules,
}

impl Default for NotifierSettings {
    fn default() -> Self {
        Self {
            slots: 256,
            per_channel: 16,
            claim_time: Duration::from_secs(30),
            timeout: Duration::from_secs(10),
            tries: TrySchedule::default(),
            rules: GroupingRules::default(),
        }
    }
}

impl NotifierSettings {
    fn limits(&self, channels: &Channels) -> TryLimits {
        let half = self.slots.div_ceil(2);
        let of_type = |kind: ChannelType| {
            (kind, channels.most_at_once(kind).map_or(half, |most| most.min(half)))
        };
        TryLimits {
            total: self.slots,
            per_channel: self.per_channel,
            per_account: self.slots.div_ceil(4),
            per_type: ChannelType::ALL.iter().copied().map(of_type).collect(),
        }
    }
}

/// The dependencies of a notifier.
pub struct NotifierParts {
    /// The store of events and deliveries.
    pub store: SharedStore,
    /// The channels that send alerts.
    pub channels: Channels,
    /// The source of the current time.
    pub clock: Clock,
    /// The source of ids and jitter.
    pub random: Random,
    /// The URL of this installation for people, without a slash at its end. Without it, alerts
    /// contain no links.
    pub public_url: Option<String>,
    /// Notified when an executor of this replica has raised events.
    pub hint: Arc<Notify>,
}

/// The state that the notifier's tasks share.
struct NotifierShared {
    id: ExecutorId,
    settings: NotifierSettings,
    store: SharedStore,
    channels: Channels,
    clock: Clock,
    random: Random,
    public_url: Option<String>,
    hint: Arc<Notify>,
    tries: OngoingTries,
}

/// The maximum number of results that wait to be recorded. When the channel is full, finished tries
/// wait before they hand in their results.
const WAITING_ENDS: usize = 1_024;

/// Relays events and delivers alerts. One run is one pass of its loop.
pub struct Notifier {
    shared: Arc<NotifierShared>,
    relaying: EventRelay,
}

impl Notifier {
    /// Creates a notifier whose tasks run among `tasks`. `alone` means that no other process uses
    /// the store. The holders of existing claims are then gone, so the first pass releases their
    /// deliveries at once.
    pub fn new(
        settings: NotifierSettings,
        parts: NotifierParts,
        alone: bool,
        tasks: &Tasks,
    ) -> Self {
        let NotifierParts { store, channels, clock, random, public_url, hint } = parts;
        let tries = OngoingTries::new(settings.limits(&channels));
        let shared = Arc::new(NotifierShared {
            id: ExecutorId(random.bits()),
            settings,
            store,
            channels,
            clock,
            random,
            public_url,
            hint,
            tries,
        });
        let (ends, waiting) = mpsc::channel(WAITING_ENDS);
        let recorder = Recorder::new(shared.clone(), waiting);
        tasks.spawn(TaskKind::Recorder, recorder.run());
        let relaying = EventRelay::new(shared.clone(), ends, tasks.clone(), alone);
        Self { shared, relaying }
    }

    /// Returns the number of tries whose result is not recorded yet.
    pub fn under_way(&self) -> usize {
        self.shared.tries.under_way()
    }

    /// Starts the loop, which runs until the service stops.
    pub fn start(mut self, tasks: &Tasks) {
        let driven = tasks.clone();
        tasks.spawn(TaskKind::Notifier, async move {
            let (clock, hint) = (self.shared.clock.clone(), self.shared.hint.clone());
            drive(&driven, TaskKind::Notifier, &clock, &hint, &mut self).await;
        });
    }
}

#[async_trait]
impl Worker for Notifier {
    async fn run_once(&mut self, now: Timestamp) -> Result<LoopPause, RunError> {
        self.relaying.run_once(now).await
    }
}
