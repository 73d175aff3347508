//! Commands of operators while replicas run.

use super::world::World;

/// A command uses the time of the store, as the replicas do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_note_the_time_of_the_store() {
    let world = World::new(&[]).await;
    for (name, wrong_ms) in [("fast", 600_000), ("slow", -600_000)] {
        let mut command = world.command(&["account", "create", name]);
        command.env("PUNCTUAL_TEST_CLOCK", format!("0,1,{wrong_ms},0"));
        assert!(command.status().expect("it runs").success());
    }
    let query = sqlx::query_scalar(
        "SELECT abs((extract(epoch FROM clock_timestamp()) * 1000)::bigint - created_at)
         FROM accounts",
    );
    let apart_ms: Vec<i64> =
        query.fetch_all(&mut world.second_connection().await).await.expect("accounts");
    assert_eq!(apart_ms.len(), 2);
    assert!(apart_ms.iter().all(|apart| *apart < 300_000), "{apart_ms:?}");
}
