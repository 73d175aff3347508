//! Which binary fits which database.

use punctual::store::StoreErrorKind;

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
async fn a_newer_store_is_used_as_long_as_it_allows() {
    let database = Database::migrated().await;
    let (store, mut beside) = (database.open(), database.beside().await);
    run(
        &mut beside,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'later', TRUE, '', 0)",
    )
    .await;
    store.check_version().await.expect("it only adds");
    store.migrate().await.expect("it only adds");
    run(&mut beside, "UPDATE meta SET value = 9999 WHERE name = 'min_compatible'").await;
    for refused in [store.check_version().await, store.migrate().await] {
        let error = refused.expect_err("it takes something away");
        assert_eq!(error.kind(), StoreErrorKind::Incompatible);
        assert!(error.to_string().contains("newer punctual"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_store_has_to_be_migrated() {
    let database = Database::migrated().await;
    let (store, mut beside) = (database.open(), database.beside().await);
    run(&mut beside, "UPDATE _sqlx_migrations SET version = -version").await;
    let error = store.check_version().await.expect_err("a migration is missing");
    assert_eq!(error.kind(), StoreErrorKind::Incompatible);
    assert!(error.to_string().contains("punctual migrate"), "{error}");
    run(&mut beside, "UPDATE _sqlx_migrations SET version = -version, checksum = ''").await;
    let error = store.migrate().await.expect_err("another migration of that number");
    assert_eq!(error.kind(), StoreErrorKind::Incompatible);
}
