//! A fresh store with two accounts and a leader, and helpers for the usual steps.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use punctual::domain::audit::{Action, Author};
use punctual::domain::job::{Attempt, Job, JobStatus, Trigger};
use punctual::domain::outcome::{ErrorCode, Exchange, Failure, Response, Timings};
use punctual::domain::plan::UNLIMITED;
use punctual::domain::schedule::{
    CatchUpPolicy, Definition, HttpMethod, OverlapPolicy, Schedule, Skip,
};
use punctual::domain::shard::ShardId;
use punctual::domain::ticket::{HostKey, Ticket};
use punctual::domain::{AccountId, AuditId, JobId, ScheduleId, Timestamp, VersionId};
use punctual::runtime::{Random, TaskKind, Tasks};
use punctual::store::{
    AttemptEnd, Candidate, ClaimRequest, ClaimedJob, Committed, Completion, CompletionResult,
    ExecutorId, ExpectedState, Fence, Fired, Firing, JobQuery, NewJob, NewSchedule, NewVersion,
    ScheduleQuery, ScheduleSort, ScheduleState, SharedStore, SkipQuery, SortField, TickJob,
    WriteContext,
};

use super::flaky::FlakyStore;
use crate::conformance::faults::Faults;

/// The environment of an adapter's store, such as its folder. Dropped after the test.
pub type Home = Box<dyn Any + Send + Sync>;

/// The host that all schedules of a world call.
pub const HOST: HostKey = HostKey(u64::MAX - 6);
/// The shard of all schedules of a world.
pub const SHARD: ShardId = ShardId(0);

/// Returns the time at which the leases of executors end, unless a test renews them.
pub fn lease_end() -> Timestamp {
    minute(1).plus(Duration::from_secs(30))
}

pub struct World {
    pub store: SharedStore,
    /// The same store without faults, for calls whose result depends on how often they are made.
    pub steady: SharedStore,
    /// The account whose data the test works on.
    pub account: AccountId,
    /// Another account.
    pub foreign: AccountId,
    pub fence: Fence,
    pub random: Random,
    pub executor: ExecutorId,
    tasks: Tasks,
    _home: Home,
}

/// The result of a firing that passed its fence.
pub struct FiredBatch {
    pub tickets: Vec<Ticket>,
    pub held: Vec<JobId>,
    pub overlapped: u64,
    pub advanced: Vec<(ScheduleId, Option<Timestamp>)>,
    pub stale: Vec<ScheduleId>,
}

/// Returns the result of a firing in the world's shard if the shard has a newer leader.
pub fn fenced() -> Fired {
    Fired { fenced: vec![SHARD], ..Fired::default() }
}

/// Returns the instant `n` minutes after the start of the world.
pub fn minute(n: i64) -> Timestamp {
    let start: Timestamp = "2024-05-15T12:00:00Z".parse().expect("an instant");
    Timestamp::from_millis(start.as_millis() + n * 60_000)
}

/// Returns an instant a little after `at`, when a leader or an executor handles it.
pub fn soon(at: Timestamp) -> Timestamp {
    at.plus(Duration::from_millis(50))
}

pub fn definition() -> Definition {
    Definition {
        cron_expression: "* * * * *".into(),
        timezone: "Europe/Berlin".into(),
        endpoint: "https://example.com/hook".into(),
        http_method: HttpMethod::Post,
        body: Some("{\"a\":1}".into()),
        headers: Some("{\"x-a\":\"1\"}".into()),
        max_retries: 3,
        timeout_seconds: 30,
        expected_status_codes: None,
        sign_requests: false,
    }
}

pub fn failure() -> Failure {
    let message = "the endpoint answered with status 503".into();
    Failure { code: ErrorCode::HttpStatus, message, retryable: true }
}

/// Returns an exchange with a response.
pub fn answered(status: u16, body: &[u8]) -> Exchange {
    let headers = vec![("content-type".into(), "text/plain".into())];
    let response = Response { status, headers, body: body.to_vec(), truncated: false };
    let timings =
        Timings { dns_ms: Some(1), connect_ms: None, first_byte_ms: Some(5), body_ms: Some(0) };
    Exchange { result: Ok(response), timings, duration_ms: 7 }
}

/// Returns a query for all schedules, oldest first.
pub fn every_schedule() -> ScheduleQuery {
    ScheduleQuery {
        contains: None,
        is_enabled: None,
        http_method: None,
        is_failing: None,
        sort: ScheduleSort { field: SortField::CreatedAt, descending: false },
        after: None,
        offset: 0,
        limit: 1_000,
        max_bytes: usize::MAX,
    }
}

/// Returns a query for all jobs, newest first.
pub fn every_job() -> JobQuery {
    JobQuery { max_response_bytes: usize::MAX, ..JobQuery::newest(100, usize::MAX) }
}

/// Returns a write by the service.
pub fn write(account: AccountId, now: Timestamp, random: u128) -> WriteContext {
    WriteContext {
        account,
        now,
        author: Author::SERVICE,
        entry: AuditId::new(now, random),
        idempotency: None,
    }
}

