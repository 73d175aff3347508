//! One process of the service: the real core on a store file, without its loops.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use punctual::channels::{self, Channels};
use punctual::cluster::SharedCluster;
use punctual::cluster::single::SingleNode;
use punctual::domain::Timestamp;
use punctual::domain::plan::Plans;
use punctual::domain::retry::RetryPolicy;
use punctual::domain::secret_key::SecretKey;
use punctual::executor::{self, Executor, ExecutorSettings};
use punctual::notify::{self, Notifier};
use punctual::outbound;
use punctual::runtime::{Clock, LoopPause, Random, RunError, Tasks, Worker};
use punctual::scheduler::{JobRescuer, Leader, SchedulerContext};
use punctual::schedules::{self, Schedules};
use punctual::store::sqlite::{ServerLock, SqliteStore};
use punctual::store::{SecretCipher, SharedStore};

use crate::firings::BadFirings;
use crate::gate::Gate;
use crate::outcomes::Rows;
use crate::queue::GatedQueue;
use crate::recorded::RecordedQueue;
use crate::replicas::{Etcd, Membership, REPLICAS, Replica};
use crate::store::GatedStore;
use crate::takeovers::Takeovers;

/// The number of shards. It is small, so that each shard has several schedules.
pub const SHARDS: u16 = 3;
pub const CLAIM_TIME: Duration = Duration::from_secs(30);
pub const RETRY: RetryPolicy =
    RetryPolicy { base: Duration::from_secs(2), cap: Duration::from_secs(20) };

/// The state that outlives a process, apart from its file.
#[derive(Clone, Default)]
pub struct Outside {
    /// `None` for a single replica, which needs no etcd.
    pub etcd: Option<Arc<Etcd>>,
    pub takeovers: Arc<Takeovers>,
}

/// A running service: a single replica, or all replicas of a cluster.
pub struct Process {
    /// The store without faults, for checks.
    pub sqlite: Arc<SqliteStore>,
    pub gate: Arc<Gate>,
    pub rows: Arc<Rows>,
    pub firings: Arc<BadFirings>,
    pub queue: Arc<GatedQueue>,
    pub executor: Executor,
    pub schedules: Schedules,
    pub rescuer: JobRescuer,
    pub channels: Channels,
    pub notifier: Notifier,
    /// `None` during a race with users, and in a cluster.
    pub leader: Option<Leader>,
    /// The replicas of a cluster. The first one has the executor.
    pub replicas: Vec<Replica>,
    shared: Arc<RecordedQueue>,
    outside: Outside,
    /// Leaders that had taken over all shards and were replaced without knowing it.
    pub deposed_leaders: Vec<Leader>,
    pub tasks: Tasks,
    pub context: SchedulerContext,
    random: Random,
    _lock: ServerLock,
}

/// Returns a client that may call the targets of the simulation.
fn client(clock: &Clock, tasks: &Tasks) -> outbound::Client {
    let allow = vec!["127.0.0.0/8".parse().expect("a network")];
    let settings = outbound::OutboundSettings { allow, ..outbound::OutboundSettings::default() };
    outbound::Client::new(settings, clock.clone(), tasks).expect("sound settings")
}

/// Starts the executor.
fn start_executor(
    context: &SchedulerContext,
    client: &outbound::Client,
    random: &Random,
    tasks: &Tasks,
) -> Executor {
    let settings =
        ExecutorSettings { claim_time: CLAIM_TIME, retry: RETRY, ..ExecutorSettings::default() };
    let parts = executor::ExecutorParts {
        alerts: Arc::default(),
        store: context.store.clone(),
        queue: context.queue.clone(),
        cluster: context.cluster.clone(),
        replica: context.replica.clone(),
        plans: Arc::default(),
        client: client.clone(),
        clock: context.clock.clone(),
        random: random.clone(),
    };
    Executor::start(settings, parts, tasks)
}

