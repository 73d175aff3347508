//! Tests of the SQLite adapter only: the file, its lock, its versions, its faults.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use punctual::domain::AccountId;
use punctual::domain::job::JobStatus;
use punctual::domain::plan::UNLIMITED;
use punctual::store::sqlite::{SqliteSettings, SqliteStore};
use punctual::store::{
    AccountStore, AttemptEnd, CompletionResult, Fired, LeadershipStore, Result, ScheduleStore,
    SealedTable, SecretStore, SharedStore, StoreErrorKind,
};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqliteConnection};
use tokio::time::timeout;

use super::world::{Home, World, answered, minute, soon, write};
use super::{audit, channels, secrets, signing};
use super::{damaged_rows, moved};
use crate::harness::keys::{cipher, cipher_of};

/// Opens a migrated store in its own folder.
pub async fn open() -> (SharedStore, Home) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = opened(&folder.path().join("store.db")).await;
    (Arc::new(store), Box::new(folder))
}

async fn opened(path: &Path) -> SqliteStore {
    let store = SqliteStore::open(&SqliteSettings::new(path), &cipher()).await.expect("open");
    store.migrate().await.expect("migrate");
    store
}

/// Opens a connection to the same file from outside the store.
async fn second_connection(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).connect().await.expect("connect")
}

async fn execute(connection: &mut SqliteConnection, sql: &'static str) {
    sqlx::query(sql).execute(connection).await.expect("a statement");
}

async fn create_account(store: &SqliteStore, number: u128) -> Result<bool> {
    let write = write(AccountId::new(minute(0), number), minute(0), number);
    store.create_account(&write, &format!("account {number}"), UNLIMITED).await
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[tokio::test]
async fn a_second_server_is_refused_but_commands_are_not() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let first = opened(&path).await;
    let lock = first.lock().expect("the first server");
    let second = opened(&folder.path().join(".").join("store.db")).await;
    let error = second.lock().expect_err("a second server");
    assert_eq!(error.kind(), StoreErrorKind::Incompatible);
    assert!(error.to_string().contains("another server uses"), "{error}");
    assert!(create_account(&second, 1).await.expect("a command works beside it"));
    assert_eq!(first.accounts().await.expect("list").len(), 1);
    drop(lock);
    second.lock().expect("the first server has gone");
}

#[tokio::test]
async fn migrating_again_or_at_the_same_time_is_fine() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let stores = [
        SqliteStore::open(&SqliteSettings::new(&path), &cipher()).await.expect("open"),
        SqliteStore::open(&SqliteSettings::new(&path), &cipher()).await.expect("open"),
    ];
    let error = stores[0].check_version().await.expect_err("not set up");
    assert_eq!(error.kind(), StoreErrorKind::Incompatible);
    assert!(error.to_string().contains("punctual migrate"), "{error}");
    let [a, b] = futures_util::future::join_all(stores.iter().map(SqliteStore::migrate))
        .await
        .try_into()
        .expect("two");
    a.expect("migrate");
    b.expect("migrate");
    stores[1].migrate().await.expect("nothing to do");
    stores[0].check_version().await.expect("up to date");
}

#[tokio::test]
async fn a_newer_store_is_used_as_long_as_it_allows() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let store = opened(&path).await;
    let mut other_session = second_connection(&path).await;
    execute(
        &mut other_session,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'later', TRUE, x'00', 0)",
    )
    .await;
    store.check_version().await.expect("it only adds");
    store.migrate().await.expect("it only adds");
    execute(&mut other_session, "UPDATE meta SET value = 9999 WHERE name = 'min_compatible'").await;
    for refused in [store.check_version().await, store.migrate().await] {
        let error = refused.expect_err("it takes something away");
        assert_eq!(error.kind(), StoreErrorKind::Incompatible);
        assert!(error.to_string().contains("newer punctual"), "{error}");
    }
}