impl World {
    pub async fn new((store, home): (SharedStore, Home)) -> Self {
        Self::over(store.clone(), store, home).await
    }

    /// Creates a world whose calls of the store meet faults.
    pub async fn flaky((steady, home): (SharedStore, Home), faults: &Arc<Faults>) -> Self {
        let store = FlakyStore { inner: steady.clone(), faults: faults.clone(), is_told: false };
        Self::over(Arc::new(store), steady, home).await
    }

    async fn over(store: SharedStore, steady: SharedStore, home: Home) -> Self {
        let random = Random::seeded(42);
        let [account, foreign] = [1, 2].map(|n| AccountId::new(minute(0), n));
        for (id, name) in [(account, "own"), (foreign, "foreign")] {
            let write = write(id, minute(0), random.bits());
            let made = store.create_account(&write, name, UNLIMITED).await;
            assert!(made.expect("create an account"));
        }
        assert_eq!(store.set_up_shards(4).await.expect("set up the shards"), 4);
        let epoch = store.raise_epoch(SHARD, "replica", minute(0)).await.expect("raise the epoch");
        let fence = Fence { shard: SHARD, epoch };
        let executor = ExecutorId(random.bits());
        let lease = steady.renew(executor, lease_end(), minute(0));
        lease.await.expect("begin the lease");
        let tasks = Tasks::new();
        Self { store, steady, account, foreign, fence, random, executor, tasks, _home: home }
    }

