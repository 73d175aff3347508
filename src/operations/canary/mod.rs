//! The canary: small schedules that the service runs for itself, to measure if ticks run on time.
//!
//! There is one schedule for each shard, up to a maximum, in an account of its own. Each fires
//! every minute. The target is `/echo` of the replica that runs the job. The egress guard allows
//! this account exactly that target, and allows it to no other account. No API key opens the
//! account and no user belongs to it.
//!
//! One replica of the cluster is the judge. Some time after each tick it reads the tick's jobs and
//! counts the result: on time, late, missed or doubled. If the judge stops, its successor judges
//! the ticks of the last two minutes once more. If the judge cannot reach the store or the cluster
//! for a while, it judges the missing ticks of up to an hour afterwards.
//!
//! The replica that receives a canary request counts it in the queue's shared counters. A second
//! request for the same attempt is counted as doubled.
//!
//! On failure: a run that fails leaves its ticks for the next run.

mod judge;
mod setup;

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::cluster::SharedCluster;
use crate::domain::audit::Author;
use crate::domain::{AccountId, AuditId, Timestamp};
use crate::queue::{RateWindow, SharedQueue};
use crate::runtime::{LoopPause, Random, RunError, Worker};
use crate::store::{JobQuery, SharedStore, WriteContext};
use crate::telemetry::metrics::{CANARY_TICKS, CanaryResult};

/// The suffix of the canary's host names, which do not resolve in the DNS. The egress guard maps
/// them to the operations listener.
pub const HOSTS: &str = ".canary.invalid";
/// The path and query of a canary request.
pub const PATH: &str = "/echo?canary";
/// The query string by which `/echo` recognizes canary requests.
pub(super) const QUERY: &str = "canary";

/// The pause between two checks for ticks to judge.
const EVERY: Duration = Duration::from_secs(5);
/// The delay between a tick and its judgement.
const JUDGED_AFTER: Duration = Duration::from_secs(45);
/// The span that a new judge looks back: its predecessor may have left out ticks in it.
const TAKEOVER_LOOKBACK: Duration = Duration::from_secs(120);
/// The longest span that a judge catches up on after an outage. After a longer outage the older
/// ticks tell operators nothing new.
const MAX_LOOKBACK: Duration = Duration::from_secs(3_600);
const MINUTE_MS: i64 = 60_000;
/// The window in which a second request for the same attempt is recognized.
const REMEMBERED: Duration = Duration::from_secs(600);
/// The capacity of the channel from `/echo` to the canary, in requests.
const WAITING: usize = 1_024;
/// The pause of a worker that has no work left.
const NOTHING_TO_DO: Duration = Duration::from_secs(3_600);
/// The page size of the query for one tick's jobs. A tick makes fewer jobs, so one page is enough.
const JOBS: u32 = 1_000;

/// Returns the id of the canary's account.
pub const fn account() -> AccountId {
    AccountId::from_bytes(*b"\0\0\0\0\0\0punc/canar")
}

/// The job id and the attempt number that a canary request carries in its headers.
pub type Arrival = String;

/// The channel end through which `/echo` reports canary requests.
pub type Arrivals = mpsc::Sender<Arrival>;

/// Creates the channel from `/echo` to the canary.
pub fn arrivals() -> (Arrivals, mpsc::Receiver<Arrival>) {
    mpsc::channel(WAITING)
}

/// The dependencies of the canary.
pub struct CanaryParts {
    /// The store that holds its account, schedules and jobs.
    pub store: SharedStore,
    /// The queue, whose counters all replicas share.
    pub queue: SharedQueue,
    /// The cluster, from whose members the judge is chosen.
    pub cluster: SharedCluster,
    /// The name of this replica in the cluster.
    pub replica: String,
    /// The number of shards.
    pub shards: u16,
    /// The source of random bits for ids.
    pub random: Random,
}

/// Creates the canary's schedules and counts the results of their ticks.
pub struct Canary {
    parts: CanaryParts,
    arrived: mpsc::Receiver<Arrival>,
    /// `true` once the account and its schedules exist.
    is_set_up: bool,
    /// The last tick that has been judged, by this replica or by another.
    judged: Option<Timestamp>,
    /// `true` if this replica was the judge at the last check.
    was_judge: bool,
}

