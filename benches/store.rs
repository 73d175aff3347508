//! Measures the cost of a job in the store: the time of each step, and the ratio of their sum to
//! the time in which the bare database inserts one row, with transactions of the same size.
//!
//! `cargo bench --bench store` measures SQLite and takes some seconds. For PostgreSQL, run
//! `tests/servers cargo bench --bench store`. In each round one minute passes, and every schedule
//! runs once. For PostgreSQL it also measures how long a commit takes while another transaction
//! holds the row of one of its jobs.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark measures real time and prints it"
)]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual::domain::audit::Author;
use punctual::domain::job::Trigger;
use punctual::domain::outcome::{Exchange, Response, Timings};
use punctual::domain::plan::UNLIMITED;
use punctual::domain::schedule::{CatchUpPolicy, Definition, HttpMethod, OverlapPolicy};
use punctual::domain::secret_key::SecretKey;
use punctual::domain::shard::ShardId;
use punctual::domain::ticket::HostKey;
use punctual::domain::{AccountId, AuditId, JobId, ScheduleId, Timestamp, VersionId};
use punctual::runtime::{Clock, Random};
use punctual::store::postgres::{self, PostgresStore};
use punctual::store::sqlite::{self, SqliteStore};
use punctual::store::{
    AttemptEnd, ClaimRequest, ClaimedJob, Completion, CompletionResult, ExecutorId, Fence, Fired,
    Firing, NewSchedule, NewVersion, SecretCipher, SharedStore, TickJob, WriteContext,
};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Database, Executor, PgConnection};
use support::cluster;
use support::profile::print_profile;

const SCHEDULES: usize = 20_000;
const ROUNDS: i64 = 3;
const BATCH: usize = 500;
const SHARD: ShardId = ShardId(0);
const MINUTE: Duration = Duration::from_secs(60);

fn main() {
    print_profile();
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let url = cluster::settings().into_iter().find(|(name, _)| *name == "PUNCTUAL_STORE_URL");
    runtime.block_on(async {
        let (name, bare, store) = match &url {
            Some((_, url)) => on_postgres(url).await,
            None => on_sqlite(folder.path()).await,
        };
        println!("bare {name}: {:.1} µs a row", micros(bare));
        let mut bench = Bench::new(store).await;
        for round in 1..=ROUNDS {
            let spent = bench.round().await;
            let steps = spent.iter().map(|(step, time)| format!("{step} {:.1}", micros(*time)));
            let all: Duration = spent.iter().map(|(_, time)| *time).sum();
            println!(
                "round {round}: {:.1} µs a job ({}) = {:.2} rows",
                micros(all),
                steps.collect::<Vec<_>>().join(", "),
                all.as_secs_f64() / bare.as_secs_f64()
            );
        }
        if let Some((_, url)) = &url {
            let (free, held) = bench.commits_beside_a_held_row(url).await;
            println!(
                "a commit of {BATCH} jobs: {free:.1?}; while one of their runs is held {held:.1?}"
            );
        }
    });
}

async fn on_sqlite(folder: &Path) -> (&'static str, Duration, SharedStore) {
    let options = SqliteConnectOptions::new()
        .filename(folder.join("bare.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let bare = bare_rows(
        options.connect().await.expect("open"),
        "CREATE TABLE bare (id BLOB PRIMARY KEY, body BLOB) WITHOUT ROWID",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})
         INSERT INTO bare SELECT randomblob(16), zeroblob(100) FROM n",
    );
    let bare = bare.await;
    let store =
        SqliteStore::open(&sqlite::SqliteSettings::new(folder.join("store.db")), &cipher()).await;
    let store = store.expect("open");
    store.migrate().await.expect("migrate");
    ("SQLite", bare, Arc::new(store))
}

