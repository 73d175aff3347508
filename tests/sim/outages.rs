//! Outages of etcd and of the queue in a cluster, and replicas that die or sleep meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::store::{ShardRecord, UpkeepStore};

use crate::calendar::to_next_minute;
use crate::gate::Fault;
use crate::oracle;
use crate::process::{SHARDS, run};
use crate::races::firing;
use crate::replicas::{LEASE, REPLICAS, Replica};
use crate::world::World;

/// The time between two turns of the replicas.
const TURN_INTERVAL: Duration = Duration::from_secs(2);
/// The number of turns after which all shards are led, whichever servers are away: a replica counts
/// as cut off from etcd after 5 s, and a lease in the store lasts 10 s.
const CALM: usize = 12;

/// A change of the servers that the replicas reach.
#[derive(Clone, Copy, Debug)]
enum ReachabilityChange {
    EtcdForAll { is_away: bool },
    QueueForAll { is_away: bool },
    EtcdForReplica { index: usize, is_away: bool },
    QueueForReplica { index: usize, is_away: bool },
    WipeEtcd,
}

impl World {
    /// Returns `true` if there are several replicas.
    pub fn is_cluster(&self) -> bool {
        self.outside.etcd.is_some()
    }

    /// Draws a replica, if there are several.
    pub fn some_replica(&self) -> Option<usize> {
        let index = usize::try_from(self.decisions.below(REPLICAS as u64)).expect("small");
        self.is_cluster().then_some(index)
    }

    /// Gives a replica a turn. An armed fault may stop it.
    async fn turn(&mut self, index: usize) {
        if self.gone == Some(index) {
            return;
        }
        let gate = self.process().gate.clone();
        let replica = &mut self.process().replicas[index];
        let ended = tokio::select! {
            ended = replica.run_loops() => Some(ended),
            () = gate.died() => None,
        };
        match ended {
            Some(ended) => self.record_lead_result(ended),
            None => self.restart().await,
        }
    }

    /// Gives one replica or all of them a turn, from a random one on.
    pub async fn lead_random_replicas(&mut self) {
        let first = self.some_replica().unwrap_or(0);
        let count = if self.decisions.percent(75) { REPLICAS } else { 1 };
        for index in first..first + count {
            self.turn(index % REPLICAS).await;
        }
    }

    /// Runs the replicas until all shards are led and no tick is due.
    pub async fn lead_until_quiet(&mut self) {
        if !self.is_cluster() {
            return self.lead().await;
        }
        for _ in 0..CALM {
            self.clock.advance(TURN_INTERVAL);
            for index in 0..REPLICAS {
                self.turn(index).await;
            }
        }
    }

    /// Gives random replicas turns, with short pauses.
    pub async fn random_turns(&mut self) {
        for _ in 0..self.decisions.between(2, 6) {
            self.clock.advance(Duration::from_millis(self.decisions.between(200, 4_000)));
            let index = self.some_replica().expect("a cluster");
            self.turn(index).await;
        }
    }

    /// Makes servers unreachable, or reachable again, for all replicas or for one of them, or wipes
    /// etcd.
    pub fn change_reachability(&mut self) {
        let index = self.some_replica().expect("a cluster");
        let is_away = self.decisions.percent(60);
        let change = match self.decisions.below(8) {
            0..=2 => ReachabilityChange::EtcdForAll { is_away },
            3 | 4 => ReachabilityChange::QueueForAll { is_away },
            5 => ReachabilityChange::EtcdForReplica { index, is_away },
            6 => ReachabilityChange::QueueForReplica { index, is_away },
            _ => ReachabilityChange::WipeEtcd,
        };
        self.note(format_args!("{change:?}"));
        match change {
            ReachabilityChange::EtcdForAll { is_away } => self.set_etcd_away(is_away),
            ReachabilityChange::QueueForAll { is_away } => self.set_queue_away(is_away),
            ReachabilityChange::EtcdForReplica { index, is_away } => {
                self.process().replicas[index].membership.cut_off(is_away);
            }
            ReachabilityChange::QueueForReplica { index, is_away } => {
                self.process().replicas[index].membership.queue.cut(is_away);
            }
            ReachabilityChange::WipeEtcd => {
                self.outside.etcd.as_ref().expect("a cluster").wipe();
            }
        }
    }

    fn set_etcd_away(&mut self, is_away: bool) {
        self.outside.etcd.as_ref().expect("a cluster").set_away(is_away);
    }

    fn set_queue_away(&mut self, is_away: bool) {
        for replica in &self.process().replicas {
            replica.membership.queue.cut(is_away);
        }
    }

    /// Lets a replica die, and another one start in its place. Its leases remain for a while.
    pub fn kill_replica(&mut self) {
        let index = usize::try_from(self.decisions.between(1, REPLICAS as u64 - 1)).expect("small");
        self.process().replace(index);
    }