#[tokio::test]
async fn an_older_server_must_stop_before_an_incompatible_migration() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let open =
        async || SqliteStore::open(&SqliteSettings::new(&path), &cipher()).await.expect("open");
    let (server, command) = (open().await, open().await);
    let mut other_session = second_connection(&path).await;
    let known = punctual::store::migrations::sqlite();
    known.run_to(2, &mut other_session).await.expect("version 2");
    let lock = server.lock().expect("it serves");
    let error = command.migrate().await.expect_err("a server would read wrong");
    assert_eq!(error.kind(), StoreErrorKind::Incompatible);
    assert!(error.to_string().contains("another server uses"), "{error}");
    drop(lock);
    command.migrate().await.expect("no server runs");
    server.migrate().await.expect("nothing to do");
}

#[tokio::test]
async fn an_older_store_has_to_be_migrated() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let store = opened(&path).await;
    let mut other_session = second_connection(&path).await;
    execute(&mut other_session, "DELETE FROM _sqlx_migrations").await;
    let error = store.check_version().await.expect_err("a migration is missing");
    assert_eq!(error.kind(), StoreErrorKind::Incompatible);
    assert!(error.to_string().contains("punctual migrate"), "{error}");
    execute(&mut other_session, "INSERT INTO _sqlx_migrations VALUES (1, 'x', 0, TRUE, x'00', 0)")
        .await;
    let error = store.migrate().await.expect_err("another migration of that number");
    assert_eq!(error.kind(), StoreErrorKind::Incompatible);
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_with_its_path() {
    let folder = folder();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("write a file");
        path
    };
    let mut damaged = {
        let path = folder.path().join("whole.db");
        opened(&path).await.close().await;
        std::fs::read(path).expect("read the file")
    };
    damaged[100..4_096].fill(0x5a);
    for (path, kind, said) in [
        (
            folder.path().join("missing/store.db"),
            StoreErrorKind::Incompatible,
            "there is no folder",
        ),
        (folder.path().to_owned(), StoreErrorKind::Incompatible, "cannot write to"),
        (file("a", b"x").join("store.db"), StoreErrorKind::Incompatible, "there is no folder"),
        (file("text", &[b'x'; 5_000]), StoreErrorKind::Corrupt, "not an SQLite database"),
        (file("damaged.db", &damaged), StoreErrorKind::Corrupt, "damaged"),
    ] {
        let Err(error) = SqliteStore::open(&SqliteSettings::new(&path), &cipher()).await else {
            panic!("{} can be opened", path.display());
        };
        assert_eq!(error.kind(), kind, "{error}");
        let (text, path) = (error.to_string(), folder.path().display().to_string());
        assert!(text.contains(said) && text.contains(&path), "{text}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let store = opened(&folder.path().join("store.db")).await;
    assert!(create_account(&store, 1).await.expect("create"));
    for name in ["store.db", "store.db-wal"] {
        let mode = std::fs::metadata(folder.path().join(name)).expect("it exists").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_the_death_of_the_process() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let store = opened(&path).await;
    for number in 0..20 {
        assert!(create_account(&store, number).await.expect("create"));
    }
    // A killed process leaves only what is on the disk now.
    let after = folder.path().join("after.db");
    std::fs::copy(&path, &after).expect("copy");
    std::fs::copy(folder.path().join("store.db-wal"), folder.path().join("after.db-wal"))
        .expect("copy the log");
    let survivor = SqliteStore::open(&SqliteSettings::new(&after), &cipher()).await.expect("open");
    survivor.check_version().await.expect("set up");
    assert_eq!(survivor.accounts().await.expect("list").len(), 20);
}

#[tokio::test]
async fn a_write_waits_for_another_process_and_reads_do_not() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let store = opened(&path).await;
    let mut other_session = second_connection(&path).await;
    execute(&mut other_session, "BEGIN IMMEDIATE").await;
    let mut write = std::pin::pin!(create_account(&store, 1));
    assert!(futures_util::poll!(write.as_mut()).is_pending());
    let read = timeout(Duration::from_secs(2), store.accounts()).await;
    assert!(read.expect("reads go on").expect("list").is_empty());
    assert!(futures_util::poll!(write.as_mut()).is_pending());
    execute(&mut other_session, "COMMIT").await;
    assert!(write.await.expect("the write succeeds"));
}

#[tokio::test]
async fn a_full_store_reports_it_and_recovers() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let settings = SqliteSettings { max_bytes: Some(1_000_000), ..SqliteSettings::new(&path) };
    let store = SqliteStore::open(&settings, &cipher()).await.expect("open");
    store.migrate().await.expect("migrate");
    let store: SharedStore = Arc::new(store);
    let world = World::new((store.clone(), Box::new(()))).await;
    let id = world.schedule().await;
    let body = vec![b'x'; 60_000];
    let mut kept = 0;
    let error = loop {
        let job = world.manual_job(id, minute(1)).await;
        let claimed = world.claim(minute(1), &[job]).await.remove(0);
        let end = world.completion(&claimed, Some(answered(200, &body)), AttemptEnd::Succeeded);
        match store.commit(minute(1), &[end]).await {
            Ok(_) => kept += 1,
            Err(error) => {
                assert_eq!(world.status(job).await, JobStatus::Running, "all is undone");
                break error;
            }
        }
        assert!(kept < 100, "it should have been full by now");
    };
    assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
    assert!(error.is_transient() && error.to_string().contains("full"), "{error}");
    assert!(kept > 3, "{kept}");
    store.ping().await.expect("it answers");
    // Pruning makes room, and then the same write succeeds.
    let pruned = store.prune(minute(9), 100).await.expect("prune");
    assert_eq!(pruned.jobs, kept);
    let lost = store.expired(minute(99), 9).await.expect("read").remove(0);
    let completion = punctual::store::Completion {
        job: lost.job,
        attempt: lost.attempt,
        executor: lost.executor,
        run: None,
        completed_at: minute(2),
        exchange: Some(answered(200, &body)),
        end: AttemptEnd::Succeeded,
    };
    let committed = store.commit(minute(2), &[completion]).await.expect("commit");
    assert_eq!(committed.results, [CompletionResult::Applied(JobStatus::Success)]);
}