async fn on_postgres(url: &str) -> (&'static str, Duration, SharedStore) {
    let bare = bare_rows(
        PgConnection::connect(url).await.expect("a connection"),
        "CREATE TABLE bare (id uuid PRIMARY KEY, body bytea)",
        "INSERT INTO bare SELECT gen_random_uuid(), decode(repeat('00', 100), 'hex')
         FROM generate_series(1, {})",
    );
    let bare = bare.await;
    let store =
        PostgresStore::open(&postgres::PostgresSettings::new(url), &cipher()).expect("open");
    store.migrate().await.expect("migrate");
    ("PostgreSQL", bare, Arc::new(store))
}

fn cipher() -> SecretCipher {
    let key = SecretKey { id: "bench".to_owned(), key: [7; 32].into() };
    SecretCipher::new(&key, &[], Random::system())
}

/// Returns the time per schedule, in microseconds.
fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6 / SCHEDULES as f64
}

/// Measures the time in which a database inserts one row per schedule, each with a key and 100
/// bytes.
async fn bare_rows<C>(mut connection: C, create: &'static str, insert: &str) -> Duration
where
    C: Connection,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
    for<'q> <C::Database as Database>::Arguments: sqlx::IntoArguments<C::Database>,
{
    let insert = insert.replace("{}", &BATCH.to_string());
    connection.execute(create).await.expect("a table");
    let start = Instant::now();
    for _ in 0..SCHEDULES / BATCH {
        let query = sqlx::query(AssertSqlSafe(insert.clone()));
        connection.execute(query).await.expect("rows");
    }
    start.elapsed()
}

struct Bench {
    store: SharedStore,
    fence: Fence,
    schedules: Vec<ScheduleId>,
    executor: ExecutorId,
    next: Timestamp,
}

impl Bench {
    async fn new(store: SharedStore) -> Self {
        let random = Random::system();
        let next = Clock::system().now();
        store.prepare(next).await.expect("room for jobs");
        let account = AccountId::new(next, random.bits());
        let write = || {
            let entry = AuditId::new(next, random.bits());
            WriteContext { account, now: next, author: Author::SERVICE, entry, idempotency: None }
        };
        assert!(store.create_account(&write(), "bench", UNLIMITED).await.expect("an account"));
        let mut schedules: Vec<_> =
            (0..SCHEDULES).map(|_| ScheduleId::new(next, random.bits())).collect();
        schedules.sort_unstable();
        for ids in schedules.chunks(BATCH) {
            let new: Vec<_> = ids.iter().map(|id| schedule(*id, next, &random)).collect();
            store.create_schedules(&write(), &new, None).await.expect("schedules");
        }
        let epoch = store.raise_epoch(SHARD, "bench", next).await.expect("an epoch");
        let fence = Fence { shard: SHARD, epoch };
        let executor = ExecutorId(random.bits());
        let lease = store.renew(executor, next.plus(Duration::from_hours(24)), next);
        lease.await.expect("a lease");
        Self { store, fence, schedules, executor, next }
    }

    /// Runs every schedule once. Returns the total time of each step.
    async fn round(&mut self) -> [(&'static str, Duration); 4] {
        let mut spent = [Duration::ZERO; 4];
        for ids in self.schedules.chunks(BATCH) {
            let ends = self.run(ids, &mut spent).await;
            let start = Instant::now();
            self.store.commit(self.next, &ends).await.expect("committed");
            spent[3] += start.elapsed();
        }
        self.next = self.next.plus(MINUTE);
        let [candidates, fire, claim, commit] = spent;
        [("candidates", candidates), ("fire", fire), ("claim", claim), ("commit", commit)]
    }

    /// Returns the times of two commits of a batch: one alone, and one while another transaction
    /// holds one of the jobs.
    async fn commits_beside_a_held_row(&self, url: &str) -> (Duration, Duration) {
        let mut batches = self.schedules.chunks(BATCH);
        let mut times = [Duration::ZERO; 2];
        for (time, is_held) in times.iter_mut().zip([false, true]) {
            let ids = batches.next().expect("schedules");
            let ends = self.run(ids, &mut Default::default()).await;
            let mut holder = PgConnection::connect(url).await.expect("a connection");
            let mut holder = holder.begin().await.expect("a transaction");
            if is_held {
                let job = u128::from_be_bytes(ends[BATCH / 2].job.to_bytes());
                let hold = "SELECT FROM runs WHERE id = $1::text::uuid FOR UPDATE";
                let hold = sqlx::query(hold).bind(format!("{job:032x}"));
                hold.execute(&mut *holder).await.expect("it is free");
            }
            let start = Instant::now();
            let committed = self.store.commit(self.next, &ends).await.expect("committed");
            *time = start.elapsed();
            let busy = committed
                .results
                .iter()
                .filter(|result| **result == CompletionResult::Busy)
                .count();
            assert_eq!(busy, usize::from(is_held));
            holder.rollback().await.expect("it is let go");
        }
        let [free, held] = times;
        (free, held)
    }

    /// Fires and claims the next tick of schedules. Returns the outcomes to commit, and adds the
    /// time of each step.
    async fn run(&self, ids: &[ScheduleId], spent: &mut [Duration; 4]) -> Vec<Completion> {
        let (now, next_tick) = (self.next, self.next.plus(MINUTE));
        let wanted: Vec<_> = ids.iter().map(|id| (SHARD, *id)).collect();
        let start = Instant::now();
        let candidates = self.store.candidates(&wanted, now).await.expect("candidates");
        spent[0] += start.elapsed();
        let firings: Vec<_> = candidates
            .iter()
            .map(|candidate| Firing {
                schedule: candidate.schedule,
                shard: SHARD,
                version: candidate.version,
                tick: candidate.tick,
                suspensions: candidate.suspensions,
                overlap_policy: candidate.overlap_policy,
                next_tick: Some(next_tick),
                jobs: vec![TickJob {
                    id: JobId::of_tick(candidate.schedule, candidate.tick),
                    trigger: Trigger::Schedule,
                }],
                skips: Vec::new(),
            })
            .collect();
        let start = Instant::now();
        let fired = self.store.fire(&[self.fence], now, &firings).await.expect("fired");
        spent[1] += start.elapsed();
        let Fired { tickets, .. } = fired;
        assert_eq!(tickets.len(), ids.len());
        let jobs: Vec<_> = tickets.iter().map(|ticket| ticket.job).collect();
        let claim = ClaimRequest { executor: self.executor, now };
        let start = Instant::now();
        let claimed = self.store.claim(&claim, &jobs).await.expect("claimed").taken;
        spent[2] += start.elapsed();
        assert_eq!(claimed.len(), ids.len());
        claimed.iter().map(|claimed| self.success(claimed, now)).collect()
    }

    fn success(&self, claimed: &ClaimedJob, now: Timestamp) -> Completion {
        let headers = [("content-type", "text/plain"), ("date", "Wed, 15 May 2024 12:00:00 GMT")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let response =
            Response { status: 200, headers, body: b"a short answer".to_vec(), truncated: false };
        let timings = Timings { first_byte_ms: Some(5), body_ms: Some(0), ..Timings::default() };
        Completion {
            job: claimed.job,
            attempt: 1,
            executor: self.executor,
            run: Some(claimed.run()),
            completed_at: now,
            exchange: Some(Exchange { result: Ok(response), timings, duration_ms: 7 }),
            end: AttemptEnd::Succeeded,
        }
    }
}

fn schedule(id: ScheduleId, next: Timestamp, random: &Random) -> NewSchedule {
    let definition = Definition {
        cron_expression: "* * * * *".into(),
        timezone: "UTC".into(),
        endpoint: "http://127.0.0.1:8000/hook".into(),
        http_method: HttpMethod::Get,
        body: None,
        headers: None,
        max_retries: 3,
        timeout_seconds: 30,
        expected_status_codes: None,
        sign_requests: false,
    };
    NewSchedule {
        id,
        shard: SHARD,
        name: "bench".into(),
        description: None,
        version: NewVersion {
            id: VersionId::new(next, random.bits()),
            definition,
            host: HostKey(1),
        },
        is_enabled: true,
        overlap_policy: OverlapPolicy::Allow,
        catch_up_policy: CatchUpPolicy::Last,
        next_tick: Some(next),
    }
}