    /// Ends all faults, except that the store may be the only server that is left, and that a
    /// replica may have died for good: jobs are still created and run.
    pub fn end_faults(&mut self) {
        if !self.is_cluster() {
            return;
        }
        let (etcd, queue) = (self.decisions.percent(40), self.decisions.percent(40));
        let gone = usize::try_from(self.decisions.below(REPLICAS as u64)).expect("small");
        self.gone = (gone > 0).then_some(gone);
        self.note(format_args!("etcd away: {etcd}, queue away: {queue}, gone: {gone}"));
        self.set_etcd_away(etcd);
        self.set_queue_away(queue);
        for replica in &mut self.process().replicas {
            replica.membership.cut_off(false);
        }
    }

    /// LEAD-1: a leader that sleeps while others take over its shards changes nothing when it
    /// wakes. It sleeps in the middle of firing or of taking over.
    pub async fn pause(&mut self) {
        let leaders = self.leaders().await;
        let index = match leaders.is_empty() {
            true => self.some_replica().expect("a cluster"),
            false => *self.decisions.pick(&leaders),
        };
        let fires = firing(Some(index));
        let call =
            *self.decisions.pick(&[fires, fires, fires, "replace_leader", "raise_epoch", "due"]);
        let turns = self.decisions.between(0, CALM as u64);
        self.pause_at(index, call, turns).await;
    }

    /// Lets a replica sleep at a call while the others have turns. Returns `true` if they have
    /// taken over all shards meanwhile.
    async fn pause_at(&mut self, index: usize, call: &'static str, turns: u64) -> bool {
        let gate = self.process().gate.clone();
        gate.disarm();
        self.settle().await;
        self.clock.advance(to_next_minute(self.clock.now()));
        let clock = self.clock.clone();
        let mut leader = self.process().replicas[index].leader.take().expect("here");
        gate.hold(call);
        let mut led = tokio::spawn(async move {
            let ended = run(&mut leader, &clock).await;
            (leader, ended)
        });
        // The leader may have no reason for the call.
        let without_call = gate.reached_by(&mut led).await;
        let is_reached = without_call.is_none();
        self.note(format_args!("replica {index} sleeps at {call}: {is_reached}"));
        if is_reached {
            for _ in 0..turns {
                self.clock.advance(TURN_INTERVAL);
                for other in (0..REPLICAS).filter(|other| *other != index) {
                    self.turn(other).await;
                }
            }
        }
        let fires = is_reached && call == firing(Some(index));
        let is_replaced = fires && self.is_replaced(index).await;
        let before = if is_replaced { self.ticked().await } else { Vec::new() };
        gate.release();
        let ended = match without_call {
            Some(ended) => ended,
            None => led.await,
        };
        let (leader, ended) = ended.expect("the leader does not panic");
        self.process().replicas[index].leader = Some(leader);
        self.record_lead_result(ended);
        self.note(format_args!("it was replaced: {is_replaced}"));
        if is_replaced {
            self.expect_unchanged(&before).await;
        }
        is_replaced
    }

    /// Returns the replicas that lead shards by the store's record, once for each shard.
    async fn leaders(&mut self) -> Vec<usize> {
        let (now, sqlite) = (self.clock.now(), self.process().sqlite.clone());
        let records = sqlite.shard_records(now).await.expect("read");
        let replicas = &self.process().replicas;
        let index = |record: ShardRecord| {
            let leader = record.leader?;
            replicas.iter().position(|replica| replica.name() == leader.replica)
        };
        records.into_iter().filter_map(index).collect()
    }

    /// Returns `true` if other replicas lead all shards, and this one does not trust its terms.
    async fn is_replaced(&mut self, index: usize) -> bool {
        let leaders = self.leaders().await;
        let is_trusting = self.process().replicas[index].is_trusting();
        !is_trusting && leaders.len() == usize::from(SHARDS) && !leaders.contains(&index)
    }
}

/// Creates a cluster with schedules that are due each minute, and with leaders.
async fn cluster(seed: u64) -> World {
    let mut world = World::of_cluster(seed).await;
    for _ in 0..8 {
        world.create_every_minute().await;
    }
    world.lead_until_quiet().await;
    world.none_is_due().await;
    assert_eq!(world.broken, [""; 0]);
    world
}

/// Makes servers unreachable and lets a replica die, for the next two minutes.
async fn two_minutes_without(world: &mut World, (etcd, queue): (bool, bool)) {
    world.set_etcd_away(etcd);
    world.set_queue_away(queue);
    world.gone = Some(2);
    for _ in 0..2 {
        world.clock.advance(to_next_minute(world.clock.now()));
        world.lead_until_quiet().await;
        world.none_is_due().await;
    }
}

#[tokio::test]
async fn whichever_servers_are_away_all_ticks_of_a_dead_leader_fire() {
    for (etcd, queue) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut world = cluster(20).await;
        two_minutes_without(&mut world, (etcd, queue)).await;
        assert_eq!(world.broken, [""; 0], "{etcd} {queue}");
        assert_eq!(world.outside.takeovers.count() > 0, etcd, "shards are taken over by the store");
        assert_eq!(world.process().replicas[0].membership.context.queue.is_away(), queue);
    }
}