#[tokio::test]
async fn a_row_that_is_refused_fails_its_batch_only() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let world = World::new((Arc::new(opened(&path).await), Box::new(()))).await;
    let id = world.schedule().await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(world.manual_job(id, minute(1)).await);
    }
    let claimed = world.claim(minute(1), &jobs).await;
    let mut other_session = second_connection(&path).await;
    execute(
        &mut other_session,
        "CREATE TRIGGER bad BEFORE INSERT ON jobs WHEN new.response = 'bad'
         BEGIN SELECT raise(ABORT, 'a bad row'); END",
    )
    .await;
    let end = |number: usize, body: &[u8]| {
        world.completion(&claimed[number], Some(answered(200, body)), AttemptEnd::Succeeded)
    };
    let batch = [end(0, b"good"), end(1, b"bad"), end(2, b"good")];
    let error = world.store.commit(minute(2), &batch).await.expect_err("a bad row");
    assert_eq!(error.kind(), StoreErrorKind::Rejected, "{error}");
    assert!(!error.is_transient());
    for job in &jobs {
        assert_eq!(world.status(*job).await, JobStatus::Running);
    }
    assert_eq!(world.read(id).await.last_run_at, None);
    let committed = world.commit(minute(2), &[batch[0].clone(), batch[2].clone()]).await;
    assert_eq!(committed.results, [CompletionResult::Applied(JobStatus::Success); 2]);
    let error = world.store.commit(minute(2), &batch[1..2]).await.expect_err("a bad row");
    assert_eq!(error.kind(), StoreErrorKind::Rejected);
}

