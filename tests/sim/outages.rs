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
const BEAT: Duration = Duration::from_secs(2);
/// The number of turns after which all shards are led, whichever servers are away: a replica counts
/// as cut off from etcd after 5 s, and a lease in the store lasts 10 s.
const CALM: usize = 12;

impl World {
    /// Returns `true` if there are several replicas.
    pub fn is_cluster(&self) -> bool {
        self.outside.etcd.is_some()
    }

    /// Draws a replica, if there are several.
    pub fn some_replica(&self) -> Option<usize> {
        let place = usize::try_from(self.dice.below(REPLICAS as u64)).expect("small");
        self.is_cluster().then_some(place)
    }

    /// Gives a replica a turn. An armed fault may stop it.
    async fn turn(&mut self, place: usize) {
        if self.gone == Some(place) {
            return;
        }
        let gate = self.process().gate.clone();
        let replica = &mut self.process().replicas[place];
        let ended = tokio::select! {
            ended = replica.run_loops() => Some(ended),
            () = gate.died() => None,
        };
        match ended {
            Some(ended) => self.has_led(ended),
            None => self.restart().await,
        }
    }

    /// Gives one replica or all of them a turn, from a random one on.
    pub async fn some_lead(&mut self) {
        let first = self.some_replica().unwrap_or(0);
        let count = if self.dice.percent(75) { REPLICAS } else { 1 };
        for place in first..first + count {
            self.turn(place % REPLICAS).await;
        }
    }

    /// Lets the replicas lead until all shards are led and no tick is due.
    pub async fn lead_on(&mut self) {
        if !self.is_cluster() {
            return self.lead().await;
        }
        for _ in 0..CALM {
            self.clock.advance(BEAT);
            for place in 0..REPLICAS {
                self.turn(place).await;
            }
        }
    }

    /// Gives random replicas turns, with short pauses.
    pub async fn beats(&mut self) {
        for _ in 0..self.dice.between(2, 6) {
            self.clock.advance(Duration::from_millis(self.dice.between(200, 4_000)));
            let place = self.some_replica().expect("a cluster");
            self.turn(place).await;
        }
    }

