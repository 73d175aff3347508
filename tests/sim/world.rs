//! The state of a run: the service, its store file, the target, the users, and the clock.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual::domain::audit::Author;
use punctual::domain::hours::AccountHour;
use punctual::domain::job::{Attempt, Job, JobStatus};
use punctual::domain::plan::UNLIMITED;
use punctual::domain::schedule::{Skip, SkipReason};
use punctual::domain::{AccountId, AuditId, ChannelId, JobId, ScheduleId, Timestamp};
use punctual::runtime::{Clock, Random, RunError};
use punctual::store::{
    AccountStore, ClaimStore, HourStore, JobQuery, JobStore, ScheduleStore, SkipQuery, WriteContext,
};
use tempfile::TempDir;

use crate::alerts::Receiver;
use crate::history::History;
use crate::process::{Outside, Process, run};
use crate::replicas::Etcd;
use crate::seeded_random::SeededRandom;
use crate::target::Target;

/// The timeout, in real time, for the service to settle.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The longest pause of a shard that could not be served.
pub const MAX_PAUSE: Duration = Duration::from_secs(2);

/// The state of a run.
pub struct World {
    pub seed: u64,
    pub decisions: SeededRandom,
    pub clock: Clock,
    pub target: Target,
    pub receiver: Receiver,
    /// The channel that all schedules alert.
    pub channel: Option<ChannelId>,
    /// The schedules with a preference for that channel.
    pub alerting_schedules: HashSet<ScheduleId>,
    pub account: AccountId,
    pub history: History,
    /// A readable log of all steps.
    pub trace: Vec<String>,
    /// The violations so far.
    pub broken: Vec<String>,
    random: Random,
    folder: TempDir,
    process: Option<Process>,
    /// The final jobs, as they were first seen.
    finals: HashMap<JobId, Job>,
    /// The last seen revision and next tick of each schedule.
    next_ticks: HashMap<ScheduleId, (i64, Timestamp)>,
    pub outside: Outside,
    /// The replica that takes no more turns.
    pub gone: Option<usize>,
}

impl World {
    /// A world with a single replica.
    pub async fn new(seed: u64) -> Self {
        Self::begin(seed, |_| None).await
    }

    /// A world with a cluster of replicas.
    pub async fn of_cluster(seed: u64) -> Self {
        Self::begin(seed, |clock| Some(Arc::new(Etcd::new(clock.clone())))).await
    }

    async fn begin(seed: u64, etcd: impl FnOnce(&Clock) -> Option<Arc<Etcd>>) -> Self {
        let decisions = SeededRandom::new(seed);
        let minutes = i64::try_from(decisions.below(1_000_000)).expect("small");
        let start = 1_900_000_000_000 + minutes * 60_000 + 12_345;
        let clock = Clock::manual(Timestamp::from_millis(start));
        let target = Target::start(seed, clock.clone()).await;
        let mut world = Self {
            seed,
            decisions,
            target,
            receiver: Receiver::start(seed).await,
            channel: None,
            alerting_schedules: HashSet::new(),
            account: AccountId::new(clock.now(), 1),
            history: History::default(),
            trace: Vec::new(),
            broken: Vec::new(),
            random: Random::seeded(seed.wrapping_add(1)),
            folder: tempfile::tempdir().expect("a folder"),
            process: None,
            finals: HashMap::new(),
            next_ticks: HashMap::new(),
            outside: Outside { etcd: etcd(&clock), ..Outside::default() },
            gone: None,
            clock,
        };
        world.start().await;
        let write = world.write();
        let made = world.process().sqlite.create_account(&write, "sim", UNLIMITED).await;
        assert!(made.expect("created"));
        world.make_channel().await;
        world
    }

    /// Returns a write on the data of the account, now.
    pub fn write(&self) -> WriteContext {
        let now = self.clock.now();
        let entry = AuditId::new(now, self.random.bits());
        WriteContext {
            account: self.account,
            now,
            author: Author::SERVICE,
            entry,
            idempotency: None,
        }
    }

