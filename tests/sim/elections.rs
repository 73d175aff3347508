//! Terms that end while a leader takes over its shards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::cluster::{Cluster, ClusterError, LiveReplica, Replacement, Term, Terms};
use punctual::domain::Timestamp;
use punctual::domain::shard::ShardId;
use punctual::scheduler::Leader;
use punctual::store::UpkeepStore;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::calendar::to_next_minute;
use crate::oracle;
use crate::process::{SHARDS, run};
use crate::world::World;

/// The time for which a leader trusts its terms.
const TRUST: Duration = Duration::from_secs(5);

/// A cluster that gives one replica the terms that the test sets.
struct Votes(watch::Sender<Terms>);

#[async_trait]
impl Cluster for Votes {
    fn terms(&self) -> watch::Receiver<Terms> {
        self.0.subscribe()
    }

    async fn members(&self) -> Result<Vec<LiveReplica>, ClusterError> {
        Ok(Vec::new())
    }

    fn is_trusted(&self) -> bool {
        true
    }

    fn replace(&self, _: Vec<Replacement>) {}

    async fn leave(&self) {
        self.end();
    }
}

impl Votes {
    fn none() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(Terms::new())))
    }

    /// Gives all shards, in terms that start or are renewed now.
    fn give(&self, world: &World, trust: Duration) {
        let trusted_until = Some(world.clock.monotonic() + trust);
        let term = Term { number: 1, trusted_until, replaces: None };
        self.0.send_replace((0..SHARDS).map(|shard| (ShardId(shard), term)).collect());
    }

    fn end(&self) {
        self.0.send_replace(Terms::new());
    }
}

/// The way in which the first leader loses its terms.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The cluster tells the leader.
    ReceivedAlert,
    /// The leader hears nothing more, and its trust expires.
    TrustExpired,
}

/// The leader that acts first after the terms have ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// The old leader finishes its takeover.
    Old,
    /// The new leader takes over all shards. Then the old one finishes its takeover.
    New,
}

/// Returns the name of the last leader of each shard.
async fn leaders(world: &mut World) -> Vec<Option<String>> {
    let (now, sqlite) = (world.clock.now(), world.process().sqlite.clone());
    let records = sqlite.shard_records(now).await.expect("read");
    records.into_iter().map(|record| record.leader.map(|leader| leader.replica)).collect()
}

/// Stops the first leader at the call that raises the epoch of one shard. It has taken over the
/// other shards by then.
async fn interrupt_takeover(world: &mut World) -> (Arc<Votes>, tokio::task::JoinHandle<Leader>) {
    let votes = Votes::none();
    votes.give(world, TRUST);
    let mut old = world.process().leader_in(votes.clone(), "old");
    let (clock, gate) = (world.clock.clone(), world.process().gate.clone());
    gate.hold("raise_epoch");
    let taking = tokio::spawn(async move {
        run(&mut old, &clock).await.expect("no fault is armed");
        old
    });
    gate.reached().await;
    let most = Some(usize::from(SHARDS) - 1);
    let others = async {
        while Some(leaders(world).await.iter().flatten().count()) != most {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(30), others).await.expect("the others are taken");
    (votes, taking)
}

/// Advances to the next ticks and runs both leaders: the new one, whose terms are renewed, and the
/// old one.
async fn minute(world: &mut World, votes: &Votes, leaders: [&mut Leader; 2]) {
    world.clock.advance(to_next_minute(world.clock.now()));
    let clock = world.clock.clone();
    // After a shard was taken away, the next renewal takes it back.
    for leader in leaders {
        for _ in 0..3 {
            votes.give(world, TRUST);
            run(leader, &clock).await.expect("no fault is armed");
            clock.advance(Duration::from_millis(200));
        }
    }
}

async fn case(seed: u64, end: End, first: First) {
    let mut world = World::new(seed).await;
    for _ in 0..8 {
        world.create_every_minute().await;
    }
    let (old_votes, taking) = interrupt_takeover(&mut world).await;
    let votes = Votes::none();
    match end {
        End::ReceivedAlert => old_votes.end(),
        End::TrustExpired => world.clock.advance(TRUST),
    }
    votes.give(&world, TRUST);
    let mut new = world.process().leader_in(votes.clone(), "new");
    let clock = world.clock.clone();
    if first == First::New {
        run(&mut new, &clock).await.expect("no fault is armed");
        assert_eq!(leaders(&mut world).await, vec![Some("new".to_owned()); SHARDS.into()]);
    }
    world.process().gate.release();
    let mut old = taking.await.expect("the old leader does not panic");
    assert!(
        leaders(&mut world).await.contains(&Some("old".to_owned())),
        "the new leader acted in between"
    );

    for order in 0..3 {
        let both = if order == 1 { [&mut new, &mut old] } else { [&mut old, &mut new] };
        minute(&mut world, &votes, both).await;
        world.settle().await;
        each_tick_once(&mut world).await;
    }
    assert_eq!(leaders(&mut world).await, vec![Some("new".to_owned()); SHARDS.into()]);
    votes.give(&world, Duration::from_secs(86_400));
    world.process().leader = Some(new);
    world.heal().await;
    oracle::judge(&mut world).await;
    assert!(world.broken.is_empty(), "{}\n{}", world.trace.join("\n"), world.broken.join("\n"));
}

/// Asserts that each tick has exactly one job and that none was skipped.
async fn each_tick_once(world: &mut World) {
    let mut ticks: BTreeMap<_, Vec<Timestamp>> = BTreeMap::new();
    for job in world.jobs().await {
        ticks.entry(job.schedule_id).or_default().insert(0, job.id.timestamp());
    }
    let now = world.clock.now();
    for (id, known) in world.history.schedules.clone() {
        assert_eq!(ticks.remove(&id).unwrap_or_default(), known.ticks(now), "{id}");
        assert_eq!(world.skips(id).await, []);
    }
}

#[tokio::test]
async fn a_term_that_ends_while_shards_are_taken_over_loses_no_tick() {
    let mut seed = 0;
    for end in [End::ReceivedAlert, End::TrustExpired] {
        for first in [First::Old, First::New] {
            seed += 1;
            case(seed, end, first).await;
        }
    }
}