    /// Runs a future concurrently with the test. Returns a future of its output.
    pub fn spawn<F>(&self, future: F) -> impl Future<Output = F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let task = self.tasks.spawn(TaskKind::Command, future);
        async move { task.await.expect("joined").expect("it did not panic") }
    }

    pub fn write(&self, now: Timestamp) -> WriteContext {
        self.write_for(self.account, now)
    }

    /// Returns a write to an account's data.
    pub fn write_for(&self, account: AccountId, now: Timestamp) -> WriteContext {
        write(account, now, self.random.bits())
    }

    pub fn new_version(&self, definition: Definition) -> NewVersion {
        NewVersion { id: VersionId::new(minute(0), self.random.bits()), definition, host: HOST }
    }

    /// Returns a schedule that is not stored yet. It is due each minute, from minute 1 on.
    pub fn new_schedule(&self) -> NewSchedule {
        NewSchedule {
            id: ScheduleId::new(minute(0), self.random.bits()),
            shard: SHARD,
            name: "a schedule".into(),
            description: None,
            version: self.new_version(definition()),
            is_enabled: true,
            overlap_policy: OverlapPolicy::Allow,
            catch_up_policy: CatchUpPolicy::Last,
            next_tick: Some(minute(1)),
        }
    }

    /// Stores a schedule that differs from the default one by `change`.
    pub async fn schedule_with(&self, change: impl FnOnce(&mut NewSchedule)) -> ScheduleId {
        let mut new = self.new_schedule();
        change(&mut new);
        let id = new.id;
        self.store.create_schedules(&self.write(minute(0)), &[new], None).await.expect("create");
        id
    }

    pub async fn schedule(&self) -> ScheduleId {
        self.schedule_with(|_| {}).await
    }

    pub async fn read(&self, id: ScheduleId) -> Schedule {
        self.store.schedule(self.account, id).await.expect("read").expect("a schedule")
    }

    /// Returns a change that leaves every field as it is.
    pub async fn change(&self, id: ScheduleId) -> ScheduleState {
        let now = self.read(id).await;
        ScheduleState {
            action: Action::ScheduleUpdated,
            expected: ExpectedState { revision: now.revision, next_tick: now.next_tick },
            name: now.name,
            description: now.description,
            version: None,
            is_enabled: now.is_enabled,
            pause: now.pause,
            overlap_policy: now.overlap_policy,
            catch_up_policy: now.catch_up_policy,
            next_tick: now.next_tick,
            superseded: None,
        }
    }

    /// Reads the candidates for firing these schedules on time.
    pub async fn candidates(&self, ids: &[ScheduleId]) -> Vec<Candidate> {
        let ids: Vec<_> = ids.iter().map(|id| (SHARD, *id)).collect();
        self.store.candidates(&ids, minute(0)).await.expect("read")
    }

    /// Returns a firing of the stored next tick. It creates one job and advances to the next
    /// minute.
    pub async fn firing(&self, id: ScheduleId) -> Firing {
        let schedule = self.read(id).await;
        let tick = schedule.next_tick.expect("a next tick");
        let found = self.candidates(&[id]).await;
        let suspensions = found.first().map_or(0, |candidate| candidate.suspensions);
        Firing {
            schedule: id,
            shard: SHARD,
            version: schedule.version,
            tick,
            suspensions,
            overlap_policy: schedule.overlap_policy,
            next_tick: Some(tick.plus(Duration::from_secs(60))),
            jobs: vec![TickJob { id: JobId::of_tick(id, tick), trigger: Trigger::Schedule }],
            skips: Vec::new(),
        }
    }

    pub async fn fire(&self, now: Timestamp, firings: &[Firing]) -> FiredBatch {
        loop {
            let fired = self.store.fire(&[self.fence], now, firings).await.expect("fire");
            let Fired { tickets, held, overlapped, advanced, stale, busy, fenced } = fired;
            assert_eq!(fenced, [], "fenced");
            if busy.is_empty() {
                return FiredBatch { tickets, held, overlapped, advanced, stale };
            }
            // A call that the test has dropped can still hold locks for a moment, so try again.
            assert_eq!(advanced, [], "all wait or none");
        }
    }

    /// Fires the stored next tick when it is due. Returns the tickets.
    pub async fn fire_next(&self, id: ScheduleId) -> Vec<Ticket> {
        let firing = self.firing(id).await;
        self.fire(soon(firing.tick), &[firing]).await.tickets
    }

    /// Fires the next tick, which starts one job. Returns this job.
    pub async fn tick_job(&self, id: ScheduleId) -> JobId {
        let tickets = self.fire_next(id).await;
        assert_eq!(tickets.len(), 1, "one job starts");
        tickets[0].job
    }

    /// Returns an id for a new job.
    pub fn job_id(&self, now: Timestamp) -> JobId {
        JobId::new(now, self.random.bits())
    }

    /// Creates a manual job.
    pub async fn manual_job(&self, schedule: ScheduleId, now: Timestamp) -> JobId {
        let new = NewJob { id: self.job_id(now), schedule };
        let ticket =
            self.store.create_job(&self.write(now), &new, None).await.expect("create a job");
        ticket.ticket().expect("a schedule").job
    }

    pub fn claim_at(&self, now: Timestamp) -> ClaimRequest {
        ClaimRequest { executor: self.executor, now }
    }

    /// Returns a claim of another executor, whose lease ends with that of the world's executor.
    pub async fn others_claim(&self, number: u128, now: Timestamp) -> ClaimRequest {
        let executor = ExecutorId(number);
        self.steady.renew(executor, lease_end(), minute(0)).await.expect("begin a lease");
        ClaimRequest { executor, now }
    }

    /// Returns a tick's job of the default schedule as its first claim, at `now`, returns it.
    pub async fn first_claimed(&self, id: ScheduleId, job: JobId, now: Timestamp) -> ClaimedJob {
        ClaimedJob {
            job,
            account: self.account,
            schedule: id,
            shard: SHARD,
            version: self.read(id).await.version,
            trigger: Trigger::Schedule,
            was_held: false,
            attempt: 1,
            max_attempts: 3,
            started_at: now,
            first_started_at: now,
            definition: definition(),
            signing_secrets: Vec::new(),
        }
    }

    pub async fn claim(&self, now: Timestamp, jobs: &[JobId]) -> Vec<ClaimedJob> {
        self.store.claim(&self.claim_at(now), jobs).await.expect("claim").taken
    }

    /// Returns the end of the running attempt, 10 ms after its start.
    pub fn completion(
        &self,
        claimed: &ClaimedJob,
        exchange: Option<Exchange>,
        end: AttemptEnd,
    ) -> Completion {
        Completion {
            job: claimed.job,
            attempt: claimed.attempt,
            executor: self.executor,
            run: Some(claimed.run()),
            completed_at: claimed.started_at.plus(Duration::from_millis(10)),
            exchange,
            end,
        }
    }

    pub async fn commit(&self, now: Timestamp, completions: &[Completion]) -> Committed {
        self.store.commit(now, completions).await.expect("commit")
    }

    /// Claims a job at `now` and ends its attempt.
    pub async fn run(&self, now: Timestamp, job: JobId, end: AttemptEnd) -> Committed {
        let claimed = self.claim(now, &[job]).await;
        assert_eq!(claimed.len(), 1, "{job} can be claimed");
        let exchange = match &end {
            AttemptEnd::Succeeded => answered(200, b"fine"),
            AttemptEnd::Failed(_) | AttemptEnd::Retry(..) => answered(503, b"not now"),
        };
        let completion = self.completion(&claimed[0], Some(exchange), end);
        let committed = self.commit(soon(now), &[completion]).await;
        assert!(matches!(committed.results[..], [CompletionResult::Applied(_)]), "{committed:?}");
        committed
    }

    pub async fn job(&self, id: JobId) -> Job {
        self.job_and_attempts(id).await.0
    }

    pub async fn job_and_attempts(&self, id: JobId) -> (Job, Vec<Attempt>) {
        self.store.job(self.account, id).await.expect("read").expect("a job")
    }

    pub async fn status(&self, id: JobId) -> JobStatus {
        self.job(id).await.status
    }

    /// Returns the ids of the jobs that a query lists.
    pub async fn listed(&self, query: &JobQuery) -> Vec<JobId> {
        let page = self.store.jobs(self.account, query).await.expect("list");
        page.jobs.iter().map(|job| job.id).collect()
    }

    pub async fn skips(&self, id: ScheduleId) -> Vec<Skip> {
        let query = SkipQuery { from: None, to: None, after: None, limit: 1_000 };
        self.store.skips(self.account, id, &query).await.expect("list skips").skips
    }
}
