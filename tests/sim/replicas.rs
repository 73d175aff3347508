//! A cluster of replicas: an etcd that can be away, and the parts of a replica that lead shards.
//!
//! etcd is a model of few lines: leases that expire, and a holder for each shard. The reaction of a
//! replica is real: its terms, its replacement of dead leaders by the store, its queue that works
//! without the shared one, and its leader. The first replica has the executor. The others run no
//! jobs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use punctual::cluster::etcd::Trust;
use punctual::cluster::{Cluster, ClusterError, LiveReplica, Replacement, Terms};
use punctual::domain::shard::ShardId;
use punctual::domain::shard_assignment::assign_shards;
use punctual::queue::fallback::FallbackQueue;
use punctual::runtime::{Clock, Random, RunError, Tasks, Worker};
use punctual::scheduler::{Leader, LeaderReplacer, SchedulerContext};
use tokio::sync::watch;

use crate::gate::Gate;
use crate::process::{SHARDS, run};
use crate::queue::GatedQueue;
use crate::recorded::RecordedQueue;

/// The number of replicas.
pub const REPLICAS: usize = 3;
/// The duration of a lease in etcd.
pub const LEASE: Duration = Duration::from_secs(5);
/// The duration of a lease in the store.
pub const STORE_LEASE: Duration = Duration::from_secs(10);

/// The servers of a cluster, apart from the store. They outlive the processes.
pub struct Etcd {
    clock: Clock,
    state: Mutex<EtcdState>,
}

#[derive(Default)]
struct EtcdState {
    is_away: bool,
    /// The ends of the leases of the members, on the monotonic clock.
    leases: BTreeMap<String, Duration>,
    /// The holders of the shards.
    holders: BTreeMap<ShardId, String>,
}

impl EtcdState {
    /// Ends the leases that have expired, and with them the keys of their members.
    fn expire(&mut self, now: Duration) {
        self.leases.retain(|_, until| now < *until);
        let Self { leases, holders, .. } = self;
        holders.retain(|_, holder| leases.contains_key(holder));
    }

    fn held_by(&self, name: &str) -> impl Iterator<Item = ShardId> {
        let held = self.holders.iter().filter(move |(_, holder)| *holder == name);
        held.map(|(shard, _)| *shard)
    }
}

impl Etcd {
    pub fn new(clock: Clock) -> Self {
        Self { clock, state: Mutex::default() }
    }

    /// Makes etcd unreachable for all replicas, or reachable again. No lease expires meanwhile: a
    /// new leader of etcd restarts all of them.
    pub fn set_away(&self, is_away: bool) {
        let mut state = self.state();
        let until = self.clock.monotonic() + LEASE;
        if std::mem::replace(&mut state.is_away, is_away) && !is_away {
            state.leases.values_mut().for_each(|end| *end = until);
        }
    }

    /// Removes everything.
    pub fn wipe(&self) {
        let mut state = self.state();
        state.leases.clear();
        state.holders.clear();
    }

    /// Lets a member renew its lease, hand over the shards that are not its own, and take the free
    /// ones that are. If its lease has ended, it gets a new one.
    fn serve(&self, name: &str, trust: &Trust) {
        let now = self.clock.monotonic();
        let mut state = self.state();
        if state.is_away {
            return;
        }
        state.expire(now);
        if state.leases.insert(name.to_owned(), now + LEASE).is_none() {
            trust.lose();
        }
        trust.renew(now + LEASE.mul_f64(0.8));
        let members: Vec<&str> = state.leases.keys().map(String::as_str).collect();
        let owners =
            assign_shards(&members, SHARDS).into_iter().map(|index| members[index] == name);
        let is_own: Vec<bool> = owners.collect();
        let is_own = |shard: &ShardId| is_own[usize::from(shard.0)];
        trust.hold(state.held_by(name).filter(is_own).collect());
        state.holders.retain(|shard, holder| holder != name || is_own(shard));
        for shard in (0..SHARDS).map(ShardId).filter(is_own) {
            state.holders.entry(shard).or_insert_with(|| name.to_owned());
        }
        trust.hold(state.held_by(name).collect());
        let others = state.holders.iter().filter(|(_, holder)| *holder != name);
        trust.record_holders(others.map(|(shard, holder)| (*shard, holder.as_str())));
    }