    /// Makes servers unreachable, or reachable again, for all replicas or for one of them.
    pub fn change_reachability(&mut self) {
        let place = self.some_replica().expect("a cluster");
        let is_away = self.dice.percent(60);
        let what = self.dice.below(8);
        self.note(format_args!("{what} of {place}: {is_away}"));
        match what {
            0..=2 => self.set_etcd_away(is_away),
            3 | 4 => self.set_queue_away(is_away),
            5 => self.process().replicas[place].membership.cut_off(is_away),
            6 => self.process().replicas[place].membership.queue.cut(is_away),
            _ => self.outside.etcd.as_ref().expect("a cluster").wipe(),
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
        let place = usize::try_from(self.dice.between(1, REPLICAS as u64 - 1)).expect("small");
        self.process().replace(place);
    }

    /// Ends all faults, except that the store may be the only server that is left, and that a
    /// replica may have died for good: jobs are still created and run.
    pub fn end_faults(&mut self) {
        if !self.is_cluster() {
            return;
        }
        let (etcd, queue) = (self.dice.percent(40), self.dice.percent(40));
        let gone = usize::try_from(self.dice.below(REPLICAS as u64)).expect("small");
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
        let place = match leaders.is_empty() {
            true => self.some_replica().expect("a cluster"),
            false => *self.dice.pick(&leaders),
        };
        let fires = firing(Some(place));
        let call = *self.dice.pick(&[fires, fires, fires, "replace_leader", "raise_epoch", "due"]);
        let turns = self.dice.between(0, CALM as u64);
        self.pause_at(place, call, turns).await;
    }

    /// Lets a replica sleep at a call while the others have turns. Returns `true` if they have
    /// taken over all shards meanwhile.
    async fn pause_at(&mut self, place: usize, call: &'static str, turns: u64) -> bool {
        let gate = self.process().gate.clone();
        gate.disarm();
        self.settle().await;
        self.clock.advance(to_next_minute(self.clock.now()));
        let clock = self.clock.clone();
        let mut leader = self.process().replicas[place].leader.take().expect("here");
        gate.hold(call);
        let mut led = tokio::spawn(async move {
            let ended = run(&mut leader, &clock).await;
            (leader, ended)
        });
        // The leader may have no reason for the call.
        let without_call = gate.reached_by(&mut led).await;
        let is_reached = without_call.is_none();
        self.note(format_args!("replica {place} sleeps at {call}: {is_reached}"));
        if is_reached {
            for _ in 0..turns {
                self.clock.advance(BEAT);
                for other in (0..REPLICAS).filter(|other| *other != place) {
                    self.turn(other).await;
                }
            }
        }
        let fires = is_reached && call == firing(Some(place));
        let is_replaced = fires && self.is_replaced(place).await;
        let before = if is_replaced { self.ticked().await } else { Vec::new() };
        gate.release();
        let ended = match without_call {
            Some(ended) => ended,
            None => led.await,
        };
        let (leader, ended) = ended.expect("the leader does not panic");
        self.process().replicas[place].leader = Some(leader);
        self.has_led(ended);
        self.note(format_args!("it was replaced: {is_replaced}"));
        if is_replaced && self.ticked().await != before {
            self.breaks("LEAD-1: a leader that was replaced while it slept has changed something");
        }
        is_replaced
    }

    /// Returns the replicas that lead shards by the store's record, once for each shard.
    async fn leaders(&mut self) -> Vec<usize> {
        let (now, sqlite) = (self.clock.now(), self.process().sqlite.clone());
        let records = sqlite.shard_records(now).await.expect("read");
        let replicas = &self.process().replicas;
        let place = |record: ShardRecord| {
            let leader = record.leader?;
            replicas.iter().position(|replica| replica.name() == leader.replica)
        };
        records.into_iter().filter_map(place).collect()
    }

    /// Returns `true` if other replicas lead all shards, and this one does not trust its terms.
    async fn is_replaced(&mut self, place: usize) -> bool {
        let leaders = self.leaders().await;
        let is_trusting = self.process().replicas[place].is_trusting();
        !is_trusting && leaders.len() == usize::from(SHARDS) && !leaders.contains(&place)
    }
}

/// Creates a cluster with schedules that are due each minute, and with leaders.
async fn cluster(seed: u64) -> World {
    let mut world = World::of_cluster(seed).await;
    for _ in 0..8 {
        world.create_every_minute().await;
    }
    world.lead_on().await;
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
        world.lead_on().await;
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
    world.lead_on().await;
    world.clock.advance(to_next_minute(world.clock.now()));
    world.lead_on().await;
    world.none_is_due().await;
    assert_eq!(world.broken, [""; 0]);
}

/// The replica that gives a shard away is alive, so only it can take the shard back.
#[tokio::test]
async fn a_handover_that_ends_half_way_because_etcd_goes_away_leaves_no_shard_without_a_leader() {
    let mut world = cluster(25).await;
    world.gone = Some(2);
    world.lead_on().await;
    world.gone = None;
    let leads_two = |place: &usize, leaders: &[usize]| {
        leaders.iter().filter(|leader| *leader == place).count() == 2
    };
    let leaders = world.leaders().await;
    let giver = (0..2).find(|place| leads_two(place, &leaders)).expect("it leads two of three");
    // The third replica joins again. Another one gives a shard to it, which it does not take yet.
    world.turn(2).await;
    world.turn(0).await;
    world.turn(1).await;
    world.set_etcd_away(true);
    // The others notice the outage first.
    for place in [1 - giver, 2].repeat(3) {
        world.clock.advance(BEAT / 2);
        world.turn(place).await;
    }
    world.lead_on().await;
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
async fn both_find_a_leader_dead(is_blind: bool) -> World {
    let mut world = cluster(22).await;
    if is_blind {
        world.outside.takeovers.blind();
    }
    world.set_etcd_away(true);
    world.gone = Some(2);
    let taken: Vec<_> =
        world.process().replicas.iter_mut().map(|replica| replica.leader.take()).collect();
    for _ in 0..CALM {
        world.clock.advance(BEAT);
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