    pub fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("always one but while it restarts")
    }

    pub fn note(&mut self, what: impl std::fmt::Display) {
        self.trace.push(format!("{} {what}", self.clock.now()));
    }

    pub fn record_violation(&mut self, what: impl std::fmt::Display) {
        self.note(format_args!("BROKEN {what}"));
        self.broken.push(what.to_string());
    }

    async fn start(&mut self) {
        self.target.next_process();
        let file = self.folder.path().join("sim.db");
        self.process = Some(Process::start(&file, &self.clock, &self.random, &self.outside).await);
    }

    /// Crashes the service and starts it again.
    pub async fn restart(&mut self) {
        if let Some(process) = self.process.take() {
            if process.tasks.has_failed() {
                self.record_violation("a task that the service needs has panicked");
            }
            process.crash().await;
        }
        self.note("died, started again");
        self.start().await;
    }

    /// Runs the leader until it has nothing to do. An armed fault may stop it. In a cluster, runs
    /// some replicas.
    pub async fn lead(&mut self) {
        if self.is_cluster() {
            return self.lead_random_replicas().await;
        }
        let (clock, gate) = (self.clock.clone(), self.process().gate.clone());
        let leader = self.process().leader.as_mut().expect("here");
        let ended = tokio::select! {
            ended = run(leader, &clock) => Some(ended),
            () = gate.died() => None,
        };
        match ended {
            Some(ended) => self.record_lead_result(ended),
            None => self.restart().await,
        }
    }

    /// Runs the leader after the pauses of all shards that could not be served.
    pub async fn lead_after_pauses(&mut self) {
        self.clock.advance(MAX_PAUSE);
        self.lead_until_quiet().await;
    }

    /// Records the result of a leader's turn.
    pub fn record_lead_result(&mut self, ended: Result<(), RunError>) {
        if let Err(error) = ended {
            self.note(format_args!("leader failed: {error}"));
        }
    }

    /// Runs the job rescuer once. An armed fault may stop it.
    pub async fn rescue_jobs(&mut self) {
        let (clock, gate) = (self.clock.clone(), self.process().gate.clone());
        let ended = tokio::select! {
            ended = run(&mut self.process().rescuer, &clock) => Some(ended),
            () = gate.died() => None,
        };
        match ended {
            Some(Err(error)) => self.note(format_args!("rescuing jobs failed: {error}")),
            Some(Ok(())) => {}
            None => self.restart().await,
        }
    }

    /// Waits until nothing more happens without the clock or the loops. The remaining jobs then
    /// wait for their time, the target or the job rescuer. Short pauses of the service are skipped
    /// by advancing the clock a little.
    pub async fn settle(&mut self) {
        let began = Instant::now();
        let (mut calm, mut stuck, mut last) = (0, 0, (0, 0));
        while calm < 3 {
            if self.process().gate.is_dead() {
                self.restart().await;
            }
            live_for(Duration::from_millis(1)).await;
            let (now, open) = (self.clock.now(), self.target.open());
            let process = self.process();
            let running = process.executor.running();
            let deliveries = process.notifier.under_way();
            let rests = process.is_idle(now) && running == open && deliveries == 0;
            let claims = process.sqlite.expired(forever(), 10_000).await.expect("read").len();
            let seen = (running, claims + deliveries);
            calm = if rests && seen == last { calm + 1 } else { 0 };
            stuck = if seen == last { stuck + 1 } else { 0 };
            last = seen;
            if stuck > 25 {
                self.clock.advance(Duration::from_millis(50));
                stuck = 0;
            }
            if began.elapsed() > TIMEOUT {
                self.record_violation(format_args!(
                    "never rests: {running} running, {open} open at the target"
                ));
                return;
            }
        }
    }

    /// Returns all jobs, newest first.
    pub async fn jobs(&mut self) -> Vec<Job> {
        let (account, sqlite) = (self.account, self.process().sqlite.clone());
        let mut query = JobQuery { max_response_bytes: 64, ..JobQuery::newest(1_000, 8 << 20) };
        let mut all = Vec::new();
        loop {
            let page = sqlite.jobs(account, &query).await.expect("read");
            query.after = page.jobs.last().map(|job| job.id);
            all.extend(page.jobs);
            if !page.has_more {
                return all;
            }
        }
    }

    /// Returns the hours in which jobs ended.
    pub async fn hours(&mut self) -> Vec<AccountHour> {
        let (account, sqlite) = (self.account, self.process().sqlite.clone());
        sqlite.hours(account, Timestamp::from_millis(0)).await.expect("read")
    }

    /// Returns the attempts of a job.
    pub async fn attempts(&mut self, job: JobId) -> Vec<Attempt> {
        let (account, sqlite) = (self.account, self.process().sqlite.clone());
        sqlite.job(account, job).await.expect("read").expect("listed").1
    }

    /// Returns the skips of a schedule.
    pub async fn skips(&mut self, id: ScheduleId) -> Vec<Skip> {
        let (account, sqlite) = (self.account, self.process().sqlite.clone());
        let query = SkipQuery { from: None, to: None, after: None, limit: 100_000 };
        sqlite.skips(account, id, &query).await.expect("read").skips
    }

    /// Requires that the catch-up policy skips only ticks that are more than one minute late.
    async fn watch_skips(&mut self, id: ScheduleId) {
        let late_before = self.clock.now().minus(ALWAYS_RUNS);
        for skip in self.skips(id).await {
            if skip.reason == SkipReason::CatchUp.as_str() && skip.last >= late_before {
                self.record_violation(format_args!(
                    "TICK-2: {id} skipped ticks that were not late: {skip:?}"
                ));
            }
        }
    }

    /// Checks the invariants that always hold: final jobs do not change, and next ticks only move
    /// forward.
    pub async fn watch(&mut self) {
        for job in self.jobs().await {
            let known = self.finals.get(&job.id).cloned();
            if let Some(known) = known.filter(|known| *known != job) {
                self.record_violation(format_args!("JOB-2: {known:?} became {job:?}"));
            }
            if matches!(job.status, JobStatus::Success | JobStatus::Failed) {
                self.finals.insert(job.id, job);
            }
        }
        for id in self.history.alive() {
            let (account, sqlite) = (self.account, self.process().sqlite.clone());
            let Some(schedule) = sqlite.schedule(account, id).await.expect("read") else {
                self.record_violation(format_args!("{id} has vanished"));
                continue;
            };
            self.watch_skips(id).await;
            let Some(tick) = schedule.next_tick else { continue };
            let seen = self.next_ticks.insert(id, (schedule.revision, tick));
            if let Some((revision, before)) = seen
                && revision == schedule.revision
                && tick < before
            {
                self.record_violation(format_args!(
                    "TICK-3: {id} went back from {before} to {tick}"
                ));
            }
        }
    }
}

/// A tick that is at most this late always runs.
const ALWAYS_RUNS: Duration = Duration::from_secs(60);

pub fn forever() -> Timestamp {
    Timestamp::from_millis(i64::MAX)
}

/// Waits in real time: for a step of waiting for a condition, or for a simulated duration.
pub async fn live_for(span: Duration) {
    tokio::time::sleep(span).await;
}