    fn state(&self) -> MutexGuard<'_, EtcdState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A replica's membership of the cluster.
struct Seat(Trust);

#[async_trait]
impl Cluster for Seat {
    fn terms(&self) -> watch::Receiver<Terms> {
        self.0.terms()
    }

    async fn members(&self) -> Result<Vec<LiveReplica>, ClusterError> {
        Ok(Vec::new())
    }

    fn is_trusted(&self) -> bool {
        self.0.is_trusted_now()
    }

    fn replace(&self, replacements: Vec<Replacement>) {
        self.0.replace(replacements);
    }

    async fn leave(&self) {
        self.0.close();
    }
}

/// A replica's membership.
pub struct Membership {
    /// The dependencies of the replica's loops.
    pub context: SchedulerContext,
    /// Its way to the shared queue.
    pub queue: Arc<GatedQueue>,
    /// The queue that replaces the shared one.
    pub own: Arc<RecordedQueue>,
    etcd: Arc<Etcd>,
    seat: Arc<Seat>,
    /// `true` while this replica alone cannot reach etcd.
    is_cut_off: bool,
}

impl Membership {
    /// Joins as replica number `index`. The first one takes tickets. `parts` have the store and the
    /// clock.
    pub fn join(
        index: usize,
        (etcd, shared): (Arc<Etcd>, Arc<RecordedQueue>),
        parts: &SchedulerContext,
        (gate, random, tasks): (&Arc<Gate>, &Random, &Tasks),
    ) -> Self {
        let queue = Arc::new(GatedQueue::new(gate.clone(), shared));
        let own = Arc::<RecordedQueue>::default();
        let clock = parts.clock.clone();
        let seat = Arc::new(Seat(Trust::new(clock.clone())));
        let fallback = FallbackQueue::start(queue.clone(), own.clone(), index == 0, clock, tasks);
        let context = SchedulerContext {
            queue: Arc::new(fallback),
            cluster: seat.clone(),
            replica: format!("r{index}-{:08x}", random.bits() & 0xffff_ffff),
            others_lack_queue: Arc::default(),
            ..parts.clone()
        };
        Self { context, queue, own, etcd, seat, is_cut_off: false }
    }

    /// Cuts this replica off from etcd, or lets it reach etcd again.
    pub fn cut_off(&mut self, is_cut_off: bool) {
        self.is_cut_off = is_cut_off;
    }
}

/// The parts of a replica that lead shards.
pub struct Replica {
    pub membership: Membership,
    replacer: LeaderReplacer,
    /// `None` while the leader acts in the background.
    pub leader: Option<Leader>,
}

impl Replica {
    pub fn new(membership: Membership, random: &Random) -> Self {
        let context = &membership.context;
        let replacer = LeaderReplacer::new(context.clone(), STORE_LEASE, true);
        let leader = Some(Leader::new(context.clone(), Arc::default(), random.clone()));
        Self { membership, replacer, leader }
    }

    /// Returns the name of the replica.
    pub fn name(&self) -> &str {
        &self.membership.context.replica
    }

    /// Returns `true` if the replica trusts its terms.
    pub fn is_trusting(&self) -> bool {
        self.membership.seat.is_trusted()
    }

    /// Renews the leases, looks for dead leaders, and leads until nothing is left to do.
    pub async fn run_loops(&mut self) -> Result<(), RunError> {
        let Membership { context, etcd, seat, is_cut_off, .. } = &self.membership;
        if !is_cut_off {
            etcd.serve(&context.replica, &seat.0);
        }
        let clock = context.clock.clone();
        let replaced = self.replacer.run_once(clock.now()).await;
        let led = match &mut self.leader {
            Some(leader) => run(leader, &clock).await,
            None => Ok(()),
        };
        led.and(replaced.map(drop))
    }
}
