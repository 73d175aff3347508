//! Commands and an executor in one process on the embedded store, with a watched queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use punctual::accounts::Accounts;
use punctual::cluster::single::SingleNode;
use punctual::domain::audit::Author;
use punctual::domain::plan::Plans;
use punctual::domain::shard::{Epoch, ShardId};
use punctual::domain::ticket::Ticket;
use punctual::domain::{AccountId, AuditId, JobId, ScheduleId, Timestamp};
use punctual::executor::{self, Executor};
use punctual::local_executor::LocalHandover;
use punctual::outbound;
use punctual::queue::memory::MemoryQueue;
use punctual::queue::{
    Capacity, DueTicks, IndexAnswer, OwnedSchedule, Queue, QueueError, RateVerdict, RateWindow,
    Result, ShardChanges,
};
use punctual::runtime::{Clock, Random, Tasks};
use punctual::schedules::{self, Schedules};
use punctual::store::sqlite::{SqliteSettings, SqliteStore};
use punctual::store::{JobStore, LeadershipStore, NewJob, WriteContext};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tempfile::TempDir;
use tokio::sync::{Notify, watch};

use crate::harness::keys::cipher;
use crate::harness::recorder::Recorder;

/// The shared parts of the commands and the executor.
pub struct Core {
    pub queue: Arc<WatchedQueue>,
    pub target: Recorder,
    pub tasks: Tasks,
    plans: Arc<Plans>,
    store: Arc<SqliteStore>,
    shards: u16,
    client: outbound::Client,
    clock: Clock,
    random: Random,
    folder: TempDir,
}

impl Core {
    pub async fn start(plans: Plans) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = SqliteSettings::new(folder.path().join("punctual.db"));
        let store = Arc::new(SqliteStore::open(&settings, &cipher()).await.expect("opened"));
        store.migrate().await.expect("migrated");
        let shards = store.set_up_shards(1).await.expect("set up");
        let (clock, random, tasks) = (Clock::system(), Random::seeded(3), Tasks::new());
        let allow = vec!["127.0.0.0/8".parse().expect("a network")];
        let outbound =
            outbound::OutboundSettings { allow, ..outbound::OutboundSettings::default() };
        let client = outbound::Client::new(outbound, clock.clone(), &tasks).expect("a client");
        let (queue, target, plans) = (Arc::default(), Recorder::start().await, Arc::new(plans));
        Self { queue, target, tasks, plans, store, shards, client, clock, random, folder }
    }

    pub fn accounts(&self) -> Accounts {
        let Self { store, clock, random, plans, .. } = self;
        Accounts::new(store.clone(), clock.clone(), random.clone(), plans.clone())
    }

    /// Creates commands. With `local_executor`, that executor may run their jobs.
    pub fn schedules(&self, local_executor: Option<&Executor>) -> Schedules {
        Schedules::new(schedules::ScheduleParts {
            store: self.store.clone(),
            queue: self.queue.clone(),
            outbound: self.client.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            tasks: self.tasks.clone(),
            shards: self.shards,
            plans: self.plans.clone(),
            handover: local_executor
                .map(|executor| Arc::new(executor.starter()) as Arc<dyn LocalHandover>),
        })
    }

    /// Creates a job that has no ticket yet.
    pub async fn job(&self, account: AccountId, schedule: ScheduleId) -> Ticket {
        let now = self.clock.now();
        let entry = AuditId::new(now, self.random.bits());
        let write =
            WriteContext { account, now, author: Author::SERVICE, entry, idempotency: None };
        let job = NewJob { id: JobId::new(now, self.random.bits()), schedule };
        let made = self.store.create_job(&write, &job, None).await.expect("made");
        made.ticket().expect("a schedule")
    }

    /// Locks the store against writes until the result is dropped.
    pub async fn hold_writes(&self) -> SqliteConnection {
        let file = self.folder.path().join("punctual.db");
        let options = SqliteConnectOptions::new().filename(file);
        let mut holder = options.connect().await.expect("connected");
        sqlx::query("BEGIN IMMEDIATE").execute(&mut holder).await.expect("begun");
        holder
    }

    pub fn executor(&self, settings: executor::ExecutorSettings) -> Executor {
        let parts = executor::ExecutorParts {
            alerts: Arc::default(),
            store: self.store.clone(),
            queue: self.queue.clone(),
            cluster: Arc::new(SingleNode::new("test", self.shards)),
            replica: "test".into(),
            plans: self.plans.clone(),
            client: self.client.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
        };
        Executor::start(settings, parts, &self.tasks)
    }
}

