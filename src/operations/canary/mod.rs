//! The canary: small schedules of the service itself, which say whether it does its job.
//!
//! There is one for each shard, in an account of their own, every minute. Their target is the `/echo` of
//! the replica that runs the job: the egress guard lets this account call exactly that, and nobody else.
//! No key opens the account and no user belongs to it.
//!
//! One replica, the same for all, looks up what became of each tick when it should long have run, and
//! counts it: on time, late or missed. If it goes, another one judges the last few ticks once more. If it
//! cannot tell for a while, since the store is away, say, it judges what it has left out afterwards.
//! Whichever replica is called counts a request that was sent before, with the help of the queue's
//! counters.
//!
//! On failure: what the store cannot tell now is judged when it can.

mod judge;
mod setup;

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::cluster::SharedCluster;
use crate::domain::audit::Author;
use crate::domain::{AccountId, AuditId, Timestamp};
use crate::queue::{SharedQueue, Window};
use crate::runtime::{Pause, Random, RunError, Worker};
use crate::store::{JobQuery, SharedStore, Write};
use crate::telemetry::metrics::{CANARY_TICKS, CanaryResult};

/// What the names of the canary's hosts end with. Nobody can resolve them.
pub const HOSTS: &str = ".canary.invalid";
/// What is asked for there, and in truth at the operations listener.
pub const PATH: &str = "/echo?canary";
/// The query by which `/echo` knows requests of the canary.
pub(super) const QUERY: &str = "canary";

/// How often it is looked whether there is a tick to judge.
const EVERY: Duration = Duration::from_secs(5);
/// How long after its instant a tick is judged.
const JUDGED_AFTER: Duration = Duration::from_secs(45);
/// How far back a replica judges that begins to: what its predecessor may have left out.
const LOOKED_BACK: Duration = Duration::from_secs(120);
/// How far back a replica judges that could not for a while: a longer outage is no news to anybody.
const LEFT_OUT: Duration = Duration::from_secs(3_600);
const MINUTE_MS: i64 = 60_000;
/// For how long it is known that a request has come.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Requests that wait to be compared with others.
const WAITING: usize = 1_024;
/// How long a loop pauses whose work is done.
const NOTHING_TO_DO: Duration = Duration::from_secs(3_600);
/// More jobs than one tick makes.
const JOBS: u32 = 1_000;

/// The account of the canary.
pub const fn account() -> AccountId {
    AccountId::from_bytes(*b"\0\0\0\0\0\0punc/canar")
}

/// A request of the canary: which job and attempt it says that it is of.
pub type Arrival = String;

/// Where `/echo` notes the requests of the canary.
pub type Arrivals = mpsc::Sender<Arrival>;

/// A place for requests to be noted, and where they are taken from.
pub fn arrivals() -> (Arrivals, mpsc::Receiver<Arrival>) {
    mpsc::channel(WAITING)
}

/// What the canary works with.
pub struct CanaryParts {
    /// Where its schedules and jobs are.
    pub store: SharedStore,
    /// What counts requests for all replicas.
    pub queue: SharedQueue,
    /// Who else could judge.
    pub cluster: SharedCluster,
    /// What the others call this replica.
    pub replica: String,
    /// How many shards there are.
    pub shards: u16,
    /// For ids.
    pub random: Random,
}

/// Keeps the schedules, and counts what becomes of their ticks.
pub struct Canary {
    parts: CanaryParts,
    arrived: mpsc::Receiver<Arrival>,
    /// Whether the schedules are there.
    is_set_up: bool,
    /// The last tick that has been judged, or that another replica has judged.
    judged: Option<Timestamp>,
    /// Whether this replica was the one to judge when that was last known.
    was_judge: bool,
}

impl Canary {
    /// A canary over these parts; requests come by `arrived`.
    pub fn new(parts: CanaryParts, arrived: mpsc::Receiver<Arrival>) -> Self {
        Self { parts, arrived, is_set_up: false, judged: None, was_judge: false }
    }

