//! Replicas during failures of etcd.

use etcd_client::{Client, PermissionType};
use punctual::cluster::etcd::ServerSettings;

use super::etcd::{LEASE, join};
use super::world::*;
use crate::harness::certificates::Authority;
use crate::harness::servers::EtcdServers;

fn pair(servers: &EtcdServers) -> [Replica; 2] {
    let clock = Clock::system();
    [(); 2].map(|()| join(&servers.url(""), &clock, |_| {}))
}

fn numbers(replicas: &[&Replica]) -> BTreeMap<(String, ShardId), u64> {
    let terms = replicas.iter().flat_map(|replica| {
        let terms = replica.trusted().into_iter();
        terms.map(|(shard, term)| ((replica.name.clone(), shard), term.number))
    });
    terms.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_loss_of_one_of_three_servers_has_no_effect() {
    let mut servers = EtcdServers::start(3).await;
    let replicas = pair(&servers);
    let all: Vec<_> = replicas.iter().collect();
    let referee = Referee::of(&all);
    evenly_led(&all).await;
    for server in 0..3 {
        servers.kill(server);
        crate::harness::wait::live_for(LEASE).await;
        evenly_led(&all).await;
        servers.restart(server);
        servers.ready().await;
    }
    all[0].cluster.leave().await;
    until("the remaining replica leads all shards", async || all_led(&all[1..]).then_some(()))
        .await;
    referee.no_shard_was_led_twice().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_server_is_left() {
    let servers = EtcdServers::start(3).await;
    let replicas = pair(&servers);
    let all: Vec<_> = replicas.iter().collect();
    let referee = Referee::of(&all);
    evenly_led(&all).await;
    servers.process(1).pause();
    crate::harness::wait::live_for(LEASE).await;
    evenly_led(&all).await;
    servers.process(1).resume();
    referee.no_shard_was_led_twice().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_no_term_is_trusted_until_it_is_back() {
    let mut servers = EtcdServers::start(3).await;
    let replicas = pair(&servers);
    let all: Vec<_> = replicas.iter().collect();
    let referee = Referee::of(&all);
    evenly_led(&all).await;
    let before = numbers(&all);
    servers.kill(0);
    servers.kill(1);
    let begun = Instant::now();
    until("no term is trusted", async || {
        all.iter().all(|replica| replica.leads().is_empty()).then_some(())
    })
    .await;
    // The remaining leader needs a while to detect that it is alone. Until then it renews leases.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    servers.restart(0);
    servers.restart(1);
    servers.ready().await;
    evenly_led(&all).await;
    for (shard, number) in numbers(&all) {
        let is_later = before.get(&shard).is_none_or(|before| *before <= number);
        assert!(is_later, "the same term, if the lease has lasted, or a new one: {shard:?}");
    }
    referee.no_shard_was_led_twice().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_etcd_hangs_terms_stay_and_are_not_trusted() {
    let servers = EtcdServers::start(1).await;
    let replicas = pair(&servers);
    let all: Vec<_> = replicas.iter().collect();
    let referee = Referee::of(&all);
    evenly_led(&all).await;
    servers.process(0).pause();
    // Both replicas have this clock.
    let paused = all[0].clock.monotonic();
    until("no term is trusted", async || {
        all.iter().all(|replica| replica.leads().is_empty()).then_some(())
    })
    .await;
    let terms = all.iter().map(|replica| replica.cluster.terms().borrow().clone());
    let kept: Vec<_> = terms.flat_map(Terms::into_values).collect();
    assert_eq!(kept.len(), usize::from(SHARDS), "leaders may continue");
    for term in kept {
        let trusted_until = term.trusted_until.expect("a term of etcd");
        assert!(trusted_until < paused + LEASE, "longer than the lease: {term:?}, {paused:?}");
    }
    let leaving = Instant::now();
    all[0].cluster.leave().await;
    assert!(leaving.elapsed() < Duration::from_secs(10), "leaving does not wait for etcd");
    servers.process(0).resume();
    until("the other replica leads all shards", async || all_led(&all[1..]).then_some(())).await;
    referee.no_shard_was_led_twice().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_lease_is_followed_by_a_new_one() {
    let servers = EtcdServers::start(1).await;
    let replica = join(&servers.url(""), &Clock::system(), |_| {});
    evenly_led(&[&replica]).await;
    let before = numbers(&[&replica]);
    let mut client = servers.client().await;
    let leases = client.leases().await.expect("listed");
    for lease in leases.leases() {
        client.lease_revoke(lease.id()).await.expect("revoked");
    }
    until("each shard has a new term", async || {
        let after = numbers(&[&replica]);
        let new = |shard| after.get(shard).is_some_and(|number| *number > before[shard]);
        before.keys().all(new).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_comes_late_or_empty_is_joined() {
    let mut servers = EtcdServers::start(1).await;
    servers.kill(0);
    let replica = join(&servers.url(""), &Clock::system(), |_| {});
    let refused = until("the replica reports that etcd is away", async || {
        replica.cluster.members().await.err()
    })
    .await;
    assert!(replica.leads().is_empty(), "{refused}");
    servers.restart(0);
    evenly_led(&[&replica]).await;
    let mut client = servers.client().await;
    let all = Some(etcd_client::DeleteOptions::new().with_prefix());
    client.delete("test/", all).await.expect("deleted");
    until("the replica is a member again and leads all shards", async || {
        let members = replica.cluster.members().await.ok()?;
        let listed = client.get("test/members/", Some(prefix())).await.ok()?;
        (members.len() == 1 && listed.kvs().len() == 1 && all_led(&[&replica])).then_some(())
    })
    .await;
}

fn prefix() -> etcd_client::GetOptions {
    etcd_client::GetOptions::new().with_prefix()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_explained_without_showing_it() {
    let servers = EtcdServers::start(1).await;
    require_login(&mut servers.client().await).await;
    for login in ["me:wrong-secret@", ""] {
        let replica = join(&servers.url(login), &Clock::system(), |_| {});
        let said = until("etcd rejects the login", async || {
            let refused = replica.cluster.members().await.err()?.to_string();
            refused.contains("PUNCTUAL_CLUSTER_URL").then_some(refused)
        })
        .await;
        assert!(!said.contains("wrong-secret"), "{said}");
    }
    let replica = join(&servers.url("me:secret@"), &Clock::system(), |_| {});
    evenly_led(&[&replica]).await;
    replica.cluster.leave().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_the_given_authority_is_trusted_and_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = Authority::new("of the test").server_files(&["127.0.0.1"], folder.path());
    let servers = EtcdServers::start_with_tls(&files).await;
    let url = servers.url("").replace("etcd://", "etcds://");
    let trusting = ServerSettings::parse(&url, None, Some(&files.authority)).expect("valid");
    let replica = join(&url, &Clock::system(), |settings| settings.servers = trusting);
    evenly_led(&[&replica]).await;
    replica.cluster.leave().await;
    let careful = join(&url, &Clock::system(), |_| {});
    until("the replica has tried to join etcd", async || {
        let refused = careful.cluster.members().await.err()?.to_string();
        (!refused.contains("not joined yet")).then_some(())
    })
    .await;
    assert!(careful.leads().is_empty(), "an unknown authority");
}

/// Enables authentication: the user `me` with the password `secret` may use the keys of the tests.
async fn require_login(client: &mut Client) {
    let all = etcd_client::Permission::new(PermissionType::Readwrite, "test/").with_prefix();
    client.role_add("tests").await.expect("added");
    client.role_grant_permission("tests", all).await.expect("granted");
    client.user_add("me", "secret", None).await.expect("added");
    client.user_grant_role("me", "tests").await.expect("granted");
    client.user_add("root", "of all", None).await.expect("added");
    client.role_add("root").await.expect("added");
    client.user_grant_role("root", "root").await.expect("granted");
    client.auth_enable().await.expect("enabled");
}