/// Creates the commands of users.
fn commands(
    context: &SchedulerContext,
    outbound: outbound::Client,
    executor: &Executor,
    random: &Random,
    tasks: &Tasks,
) -> Schedules {
    Schedules::new(schedules::ScheduleParts {
        store: context.store.clone(),
        queue: context.queue.clone(),
        outbound,
        clock: context.clock.clone(),
        random: random.clone(),
        tasks: tasks.clone(),
        shards: SHARDS,
        plans: Arc::default(),
        handover: Some(Arc::new(executor.starter())),
    })
}

/// Lets the replicas of a cluster join it. Returns an empty list for a single replica.
fn memberships(
    outside: &Outside,
    shared: &Arc<RecordedQueue>,
    parts: &SchedulerContext,
    with: (&Arc<Gate>, &Random, &Tasks),
) -> Vec<Membership> {
    let Some(etcd) = &outside.etcd else { return Vec::new() };
    let join = |index| Membership::join(index, (etcd.clone(), shared.clone()), parts, with);
    (0..REPLICAS).map(join).collect()
}

/// Creates the channels and the notifier.
fn create_notifier(
    store: &SharedStore,
    client: &outbound::Client,
    clock: &Clock,
    random: &Random,
    tasks: &Tasks,
) -> (Channels, Notifier) {
    let (settings, client) = (channels::ChannelSettings::default(), client.clone());
    let channels = Channels::new(settings, client, None, clock.clone(), random.clone());
    let parts = notify::NotifierParts {
        store: store.clone(),
        channels: channels.clone(),
        clock: clock.clone(),
        random: random.clone(),
        public_url: None,
        hint: Arc::default(),
    };
    (channels, Notifier::new(notify::NotifierSettings::default(), parts, true, tasks))
}

impl Process {
    /// Starts on the store file like the service: it closes the attempts of an earlier process
    /// before any new work starts.
    pub async fn start(file: &Path, clock: &Clock, random: &Random, outside: &Outside) -> Self {
        let sqlite = open(file, random).await;
        let lock = sqlite.lock().expect("no other process serves the file");
        sqlite.migrate().await.expect("migrated");
        let gate = Arc::new(Gate::default());
        let (rows, firings) = (Arc::<Rows>::default(), Arc::<BadFirings>::default());
        let inner = sqlite.clone();
        let store: SharedStore = Arc::new(GatedStore {
            inner,
            gate: gate.clone(),
            rows: rows.clone(),
            firings: firings.clone(),
            takeovers: outside.takeovers.clone(),
        });
        let shared = Arc::<RecordedQueue>::default();
        let mut queue = Arc::new(GatedQueue::new(gate.clone(), shared.clone()));
        assert_eq!(store.set_up_shards(SHARDS).await.expect("set up"), SHARDS);
        let mut context = SchedulerContext {
            store,
            queue: queue.clone(),
            cluster: Arc::new(SingleNode::new("sim", SHARDS)),
            clock: clock.clone(),
            starter: None,
            replica: "sim".to_owned(),
            others_lack_queue: Arc::default(),
        };
        let tasks = Tasks::new();
        let mut members = memberships(outside, &shared, &context, (&gate, random, &tasks));
        if let Some(first) = members.first() {
            (context, queue) = (first.context.clone(), first.queue.clone());
        }
        let mut rescuer = JobRescuer::new(context.clone(), RETRY, random.clone(), true);
        run(&mut rescuer, clock).await.expect("rescued");
        let client = client(clock, &tasks);
        let executor = start_executor(&context, &client, random, &tasks);
        context.starter = Some(Arc::new(executor.starter()));
        let (channels, notifier) = create_notifier(&context.store, &client, clock, random, &tasks);
        if let Some(first) = members.first_mut() {
            first.context.starter = context.starter.clone();
        }
        let leader = || Leader::new(context.clone(), Arc::default(), random.clone());
        let leader = members.is_empty().then(leader);
        let replicas = members.into_iter().map(|member| Replica::new(member, random)).collect();
        let schedules = commands(&context, client, &executor, random, &tasks);
        Self {
            sqlite,
            gate,
            rows,
            firings,
            queue,
            executor,
            schedules,
            rescuer,
            channels,
            notifier,
            leader,
            replicas,
            shared,
            outside: outside.clone(),
            deposed_leaders: Vec::new(),
            tasks,
            context,
            random: random.clone(),
            _lock: lock,
        }
    }

