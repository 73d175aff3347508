//! More accounts that have reached what their plan allows than the queue is told of.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use punctual::accounts::Accounts;
use punctual::cluster::single::SingleNode;
use punctual::domain::audit::Author;
use punctual::domain::plan::{Plan, Plans};
use punctual::domain::shard::{Epoch, ShardId};
use punctual::domain::ticket::Ticket;
use punctual::domain::{ScheduleId, Timestamp};
use punctual::executor::{self, Executor};
use punctual::outbound;
use punctual::queue::memory::MemoryQueue;
use punctual::queue::{Changes, Due, Index, Queue, Result, Room, Verdict, Window};
use punctual::runtime::{Clock, Random, Tasks};
use punctual::schedules::{self, Object, SCHEDULE_FIELDS, Schedules};
use punctual::store::FiringStore;
use punctual::store::sqlite::{Settings, SqliteStore};
use serde_json::json;
use tokio::sync::Notify;

use crate::harness::keys::sealer;
use crate::harness::recorder::Recorder;
use crate::harness::wait::{live_for, until};

/// More than the queue is told of.
const ACCOUNTS: usize = 300;
/// How long it is looked on while nothing can start.
const WHILE: Duration = Duration::from_secs(1);

/// A queue that counts how often tickets were taken.
#[derive(Default)]
struct CountingQueue {
    inner: MemoryQueue,
    taken: AtomicUsize,
}

#[async_trait]
impl Queue for CountingQueue {
    async fn adopt(&self, shard: ShardId, epoch: Epoch) -> Result<Index<()>> {
        self.inner.adopt(shard, epoch).await
    }

    async fn rebuild(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(ScheduleId, Timestamp)],
    ) -> Result<Index<()>> {
        self.inner.rebuild(shard, epoch, entries).await
    }

    async fn set_due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(ScheduleId, Option<Timestamp>)],
    ) -> Result<Index<()>> {
        self.inner.set_due(shard, epoch, entries).await
    }

    async fn due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        now: Timestamp,
        limit: usize,
    ) -> Result<Index<Due>> {
        self.inner.due(shard, epoch, now, limit).await
    }

    async fn hint(&self, shard: ShardId, changes: &Changes) -> Result<()> {
        self.inner.hint(shard, changes).await
    }

    async fn take_hints(&self, shard: ShardId, limit: usize) -> Result<Changes> {
        self.inner.take_hints(shard, limit).await
    }

    async fn push(&self, tickets: &[Ticket]) -> Result<()> {
        self.inner.push(tickets).await
    }

    async fn put_back(&self, tickets: &[Ticket]) -> Result<()> {
        self.inner.put_back(tickets).await
    }

    async fn take(&self, now: Timestamp, room: &Room) -> Result<(Vec<Ticket>, Option<Timestamp>)> {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.inner.take(now, room).await
    }

    async fn count(&self, subject: &str, windows: &[Window], now: Timestamp) -> Result<Verdict> {
        self.inner.count(subject, windows, now).await
    }

    async fn give_back(&self, subject: &str, windows: &[Window], now: Timestamp) -> Result<()> {
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
}

/// Gives each account a schedule of the target, and has it run twice.
async fn make_jobs(accounts: &Accounts, schedules: &Schedules, target: &Recorder) {
    let fields = json!({
        "name": "slow", "cronExpression": "0 0 1 1 *", "timezone": "UTC", "endpoint": target.url("/hang"),
        "httpMethod": "GET", "maxRetries": 1,
    });
    for number in 0..ACCOUNTS {
        let account = accounts.create(Author::SERVICE, &format!("account-{number}"), "one").await;
        let account = account.expect("an account").id;
        let fields = Object::parse(fields.to_string().as_bytes(), SCHEDULE_FIELDS);
        let call = || Author::SERVICE.into();
        let made = schedules.create(account, call(), fields.expect("an object")).await;
        let schedule = made.expect("a schedule").id;
        for _ in 0..2 {
            schedules.trigger(account, call(), schedule).await.expect("a job");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tickets_that_cannot_start_are_seldom_taken_and_start_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings::new(folder.path().join("punctual.db"));
    let store = Arc::new(SqliteStore::open(&settings, &sealer()).await.expect("opened"));
    store.migrate().await.expect("migrated");
    let shards = store.set_up_shards(1).await.expect("set up");
    let (clock, random, tasks) = (Clock::system(), Random::seeded(3), Tasks::new());
    let plan = Plan { concurrent_attempts: Some(1), ..Plan::unlimited("one") };
    let plans = Arc::new(Plans::new([plan]));
    let allow = vec!["127.0.0.0/8".parse().expect("a network")];
    let outbound = outbound::Settings { allow, ..outbound::Settings::default() };
    let client = outbound::Client::new(outbound, clock.clone(), &tasks).expect("a client");
    let (queue, target) = (Arc::<CountingQueue>::default(), Recorder::start().await);
    let schedules = Schedules::new(schedules::Parts {
        store: store.clone(),
        queue: queue.clone(),
        outbound: client.clone(),
        clock: clock.clone(),
        random: random.clone(),
        tasks: tasks.clone(),
        shards,
        plans: plans.clone(),
    });
    let accounts = Accounts::new(store.clone(), clock.clone(), random.clone(), plans.clone());
    make_jobs(&accounts, &schedules, &target).await;

    let executor = Executor::start(
        executor::Settings { per_host: 2 * ACCOUNTS, ..executor::Settings::default() },
        executor::Parts {
            store: store.clone(),
            queue: queue.clone(),
            cluster: Arc::new(SingleNode::new("test", shards)),
            replica: "test".into(),
            plans,
            client,
            clock,
            random,
        },
        &tasks,
    );
    until("all have one under way", async || (target.count() == ACCOUNTS).then_some(())).await;
    let (before, began) = (queue.taken.load(Ordering::Relaxed), Instant::now());
    live_for(WHILE).await;
    let most = began.elapsed().as_millis() / 50 + 2;
    let taken = queue.taken.load(Ordering::Relaxed) - before;
    assert!(taken as u128 <= most, "{taken} times in {:?}", began.elapsed());
    assert_eq!(target.count(), ACCOUNTS, "one at a time");
    target.release();
    until("all have run twice", async || (target.count() == 2 * ACCOUNTS).then_some(())).await;
    tasks.begin_stop();
    assert!(executor.stop(Duration::from_secs(10)).await);
}