#[tokio::test]
async fn a_paused_leader_changes_nothing_when_it_resumes_whichever_servers_are_away() {
    for (etcd, queue) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut world = cluster(24).await;
        world.set_etcd_away(etcd);
        world.set_queue_away(queue);
        let sleeper = world.leaders().await[0];
        let is_replaced = world.pause_at(sleeper, firing(Some(sleeper)), CALM as u64).await;
        assert!(is_replaced, "others take over: {etcd} {queue}");
        world.heal().await;
        oracle::judge(&mut world).await;
        assert_eq!(world.broken, [""; 0], "{etcd} {queue}");
    }
}

/// The replica is the leader by the store's record, and does not know it.
#[tokio::test]
async fn a_lost_answer_of_the_store_before_etcd_goes_away_leaves_no_shard_without_a_leader() {
    let mut world = World::of_cluster(23).await;
    for _ in 0..8 {
        world.create_every_minute().await;
    }
    world.process().gate.arm_at("raise_epoch", Fault::AnswerLost);
    world.turn(0).await;
    world.set_etcd_away(true);
    world.clock.advance(LEASE);
    world.lead_until_quiet().await;
    world.clock.advance(to_next_minute(world.clock.now()));
    world.lead_until_quiet().await;
    world.none_is_due().await;
    assert_eq!(world.broken, [""; 0]);
}

/// The replica that gives a shard away is alive, so only it can take the shard back.
#[tokio::test]
async fn a_handover_that_ends_half_way_because_etcd_goes_away_leaves_no_shard_without_a_leader() {
    let mut world = cluster(25).await;
    world.gone = Some(2);
    world.lead_until_quiet().await;
    world.gone = None;
    let leads_two = |index: &usize, leaders: &[usize]| {
        leaders.iter().filter(|leader| *leader == index).count() == 2
    };
    let leaders = world.leaders().await;
    let giver = (0..2).find(|index| leads_two(index, &leaders)).expect("it leads two of three");
    // The third replica joins again. Another one gives a shard to it, which it does not take yet.
    world.turn(2).await;
    world.turn(0).await;
    world.turn(1).await;
    world.set_etcd_away(true);
    // The others notice the outage first.
    for index in [1 - giver, 2].repeat(3) {
        world.clock.advance(TURN_INTERVAL / 2);
        world.turn(index).await;
    }
    world.lead_until_quiet().await;
    let terms = |replica: &Replica| replica.membership.context.cluster.terms().borrow().clone();
    let terms = world.process().replicas.iter().flat_map(terms);
    let led: BTreeSet<_> = terms.map(|(shard, _)| shard).collect();
    assert_eq!(led.len(), usize::from(SHARDS), "each shard has a leader: {led:?}");
    assert_eq!(world.broken, [""; 0]);
}

/// A planted defect: nothing is rebuilt when the queue goes away.
#[tokio::test]
async fn a_queue_that_hides_its_outage_is_caught() {
    let mut world = cluster(21).await;
    for replica in &world.process().replicas {
        replica.membership.queue.hide();
    }
    two_minutes_without(&mut world, (false, true)).await;
    assert!(world.broken.iter().any(|what| what.starts_with("TICK-2")), "{:?}", world.broken);
}

/// Two replicas find the same leader dead. One of them sleeps before it writes that it leads, until
/// the other one leads.
async fn both_find_a_leader_dead(ignores_epochs: bool) -> World {
    let mut world = cluster(22).await;
    if ignores_epochs {
        world.outside.takeovers.ignore_epochs();
    }
    world.set_etcd_away(true);
    world.gone = Some(2);
    let taken: Vec<_> =
        world.process().replicas.iter_mut().map(|replica| replica.leader.take()).collect();
    for _ in 0..CALM {
        world.clock.advance(TURN_INTERVAL);
        world.turn(0).await;
        world.turn(1).await;
    }
    for (replica, leader) in world.process().replicas.iter_mut().zip(taken) {
        replica.leader = leader;
    }
    let finds = |replica: &Replica| {
        let terms = replica.membership.context.cluster.terms();
        terms.borrow().values().any(|term| term.replaces.is_some())
    };
    let sleeper = world.process().replicas.iter().position(finds).expect("the dead one is found");
    world.pause_at(sleeper, "replace_leader", CALM as u64).await;
    world
}

#[tokio::test]
async fn a_replica_that_finds_a_leader_dead_and_sleeps_deposes_no_other() {
    let mut world = both_find_a_leader_dead(false).await;
    assert_eq!(world.outside.takeovers.judge(), [""; 0]);
    assert!(world.outside.takeovers.count() > 0);
    world.heal().await;
    assert_eq!(world.broken, [""; 0]);
}

/// A planted defect: a replica raises the epoch without comparing it.
#[tokio::test]
async fn a_replica_that_replaces_without_comparing_is_caught() {
    let world = both_find_a_leader_dead(true).await;
    assert!(world.outside.takeovers.judge().iter().any(|what| what.starts_with("LEAD-1")));
}