#[tokio::test]
async fn a_damaged_row_is_reported_as_such_and_stops_no_batch() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let world = World::new((Arc::new(opened(&path).await), Box::new(()))).await;
    let spoil = async |sql| execute(&mut second_connection(&path).await, sql).await;
    damaged_rows::a_damaged_version_fails_its_job_alone(&world, spoil).await;
    damaged_rows::a_damaged_schedule_is_no_candidate(&world, spoil).await;
    let [fine, damaged] = [world.schedule().await, world.schedule().await];
    let firings = [world.firing(damaged).await, world.firing(fine).await];
    // First a number that is out of range, then bytes that are not a text.
    spoil("UPDATE schedule_versions SET max_retries = 700").await;
    let fired = world.store.fire(&[world.fence], soon(minute(1)), &firings).await.expect("fire");
    let Fired { advanced, busy, .. } = fired;
    assert_eq!((advanced, busy), (vec![], vec![damaged, fine]), "both are damaged");
    spoil("UPDATE schedule_versions SET http_method = cast(x'ff' AS text), max_retries = 3").await;
    let error = world.store.schedule(world.account, fine).await.expect_err("no text");
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
    let job = world.manual_job(fine, minute(1)).await;
    let claims = world.store.claim(&world.claim_at(minute(1)), &[job]).await.expect("claim");
    assert_eq!((claims.taken.len(), claims.unreadable.len()), (0, 1));
}

#[tokio::test]
async fn an_entry_of_the_audit_log_stays_as_it_was_written() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let world = World::new((Arc::new(opened(&path).await), Box::new(()))).await;
    let tamper = async |sql: &'static str| {
        let changed = sqlx::query(sql).execute(&mut second_connection(&path).await).await;
        changed.err().map(|error| error.to_string())
    };
    audit::an_entry_stays_as_it_was_written(&world, tamper).await;
}

#[tokio::test]
async fn secrets_open_at_their_own_places_only() {
    let folder = folder();
    for (name, case) in ["a.db", "b.db", "c.db", "d.db"].into_iter().zip(0..) {
        let path = folder.path().join(name);
        let world = World::new((Arc::new(opened(&path).await), Box::new(()))).await;
        let spoil = async |sql| execute(&mut second_connection(&path).await, sql).await;
        match case {
            0 => secrets::a_secret_opens_at_its_own_place_only(&world, spoil).await,
            1 => secrets::a_secret_opens_for_its_own_account_only(&world, spoil).await,
            2 => secrets::plain_secrets_are_read_and_sealed(&world, spoil).await,
            _ => signing::a_secret_signs_at_its_own_place_only(&world, spoil).await,
        }
    }
}

#[tokio::test]
async fn keys_are_changed_and_checked() {
    let folder = folder();
    for case in 0..7 {
        let path = folder.path().join(format!("{case}.db"));
        let world = World::new((Arc::new(opened(&path).await), Box::new(()))).await;
        let spoil = async |sql| execute(&mut second_connection(&path).await, sql).await;
        let reopen = async |cipher| {
            let store = SqliteStore::open(&SqliteSettings::new(&path), &cipher).await;
            let store: SharedStore = Arc::new(store.expect("open"));
            store
        };
        match case {
            0 => secrets::keys_are_changed(&world, reopen).await,
            1 => secrets::of_different_first_keys_one_is_taken(&world, reopen).await,
            2 => secrets::lost_rows_keep_the_keys_until_abandoned(&world, reopen, spoil).await,
            3 | 4 => {
                spoil(
                    "CREATE TRIGGER meanwhile AFTER DELETE ON secret_keys
                     BEGIN UPDATE signing_secrets SET secret = 'sealed:1:newer:AAAA'; END",
                )
                .await;
                secrets::rows_that_are_written_meanwhile_keep_the_keys(&world, reopen, case == 4)
                    .await;
            }
            5 => channels::configurations_are_encrypted(&world, reopen, spoil).await,
            _ => secrets::a_missing_or_wrong_key_is_refused(&world, reopen).await,
        }
    }
}