    /// Creates a leader of the shards that `cluster` assigns to it.
    pub fn leader_in(&self, cluster: SharedCluster, replica: &str) -> Leader {
        let context =
            SchedulerContext { cluster, replica: replica.to_owned(), ..self.context.clone() };
        Leader::new(context, Arc::default(), self.random.clone())
    }

    /// Creates a leader that applies the limits of `plans` and never starts the jobs that it fires.
    pub fn leader_within(&self, plans: Plans) -> Leader {
        let context = SchedulerContext { starter: None, ..self.context.clone() };
        Leader::new(context, Arc::new(plans), self.random.clone())
    }

    /// Returns the leader of a replica of the cluster, or of the single replica.
    pub fn leader_of(&mut self, index: Option<usize>) -> &mut Option<Leader> {
        match index {
            Some(index) => &mut self.replicas[index].leader,
            None => &mut self.leader,
        }
    }

    /// Lets a replica of a cluster die at once, and another one start in its place. The executor is
    /// not affected, so this cannot be the first replica.
    pub fn replace(&mut self, index: usize) {
        let Some(etcd) = &self.outside.etcd else { return };
        let parts = SchedulerContext { starter: None, ..self.context.clone() };
        let servers = (etcd.clone(), self.shared.clone());
        let with = (&self.gate, &self.random, &self.tasks);
        let member = Membership::join(index, servers, &parts, with);
        self.replicas[index] = Replica::new(member, &self.random);
    }

    /// Returns `true` if no ticket that may start by `now` waits where the executor takes it, and
    /// all taken tickets have been handled.
    pub fn is_idle(&self, now: Timestamp) -> bool {
        match self.replicas.first() {
            None => self.queue.is_idle(now),
            Some(Replica { membership, .. }) => {
                membership.own.is_idle(now) && (self.queue.is_mute() || self.queue.is_idle(now))
            }
        }
    }

    /// Elects a new leader without telling the old one.
    pub fn elect(&mut self) {
        let leader = self.leader_in(Arc::new(SingleNode::new("successor", SHARDS)), "successor");
        let old = self.leader.replace(leader);
        // One that still has to take over a shard may do so later, and leads it then by right.
        let is_complete = |old: &Leader| old.led_shards() == usize::from(SHARDS);
        self.deposed_leaders.extend(old.filter(is_complete));
    }

    /// Crashes the process: it commits, queues and sends nothing more.
    pub async fn crash(self) {
        self.gate.kill();
        self.tasks.aborting().cancel();
        self.tasks.finish(Duration::ZERO).await;
        // A write in progress may or may not reach the file. The next process waits until that is
        // decided.
        self.sqlite.close().await;
    }
}

async fn open(file: &Path, random: &Random) -> Arc<SqliteStore> {
    let settings = punctual::store::sqlite::SqliteSettings::new(file);
    let key = SecretKey { id: "sim".to_owned(), key: [7; 32].into() };
    let cipher = SecretCipher::new(&key, &[], random.clone());
    Arc::new(SqliteStore::open(&settings, &cipher).await.expect("opened"))
}

/// Runs a worker until it has nothing to do.
pub async fn run(worker: &mut dyn Worker, clock: &Clock) -> Result<(), RunError> {
    for _ in 0..1_000 {
        if worker.run_once(clock.now()).await? != LoopPause::None {
            return Ok(());
        }
    }
    panic!("a loop never came to rest");
}