/// A queue that counts calls and can be made unreachable.
#[derive(Default)]
pub struct WatchedQueue {
    inner: MemoryQueue,
    /// The number of takes.
    pub taken: AtomicUsize,
    /// The number of pushed tickets.
    pub pushed: AtomicUsize,
    /// `true` while the queue rejects pushes and takes.
    pub is_away: AtomicBool,
    /// `true` while the queue replaces one that replicas share.
    pub is_replacement: AtomicBool,
    /// The number of reads of the due index.
    due_reads: AtomicUsize,
    /// The shard whose due index does not respond.
    silent: watch::Sender<Option<ShardId>>,
}

impl WatchedQueue {
    /// Removes and returns the content of the queue.
    pub async fn left(&self) -> Vec<JobId> {
        let all = Capacity { total: 99, per_account: 99, per_host: 99, ..Capacity::default() };
        let (tickets, _) = self.inner.take(Clock::system().now(), &all).await.expect("taken");
        tickets.into_iter().map(|ticket| ticket.job).collect()
    }

    /// Lets only the due index of this shard not respond.
    pub fn silence(&self, shard: Option<ShardId>) {
        self.silent.send_replace(shard);
    }

    /// Returns the number of reads of the due index.
    pub fn due_reads(&self) -> usize {
        self.due_reads.load(Ordering::Relaxed)
    }

    fn is_there(&self, operation: &'static str) -> Result<()> {
        match self.is_away.load(Ordering::Relaxed) {
            true => Err(QueueError::new(operation, "away")),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Queue for WatchedQueue {
    async fn adopt(&self, shard: ShardId, epoch: Epoch) -> Result<IndexAnswer<()>> {
        self.inner.adopt(shard, epoch).await
    }

    async fn rebuild(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Timestamp)],
    ) -> Result<IndexAnswer<()>> {
        self.inner.rebuild(shard, epoch, entries).await
    }

    async fn set_due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Option<Timestamp>)],
    ) -> Result<IndexAnswer<()>> {
        self.inner.set_due(shard, epoch, entries).await
    }

    async fn due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        (after, now): (Option<Timestamp>, Timestamp),
        limit: usize,
    ) -> Result<IndexAnswer<DueTicks>> {
        self.due_reads.fetch_add(1, Ordering::Relaxed);
        let mut silent = self.silent.subscribe();
        silent.wait_for(|silent| *silent != Some(shard)).await.expect("it is there");
        self.inner.due(shard, epoch, (after, now), limit).await
    }

    async fn hint(&self, shard: ShardId, changes: &ShardChanges) -> Result<()> {
        self.inner.hint(shard, changes).await
    }

    async fn take_hints(&self, shard: ShardId, limit: usize) -> Result<ShardChanges> {
        self.inner.take_hints(shard, limit).await
    }

    async fn push(&self, tickets: &[Ticket]) -> Result<()> {
        self.is_there("push")?;
        self.pushed.fetch_add(tickets.len(), Ordering::Relaxed);
        self.inner.push(tickets).await
    }

    async fn put_back(&self, tickets: &[Ticket]) -> Result<()> {
        self.inner.put_back(tickets).await
    }

    async fn take(
        &self,
        now: Timestamp,
        room: &Capacity,
    ) -> Result<(Vec<Ticket>, Option<Timestamp>)> {
        self.is_there("take")?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.inner.take(now, room).await
    }

    async fn count(
        &self,
        subject: &str,
        windows: &[RateWindow],
        now: Timestamp,
    ) -> Result<RateVerdict> {
        self.inner.count(subject, windows, now).await
    }

    async fn give_back(&self, subject: &str, windows: &[RateWindow], now: Timestamp) -> Result<()> {
        self.inner.give_back(subject, windows, now).await
    }

    async fn ping(&self) -> Result<()> {
        self.inner.ping().await
    }

    fn due_hint(&self) -> Arc<Notify> {
        self.inner.due_hint()
    }

    fn ticket_hint(&self) -> Arc<Notify> {
        self.inner.ticket_hint()
    }

    fn is_away(&self) -> bool {
        self.is_replacement.load(Ordering::Relaxed)
    }
}