    /// Whether this replica is the one that judges: the first of those that lead shards. Absent while
    /// the cluster does not tell.
    async fn is_judge(&self) -> Option<bool> {
        let members = self.parts.cluster.members().await.ok()?;
        let leaders = members.iter().filter(|member| member.leads).map(|member| &member.name);
        Some(leaders.min() == Some(&self.parts.replica))
    }

    /// Counts requests that have come before.
    async fn count_doubled(&mut self, now: Timestamp) -> Result<(), RunError> {
        while let Ok(arrival) = self.arrived.try_recv() {
            let window = Window { span: REMEMBERED, limit: 1 };
            let verdict = self.parts.queue.count(&arrival, &[window], now).await?;
            if !verdict.allowed {
                tracing::warn!(request = arrival, "a request of the canary came twice");
                CANARY_TICKS.with(CanaryResult::Doubled).add(1);
            }
        }
        Ok(())
    }

    /// Judges all ticks that are due to be judged. Whoever is not the judge only keeps up.
    async fn judge(&mut self, now: Timestamp) -> Result<(), RunError> {
        let due = minute(now.minus(JUDGED_AFTER));
        let mut tick = *self.judged.get_or_insert(minute(now));
        if tick >= due {
            return Ok(());
        }
        let Some(is_judge) = self.is_judge().await else { return Ok(()) };
        let back = if is_judge && self.was_judge { LEFT_OUT } else { LOOKED_BACK };
        tick = tick.max(minute(now.minus(back)));
        (self.judged, self.was_judge) = (Some(tick), is_judge);
        if !is_judge {
            return Ok(());
        }
        while tick < due {
            tick = Timestamp::from_millis(tick.as_millis() + MINUTE_MS);
            self.judge_tick(tick).await?;
            self.judged = Some(tick);
        }
        Ok(())
    }

    async fn judge_tick(&self, tick: Timestamp) -> Result<(), RunError> {
        let query = JobQuery {
            schedule: None,
            status: None,
            trigger: None,
            from: Some(tick),
            to: Some(tick),
            after: None,
            offset: 0,
            limit: JOBS,
            max_response_bytes: 0,
            max_bytes: 1 << 20,
        };
        let page = self.parts.store.jobs(account(), &query).await?;
        for schedule in setup::schedules(self.parts.shards) {
            let result = judge::judge(tick, schedule, &page.jobs);
            if result != CanaryResult::OnTime {
                tracing::warn!(%schedule, %tick, ?result, "a tick of the canary was not kept");
            }
            CANARY_TICKS.with(result).add(1);
        }
        Ok(())
    }
}

#[async_trait]
impl Worker for Canary {
    async fn run_once(&mut self, now: Timestamp) -> Result<Pause, RunError> {
        if !self.is_set_up {
            setup::set_up(&self.parts, now).await?;
            self.is_set_up = true;
        }
        self.count_doubled(now).await?;
        self.judge(now).await?;
        Ok(Pause::For(EVERY))
    }
}

/// Lets the canary's schedules rest, if there are any, once: it was switched off.
pub struct Rest {
    store: SharedStore,
    random: Random,
    is_done: bool,
}

impl Rest {
    /// Lets rest what is in `store`.
    pub fn new(store: SharedStore, random: Random) -> Self {
        Self { store, random, is_done: false }
    }
}

#[async_trait]
impl Worker for Rest {
    async fn run_once(&mut self, now: Timestamp) -> Result<Pause, RunError> {
        if !self.is_done {
            let found = self.store.account(account()).await?;
            if found.is_some_and(|account| account.suspended_at.is_none()) {
                self.store.set_suspended(&write(&self.random, now), true).await?;
            }
            self.is_done = true;
        }
        Ok(Pause::For(NOTHING_TO_DO))
    }
}

/// A change that the service makes.
fn write(random: &Random, now: Timestamp) -> Write {
    let entry = AuditId::new(now, random.bits());
    Write { account: account(), now, author: Author::SERVICE, entry, once: None }
}

/// The minute that an instant is in.
fn minute(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis().div_euclid(MINUTE_MS) * MINUTE_MS)
}