/// The search for values that another key has encrypted reads everything. It runs while another
/// connection writes, and does not wait for it.
#[tokio::test]
async fn secrets_are_looked_for_beside_the_writer() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let world = World::new((Arc::new(opened(&path).await), Box::new(()))).await;
    world.store.use_keys(&[]).await.expect("noted");
    world.schedule().await;
    let settings = SqliteSettings::new(&path);
    let both = SqliteStore::open(&settings, &cipher_of(&["new", "test"])).await.expect("open");
    both.use_keys(&[]).await.expect("noted");
    let mut other_session = second_connection(&path).await;
    execute(&mut other_session, "BEGIN IMMEDIATE").await;
    // Less than the time for which a write waits.
    let soon = Duration::from_secs(2);
    let looked = timeout(soon, world.store.reseal(SealedTable::Versions, [0; 16], 9)).await;
    assert_eq!(looked.expect("at once").expect("looked").last, None, "nothing to seal anew");
    let forgotten = timeout(soon, both.forget_keys(false)).await.expect("at once").expect("looked");
    assert_eq!(forgotten, [""; 0], "the old one is needed");
    execute(&mut other_session, "COMMIT").await;
    for table in SealedTable::ALL {
        let done = both.reseal(table, [0; 16], 9).await.expect("sealed");
        assert_eq!((done.sealed > 0, done.unreadable), (done.last.is_some(), vec![]), "{table:?}");
    }
    assert_eq!(both.forget_keys(false).await.expect("forgotten"), ["test"]);
}

#[tokio::test]
async fn damaged_jobs_do_not_stop_the_job_rescuer() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let world = World::new((Arc::new(opened(&path).await), Box::new(()))).await;
    let spoil = async |sql| execute(&mut second_connection(&path).await, sql).await;
    damaged_rows::damaged_jobs_do_not_stop_the_job_rescuer(&world, spoil).await;
    damaged_rows::damaged_rows_stop_no_alerts(&world, spoil).await;
}

#[tokio::test]
async fn a_closed_store_refuses_politely() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let store = opened(&path).await;
    store.set_up_shards(4).await.expect("set up");
    store.close().await;
    let error = create_account(&store, 1).await.expect_err("closed");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    let missing = punctual::domain::ScheduleId::new(minute(0), 1);
    let error = store.schedule(AccountId::new(minute(0), 1), missing).await.expect_err("closed");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(!folder.path().join("store.db-wal").exists(), "the log was merged into the file");
}

/// The older store also has a million finished jobs.
#[tokio::test]
async fn the_unfinished_jobs_of_an_older_store_continue() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut other_session = options.connect().await.expect("connect");
    let older = moved::older(&punctual::store::migrations::sqlite());
    older.run(&mut other_session).await.expect("an older store");
    let blob = |id: [u8; 16]| format!("unhex('{:032x}')", u128::from_be_bytes(id));
    let made = AssertSqlSafe(moved::statements(blob));
    sqlx::raw_sql(made).execute(&mut other_session).await.expect("made");
    let finished = format!(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {})
         INSERT INTO jobs (id, account_id, schedule_id, version_id, shard, status, trigger,
                           max_attempts, created_at, updated_at, completed_at, response)
         SELECT unhex(printf('%012x%020x', 1715740000000 + n, 0)), v.account_id, v.schedule_id,
                v.id, 0, 2, 0, 1, n, n, n, printf('%0100d', n)
         FROM n CROSS JOIN schedule_versions AS v",
        moved::FINISHED
    );
    sqlx::query(AssertSqlSafe(finished)).execute(&mut other_session).await.expect("made");
    other_session.close().await.expect("closed");
    let store: SharedStore = Arc::new(opened(&path).await);
    moved::go_on(&store).await;
    let mut other_session = second_connection(&path).await;
    let rows =
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM jobs").fetch_one(&mut other_session);
    assert_eq!(rows.await.expect("counted"), i64::from(moved::FINISHED));
}