impl Canary {
    /// Creates a canary that receives requests through `arrived`.
    pub fn new(parts: CanaryParts, arrived: mpsc::Receiver<Arrival>) -> Self {
        Self { parts, arrived, is_set_up: false, judged: None, was_judge: false }
    }

    /// Returns `true` if this replica is the judge: the first by name of the replicas that take
    /// part in leading shards. Returns `None` if the cluster does not answer.
    async fn is_judge(&self) -> Option<bool> {
        let members = self.parts.cluster.members().await.ok()?;
        let leaders = members.iter().filter(|member| member.leads).map(|member| &member.name);
        Some(leaders.min() == Some(&self.parts.replica))
    }

    /// Counts the received requests, and reports those that arrived before as doubled.
    async fn count_doubled(&mut self, now: Timestamp) -> Result<(), RunError> {
        while let Ok(arrival) = self.arrived.try_recv() {
            let window = RateWindow { span: REMEMBERED, limit: 1 };
            let verdict = self.parts.queue.count(&arrival, &[window], now).await?;
            if !verdict.allowed {
                tracing::warn!(request = arrival, "canary request arrived more than once");
                CANARY_TICKS.with(CanaryResult::Doubled).add(1);
            }
        }
        Ok(())
    }

    /// Judges all ticks that are due for it. A replica that is not the judge only moves `judged`
    /// forward, so that it starts near the present if it becomes the judge.
    async fn judge(&mut self, now: Timestamp) -> Result<(), RunError> {
        let due = minute(now.minus(JUDGED_AFTER));
        let mut tick = *self.judged.get_or_insert(minute(now));
        if tick >= due {
            return Ok(());
        }
        let Some(is_judge) = self.is_judge().await else { return Ok(()) };
        let back = if is_judge && self.was_judge { MAX_LOOKBACK } else { TAKEOVER_LOOKBACK };
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
        let at = Some(tick);
        let query = JobQuery { from: at, to: at, ..JobQuery::newest(JOBS, 1 << 20) };
        let page = self.parts.store.jobs(account(), &query).await?;
        for schedule in setup::schedules(self.parts.shards) {
            let result = judge::judge(tick, schedule, &page.jobs);
            if result != CanaryResult::OnTime {
                tracing::warn!(%schedule, %tick, ?result, "canary tick did not run as expected");
            }
            CANARY_TICKS.with(result).add(1);
        }
        Ok(())
    }
}

#[async_trait]
impl Worker for Canary {
    async fn run_once(&mut self, now: Timestamp) -> Result<LoopPause, RunError> {
        if !self.is_set_up {
            setup::set_up(&self.parts, now).await?;
            self.is_set_up = true;
        }
        self.count_doubled(now).await?;
        self.judge(now).await?;
        Ok(LoopPause::For(EVERY))
    }
}

/// Suspends the canary's account, if it exists. Runs once, when the canary is switched off.
pub struct CanarySuspender {
    store: SharedStore,
    random: Random,
    is_done: bool,
}

impl CanarySuspender {
    /// Creates a worker that suspends the canary's account in `store`.
    pub fn new(store: SharedStore, random: Random) -> Self {
        Self { store, random, is_done: false }
    }
}

#[async_trait]
impl Worker for CanarySuspender {
    async fn run_once(&mut self, now: Timestamp) -> Result<LoopPause, RunError> {
        if !self.is_done {
            let found = self.store.account(account()).await?;
            if found.is_some_and(|account| account.suspended_at.is_none()) {
                self.store.set_suspended(&write(&self.random, now), true).await?;
            }
            self.is_done = true;
        }
        Ok(LoopPause::For(NOTHING_TO_DO))
    }
}

/// Returns the account, author and audit id of a change that the service itself makes.
fn write(random: &Random, now: Timestamp) -> WriteContext {
    let entry = AuditId::new(now, random.bits());
    WriteContext { account: account(), now, author: Author::SERVICE, entry, idempotency: None }
}

/// Returns the start of the minute that contains `at`.
fn minute(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis().div_euclid(MINUTE_MS) * MINUTE_MS)
}
