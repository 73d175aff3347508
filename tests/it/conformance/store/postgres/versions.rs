//! The compatibility of binaries and database versions.

use std::time::Duration;

use punctual::store::{SharedStore, StoreErrorKind};
use sqlx::Connection;
use tokio::time::timeout;

use super::locks::until_one_waits;
use crate::conformance::store::moved;
use crate::harness::database::{Database, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrating_again_or_at_the_same_time_is_fine() {
    let database = Database::empty().await;
    let stores = [database.open(), database.open(), database.open()];
    let error = stores[0].check_version().await.expect_err("not set up");
    assert_eq!(error.kind(), StoreErrorKind::Incompatible);
    assert!(error.to_string().contains("punctual migrate"), "{error}");
    for migrated in futures_util::future::join_all(stores.iter().map(|store| store.migrate())).await
    {
        migrated.expect("migrate");
    }
    stores[1].migrate().await.expect("nothing to do");
    stores[0].check_version().await.expect("up to date");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_waits_for_a_table_lets_others_use_it() {
    let database = Database::migrated().await;
    let (mut long, mut other) =
        (database.second_connection().await, database.second_connection().await);
    run(&mut other, "ALTER TABLE shards DROP COLUMN suspensions").await;
    run(&mut other, "DELETE FROM _sqlx_migrations WHERE version = 8").await;
    let mut reading = long.begin().await.expect("begin");
    run(&mut reading, "SELECT FROM shards").await;
    let store = database.open();
    let migrating = tokio::spawn(async move {
        store.migrate().await.expect("migrate");
        store
    });
    until_one_waits(&mut other).await;
    // This would take as long as the reader if the migration kept waiting for its lock.
    let used = timeout(Duration::from_secs(5), run(&mut other, "SELECT FROM shards")).await;
    used.expect("it does not wait on");
    assert!(!migrating.is_finished(), "nor does it give up");
    reading.commit().await.expect("commit");
    let store = migrating.await.expect("no panic");
    store.check_version().await.expect("up to date");
    run(&mut other, "SELECT suspensions FROM shards").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_store_is_used_as_long_as_it_allows() {
    let database = Database::migrated().await;
    let (store, mut other_session) = (database.open(), database.second_connection().await);
    run(
        &mut other_session,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'later', TRUE, '', 0)",
    )
    .await;
    store.check_version().await.expect("it only adds");
    store.migrate().await.expect("it only adds");
    run(&mut other_session, "UPDATE meta SET value = 9999 WHERE name = 'min_compatible'").await;
    for refused in [store.check_version().await, store.migrate().await] {
        let error = refused.expect_err("it takes something away");
        assert_eq!(error.kind(), StoreErrorKind::Incompatible);
        assert!(error.to_string().contains("newer punctual"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_store_has_to_be_migrated() {
    let database = Database::migrated().await;
    let (store, mut other_session) = (database.open(), database.second_connection().await);
    run(&mut other_session, "UPDATE _sqlx_migrations SET checksum = ''").await;
    let error = store.migrate().await.expect_err("other migrations of those numbers");
    assert_eq!(error.kind(), StoreErrorKind::Incompatible);
    let newest = "SELECT max(version) FROM _sqlx_migrations";
    let forget = format!("DELETE FROM _sqlx_migrations WHERE version = ({newest})");
    run(&mut other_session, &forget).await;
    let error = store.check_version().await.expect_err("a migration is missing");
    assert_eq!(error.kind(), StoreErrorKind::Incompatible);
    assert!(error.to_string().contains("punctual migrate"), "{error}");
}

/// One million jobs have finished.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_unfinished_jobs_of_an_older_store_continue() {
    let database = Database::empty().await;
    let mut other_session = database.second_connection().await;
    let older = moved::older(&punctual::store::migrations::postgres());
    older.run(&mut other_session).await.expect("an older store");
    let day = |ms: i64| format!("'{ms:012x}{}'", "0".repeat(20));
    let (from, to) = (day(1_715_731_200_000), day(1_715_817_600_000));
    for table in ["jobs", "attempts"] {
        let day = format!(
            "CREATE TABLE {table}_20240515 PARTITION OF {table} FOR VALUES FROM ({from}) TO ({to})"
        );
        run(&mut other_session, &day).await;
    }
    let uuid = |id| format!("'{}'::uuid", sqlx::types::Uuid::from_bytes(id));
    run(&mut other_session, &moved::statements(uuid)).await;
    let finished = format!(
        "INSERT INTO jobs (id, account_id, schedule_id, version_id, shard, status, trigger,
                           max_attempts, created_at, updated_at, completed_at, response)
         SELECT (lpad(to_hex(1715740000000 + n), 12, '0') || repeat('0', 20))::uuid, v.account_id,
                v.schedule_id, v.id, 0, 2, 0, 1, n, n, n, repeat('a', 100)
         FROM schedule_versions AS v CROSS JOIN generate_series(1, {}) AS n",
        moved::FINISHED
    );
    run(&mut other_session, &finished).await;
    let store = database.open();
    store.migrate().await.expect("migrate");
    let store: SharedStore = std::sync::Arc::new(store);
    let rows =
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM jobs").fetch_one(&mut other_session);
    assert_eq!(rows.await.expect("counted"), i64::from(moved::FINISHED));
    moved::go_on(&store).await;
}
