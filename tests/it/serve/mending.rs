//! A store that a replica cannot use until an operator repairs it. The replica is alive and not
//! ready, and logs the reason. After the repair it serves without a restart. A command does not
//! wait.

use serde_json::json;
use url::Url;

use super::world::{Replica, SHARDS, World};
use crate::harness::database::run;
use crate::harness::process::run_to_end;

/// Returns the URL of the world's database for a user.
fn url_of(world: &World, user: &str, password: Option<&str>) -> String {
    let mut url: Url = world.database.url().parse().expect("a URL");
    url.set_username(user).expect("set");
    url.set_password(password).expect("set");
    url.into()
}

/// Asserts that a replica waits for a repair of the store.
async fn waits(replica: &mut Replica, state: &str, why: &str) {
    replica.waits_for(&json!(["store"])).await;
    replica.wait_for_log(why).await;
    let reply = replica.ask("/readyz").await;
    assert_eq!((reply.status, &reply.body["store"]), (503, &json!(state)), "{:?}", reply.body);
    let said = replica.read_log();
    let line = said.lines().find(|line| line.contains(why)).expect("said");
    assert!(line.contains("\"level\":\"ERROR\"") && line.contains("store.url"), "{line}");
    assert_eq!(said.matches(why).count(), 1, "said once: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_write_can_be_allowed() {
    let world = World::new(&[]).await;
    let mut other_session = world.second_connection().await;
    let user = format!("user_{}", world.prefix.replace('-', "_"));
    run(&mut other_session, &format!("CREATE USER {user} PASSWORD 'another'")).await;
    let url = url_of(&world, &user, Some("hunter2"));
    let mut command = world.command(&["migrate"]);
    command.env("PUNCTUAL_STORE_URL", &url);
    let (status, said) = run_to_end(command).await;
    assert!(status == Some(1) && said.contains("check user and password"), "{status:?}: {said}");

    let mut replica = world.start(&[("PUNCTUAL_STORE_URL", &url)]).await;
    waits(&mut replica, "refused", "check user and password").await;
    run(&mut other_session, &format!("ALTER USER {user} PASSWORD 'hunter2'")).await;
    waits(&mut replica, "refused", "the user lacks a right").await;
    let name = world.database.url().rsplit_once('/').expect("a name").1.to_owned();
    run(&mut other_session, &format!("ALTER DATABASE {name} OWNER TO {user}")).await;
    run(&mut other_session, &format!("ALTER SCHEMA public OWNER TO {user}")).await;
    replica.ready().await;
    assert!(!replica.read_log().contains("hunter2"), "{}", replica.read_log());
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_can_be_made_later() {
    let world = World::new(&[]).await;
    let url = format!("{}_later", world.database.url());
    let mut replica = world.start(&[("PUNCTUAL_STORE_URL", &url)]).await;
    waits(&mut replica, "refused", "there is no such database").await;
    let mut other_session = world.second_connection().await;
    let name = url.rsplit_once('/').expect("a name").1;
    run(&mut other_session, &format!("CREATE DATABASE {name}")).await;
    replica.ready().await;
    replica.stop().await;
    run(&mut other_session, &format!("DROP DATABASE {name} WITH (FORCE)")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_file_can_be_mended() {
    let world = World::new(&[]).await;
    let known: Url = world.database.url().parse().expect("a URL");
    let password = known.password().expect("a password");
    let url = url_of(&world, known.username(), None);
    let file = world.folder.path().join("password");
    let path = file.to_str().expect("text").to_owned();
    let settings = [("PUNCTUAL_STORE_URL", url.as_str()), ("PUNCTUAL_STORE_PASSWORD_FILE", &path)];
    let mut command = world.command(&["migrate"]);
    command.envs(settings);
    let (status, said) = run_to_end(command).await;
    assert!(status == Some(1) && said.contains("cannot read the password file"), "{said}");

    let mut replica = world.start(&settings).await;
    waits(&mut replica, "refused", "cannot read the password file").await;
    std::fs::write(&file, "hunter2\n").expect("written");
    waits(&mut replica, "refused", "check user and password").await;
    std::fs::write(&file, format!("{password}\n")).expect("written");
    replica.ready().await;
    assert!(!replica.read_log().contains("hunter2"), "{}", replica.read_log());
    replica.stop().await;
}

/// F19: a replica with another number of shards serves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_with_another_number_of_shards_serves_nothing() {
    let world = World::new(&[]).await;
    let replica = world.replica(&[]).await;
    let mut other = world.start(&[("PUNCTUAL_CLUSTER_SHARDS", "64")]).await;
    let expected = format!("set up with {SHARDS} shards, not 64: set cluster.shards to {SHARDS}");
    waits(&mut other, "incompatible", &expected).await;
    assert_eq!(replica.ask("/readyz").await.status, 200, "it is left alone");
    replica.stop().await;
    run(&mut world.second_connection().await, "UPDATE meta SET value = 64 WHERE name = 'shards'")
        .await;
    other.ready().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_another_version_is_waited_for() {
    let world = World::new(&[]).await;
    let mut replica = world.start(&[("PUNCTUAL_STORE_MIGRATE", "false")]).await;
    waits(&mut replica, "incompatible", "run `punctual migrate`").await;
    world.run(&["migrate"]);
    replica.ready().await;
    replica.stop().await;
    let demand = async |version: u32| {
        let demand = format!("UPDATE meta SET value = {version} WHERE name = 'min_compatible'");
        run(&mut world.second_connection().await, &demand).await;
    };
    demand(9999).await;
    let mut replica = world.start(&[]).await;
    waits(&mut replica, "incompatible", "use a newer punctual").await;
    demand(1).await;
    replica.ready().await;
    replica.stop().await;
}
