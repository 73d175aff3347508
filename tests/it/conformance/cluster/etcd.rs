//! Several replicas that find each other through etcd.

use punctual::cluster::etcd::{EtcdCluster, EtcdSettings, ServerSettings};

use super::world::*;
use crate::harness::servers::shared;

pub const LEASE: Duration = Duration::from_secs(2);

/// Starts a replica of the installation `test`. `change` may change its settings.
pub fn join(url: &str, clock: &Clock, change: impl FnOnce(&mut EtcdSettings)) -> Replica {
    let random = Random::system();
    let mut settings = EtcdSettings {
        servers: ServerSettings::parse(url, None, None).expect("valid"),
        name: format!("replica-{:08x}", random.bits() >> 96),
        leads: true,
        executes: true,
        shards: SHARDS,
        installation: "test".to_owned(),
        lease_time: LEASE,
    };
    change(&mut settings);
    let (name, tasks) = (settings.name.clone(), Tasks::new());
    let cluster = EtcdCluster::start(settings, clock.clone(), random, &tasks).expect("a thread");
    Replica { name, cluster: Arc::new(cluster), clock: clock.clone(), tasks }
}

/// Returns the URL of the shared servers with a unique prefix.
fn own_url() -> String {
    format!("{}/test-{:032x}", shared("PUNCTUAL_TEST_ETCD"), Random::system().bits())
}

fn several(count: usize) -> (String, Vec<Replica>) {
    several_with(count, LEASE)
}

fn several_with(count: usize, lease: Duration) -> (String, Vec<Replica>) {
    let (url, clock) = (own_url(), Clock::system());
    let join_one = |_| join(&url, &clock, |settings| settings.lease_time = lease);
    let replicas = (0..count).map(join_one).collect();
    (url, replicas)
}

pub async fn open() -> Vec<Replica> {
    several(3).1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_leaves_hands_over_within_a_second() {
    // A replica that waited for the end of this lease would be seen, however slow the machine is.
    let (_, replicas) = several_with(3, Duration::from_secs(30));
    let all: Vec<_> = replicas.iter().collect();
    let referee = Referee::of(&all);
    evenly_led(&all).await;
    let before = all[0].cluster.terms().borrow().clone();
    let begun = Instant::now();
    all[2].cluster.leave().await;
    until("the other replicas lead the shards of the one that left", async || {
        all_led(&all[..2]).then_some(())
    })
    .await;
    println!("handed over in {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    evenly_led(&all[..2]).await;
    let after = all[0].cluster.terms().borrow().clone();
    let highest = before.values().map(|term| term.number).max().unwrap_or(0);
    for (shard, term) in after.iter().filter(|(shard, _)| !before.contains_key(shard)) {
        assert!(term.number > highest, "the term of shard {shard} is a new one: {term:?}");
    }
    referee.no_shard_was_led_twice().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_joins_gets_its_part() {
    let (url, mut replicas) = several(2);
    evenly_led(&replicas.iter().collect::<Vec<_>>()).await;
    replicas.push(join(&url, &replicas[0].clock, |_| {}));
    let all: Vec<_> = replicas.iter().collect();
    let referee = Referee::of(&all);
    evenly_led(&all).await;
    referee.no_shard_was_led_twice().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_replica_is_followed_when_its_lease_ends() {
    let (_, replicas) = several(3);
    let all: Vec<_> = replicas.iter().collect();
    let referee = Referee::of(&all);
    evenly_led(&all).await;
    let begun = Instant::now();
    all[1].kill().await;
    until("the other replicas lead the shards of the killed one", async || {
        all_led(&[all[0], all[2]]).then_some(())
    })
    .await;
    println!("followed after {:?}", begun.elapsed());
    // Usually within `LEASE` and the half second in which the servers look for expired leases.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    referee.no_shard_was_led_twice().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_does_not_lead_is_a_member() {
    let (url, replicas) = several(1);
    let only = join(&url, &replicas[0].clock, |settings| settings.leads = false);
    evenly_led(&[&replicas[0]]).await;
    until("the replica that does not lead is a member", async || {
        let members = replicas[0].cluster.members().await.ok()?;
        members.iter().any(|member| member.name == only.name).then_some(())
    })
    .await;
    until("the leader leads all shards", async || all_led(&[&replicas[0]]).then_some(())).await;
    assert!(only.leads().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_of_another_store_never_leads() {
    let (url, replicas) = several(1);
    evenly_led(&[&replicas[0]]).await;
    let other = |settings: &mut EtcdSettings| settings.installation = "other".to_owned();
    let foreign_replica = join(&url, &replicas[0].clock, other);
    let said = until("the replica of another store is rejected", async || {
        let refused = foreign_replica.cluster.members().await.err()?.to_string();
        refused.contains("another store").then_some(refused)
    })
    .await;
    assert!(said.contains("PUNCTUAL_CLUSTER_URL"), "{said}");
    assert!(foreign_replica.leads().is_empty());
    replicas[0].cluster.leave().await;
    crate::harness::wait::live_for(LEASE).await;
    assert!(foreign_replica.leads().is_empty(), "although no other replica leads");
}
