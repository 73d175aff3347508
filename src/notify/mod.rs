//! The notifier: tells people how the jobs of their schedules ended.
//!
//! Place in the flow: the transaction that ends a job writes its event into the outbox. One loop relays
//! events, which plans their deliveries, and claims the deliveries that are due; each claimed delivery is
//! sent by a task of its own; a recorder writes how the tries ended, in batches. The notifier is the only
//! reader of the outbox.
//!
//! Invariants:
//! - ALERT-1: every event is delivered, merged into a delivery, or recorded as undeliverable. A claim
//!   records the try before anything is sent; a try that nobody ends is found when its claim has expired.
//! - A try is sent only within half of its claim, counted on the monotonic clock from before the claim was
//!   asked for. A paused notifier sends nothing that another one may have sent.
//! - No transaction and no connection of the store is held while a channel is called.
//! - A channel has at most [`Settings::per_channel`] tries under way in a replica, an account a quarter
//!   of all, a type of channel half of all, and mail as many as there are connections to its server. A
//!   channel, an account or a provider that hangs delays no other one.
//!
//! On failure: the loop is tried again, ever slower up to two seconds. Ends of tries that cannot be
//! recorded are kept and tried again until their claims have expired; then the alert is sent once more,
//! with the same event id.

mod delivering;
mod flights;
mod message;
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
use crate::runtime::{Clock, Pause, Random, RunError, TaskKind, Tasks, Worker, drive};
use crate::store::{ExecutorId, SharedStore};

use flights::{Flights, Limits};
use recorder::Recorder;
use relaying::Relaying;

/// How alerts are delivered.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Tries under way at once.
    pub slots: usize,
    /// Of these, to one channel.
    pub per_channel: usize,
    /// For how long a delivery is claimed. A lost notifier's deliveries wait as long.
    pub claim_time: Duration,
    /// How long a try may take.
    pub patience: Duration,
    /// When tries are made.
    pub tries: TrySchedule,
    /// Which alerts are told together.
    pub rules: GroupingRules,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            slots: 256,
            per_channel: 16,
            claim_time: Duration::from_secs(30),
            patience: Duration::from_secs(10),
            tries: TrySchedule::default(),
            rules: GroupingRules::default(),
        }
    }
}

impl Settings {
    fn limits(&self, channels: &Channels) -> Limits {
        let half = self.slots.div_ceil(2);
        let of_type = |kind: ChannelType| {
            (kind, channels.most_at_once(kind).map_or(half, |most| most.min(half)))
        };
        Limits {
            total: self.slots,
            per_channel: self.per_channel,
            per_account: self.slots.div_ceil(4),
            per_type: ChannelType::ALL.iter().copied().map(of_type).collect(),
        }
    }
}

/// What a notifier works with.
pub struct Parts {
    /// Where events and deliveries are.
    pub store: SharedStore,
    /// What sends.
    pub channels: Channels,
    /// What time it is.
    pub clock: Clock,
    /// Where ids and jitter come from.
    pub random: Random,
    /// Where people reach this installation: a URL without a slash at its end. Absent: alerts have no
    /// links.
    pub public_url: Option<String>,
    /// Rung when an executor of this replica has raised events.
    pub hint: Arc<Notify>,
}

/// What the notifier's tasks share.
struct Shared {
    id: ExecutorId,
    settings: Settings,
    store: SharedStore,
    channels: Channels,
    clock: Clock,
    random: Random,
    public_url: Option<String>,
    hint: Arc<Notify>,
    flights: Flights,
}

/// Ends of tries that wait to be recorded; when there are as many, tries wait to hand in theirs.
const WAITING_ENDS: usize = 1_024;

/// Relays events and delivers alerts; one run is one pass of its loop.
pub struct Notifier {
    shared: Arc<Shared>,
    relaying: Relaying,
}

impl Notifier {
    /// A notifier; what it begins runs among `tasks`. If the process is `alone` with its store, whoever
    /// held a claim before is gone: its deliveries are claimed again at once.
    pub fn new(settings: Settings, parts: Parts, alone: bool, tasks: &Tasks) -> Self {
        let Parts { store, channels, clock, random, public_url, hint } = parts;
        let flights = Flights::new(settings.limits(&channels));
        let shared = Arc::new(Shared {
            id: ExecutorId(random.bits()),
            settings,
            store,
            channels,
            clock,
            random,
            public_url,
            hint,
            flights,
        });
        let (ends, waiting) = mpsc::channel(WAITING_ENDS);
        let recorder = Recorder::new(shared.clone(), waiting);
        tasks.spawn(TaskKind::Recorder, recorder.run());
        let relaying = Relaying::new(shared.clone(), ends, tasks.clone(), alone);
        Self { shared, relaying }
    }

    /// Tries whose end is not recorded yet.
    pub fn under_way(&self) -> usize {
        self.shared.flights.under_way()
    }

    /// Runs its loop until the stop.
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
    async fn run_once(&mut self, now: Timestamp) -> Result<Pause, RunError> {
        self.relaying.run_once(now).await
    }
}
