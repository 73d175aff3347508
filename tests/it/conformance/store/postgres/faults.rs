//! A server that is down, is silent, refuses the connection or has damaged rows, and callers that
//! drop their calls.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual::domain::job::JobStatus;
use punctual::domain::plan::UNLIMITED;
use punctual::domain::{AccountId, ScheduleId};
use punctual::runtime::{TaskKind, Tasks};
use punctual::store::postgres::{PostgresSettings, PostgresStore};
use punctual::store::{
    AccountStore, AttemptEnd, CompletionResult, ScheduleStore, StoreErrorKind, UpkeepStore,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use super::super::damaged_rows;
use super::super::world::{World, answered, every_job, every_schedule, minute, soon, write};
use super::{prepare, world};
use crate::harness::database::{Database, run};
use crate::harness::keys::cipher;

/// The state of a connection to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    Works,
    /// Keeps connections open, but forwards nothing.
    Silent,
    /// Closes open connections, and new ones at once.
    Cut,
}

/// Starts a proxy to the server that can be silent or cut connections. Returns its URL and the
/// sender that sets its state.
async fn line(tasks: &Tasks, database: &Database) -> (String, watch::Sender<LinkState>) {
    let mut url: url::Url = database.url().parse().expect("a URL");
    let server = format!("{}:{}", url.host_str().expect("a host"), url.port().expect("a port"));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    url.set_port(Some(listener.local_addr().expect("bound").port())).expect("a port");
    let (state, line) = watch::channel(LinkState::Works);
    let within = tasks.clone();
    tasks.spawn(TaskKind::Connection, async move {
        while let Ok((near, _)) = listener.accept().await {
            let (server, line) = (server.clone(), line.clone());
            within.spawn(TaskKind::Connection, async move {
                let _ = forward(near, &server, line).await;
            });
        }
    });
    (url.into(), state)
}

async fn forward(
    near: TcpStream,
    server: &str,
    mut line: watch::Receiver<LinkState>,
) -> io::Result<()> {
    let mut near = near;
    let mut far = TcpStream::connect(server).await?;
    loop {
        let state = *line.borrow_and_update();
        match state {
            LinkState::Cut => return Ok(()),
            // Bytes that arrive meanwhile are lost with the connection.
            LinkState::Silent => {
                if line.changed().await.is_err() || *line.borrow() != LinkState::Silent {
                    return Ok(());
                }
            }
            LinkState::Works => tokio::select! {
                copied = tokio::io::copy_bidirectional(&mut near, &mut far) => {
                    return copied.map(drop);
                }
                _ = line.changed() => {}
            },
        }
    }
}

async fn recovers(store: &PostgresStore) {
    let back = async { while store.accounts().await.is_err() {} };
    timeout(Duration::from_secs(10), back).await.expect("it works again by itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_fail_fast_without_the_server_and_work_when_it_returns() {
    let (database, tasks) = (Database::migrated().await, Tasks::new());
    let (url, state) = line(&tasks, &database).await;
    let settings = PostgresSettings { api_connections: 2, ..PostgresSettings::new(url) };
    let store = PostgresStore::open(&settings, &cipher()).expect("open");
    for outage in [LinkState::Cut, LinkState::Silent] {
        // The pool may hold a connection that the outage before has broken: its next call fails.
        recovers(&store).await;
        state.send(outage).expect("the line");
        let began = Instant::now();
        let store_ref = &store;
        let calls = (0..6).map(|number| async move {
            let id = AccountId::new(minute(0), number);
            let name = format!("{outage:?} {number}");
            store_ref.create_account(&write(id, minute(0), number), &name, UNLIMITED).await
        });
        for made in futures_util::future::join_all(calls).await {
            let error = made.expect_err("the server is away");
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        }
        assert!(began.elapsed() < Duration::from_secs(15), "{outage:?}: {:?}", began.elapsed());
        state.send(LinkState::Works).expect("the line");
        recovers(&store).await;
    }
    tasks.finish(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_may_be_away_at_the_start() {
    let store = PostgresStore::open(
        &PostgresSettings::new("postgres://u:hidden@127.0.0.1:1/none"),
        &cipher(),
    );
    let store = store.expect("no connection is made yet");
    for failed in [store.ping().await, store.migrate().await, store.check_version().await] {
        let error = failed.expect_err("the server is down");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(!error.to_string().contains("hidden"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_address_is_named_without_its_password() {
    let database = Database::empty().await;
    let with = |change: fn(&mut url::Url)| {
        let mut url: url::Url = database.url().parse().expect("a URL");
        change(&mut url);
        PostgresSettings::new(url)
    };
    for (settings, said) in [
        (with(|url| url.set_password(Some("hidden")).expect("set")), "check user and password"),
        (with(|url| url.set_path("nowhere")), "there is no such database"),
        (with(|url| url.set_query(Some("sslmode=require"))), "sslmode"),
    ] {
        assert!(!format!("{settings:?}").contains("postgres://"));
        let store = PostgresStore::open(&settings, &cipher()).expect("open");
        assert!(store.ping().await.expect_err("it cannot be used").is_void());
        for failed in [store.ping().await, store.migrate().await] {
            let error = failed.expect_err("it cannot be used");
            assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
            let text = format!("{error} {error:?}");
            assert!(text.contains(said) && !text.contains("hidden"), "{text}");
        }
    }
    let refused =
        PostgresStore::open(&PostgresSettings::new("postgres://u:hidden@ho st/"), &cipher());
    let error = refused.err().expect("no URL");
    assert_eq!(error.kind(), StoreErrorKind::Incompatible);
    assert!(!format!("{error} {error:?}").contains("hidden"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_file_is_read_again_when_the_server_refuses_it() {
    let database = Database::migrated().await;
    let mut url: url::Url = database.url().parse().expect("a URL");
    let password = url.password().expect("a password").to_owned();
    url.set_password(None).expect("set");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("password");
    std::fs::write(&path, "yesterdays\n").expect("write");
    let settings =
        PostgresSettings { password_file: Some(path.clone()), ..PostgresSettings::new(url) };
    let store = PostgresStore::open(&settings, &cipher()).expect("open");
    let error = store.ping().await.expect_err("the wrong password");
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    std::fs::write(&path, format!("{password}\n")).expect("write");
    store.ping().await.expect_err("this one finds out");
    store.ping().await.expect("and reads the file again");
    let missing = PostgresSettings { password_file: Some(folder.path().join("none")), ..settings };
    let store = PostgresStore::open(&missing, &cipher()).expect("it may come");
    let error = store.ping().await.expect_err("there is no file");
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("none"), "{error}");
}

/// Polls a future at most `polls` times, then drops it.
async fn abandon(polls: usize, future: impl Future) {
    let mut future = std::pin::pin!(future);
    for _ in 0..polls {
        if futures_util::poll!(future.as_mut()).is_ready() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_disconnect_spoil_no_connection() {
    let database = Database::migrated().await;
    let one = PostgresSettings {
        api_connections: 1,
        scheduler_connections: 1,
        executor_connections: 1,
        ..database.settings()
    };
    let store = Arc::new(PostgresStore::open(&one, &cipher()).expect("open"));
    let w = World::new((store, Box::new(()))).await;
    let id = w.schedule().await;
    for number in 0..200_u32 {
        let polls = usize::try_from(w.random.bits() % 60).expect("small");
        let write = w.write(minute(1));
        match number % 9 {
            0 => abandon(polls, w.store.create_schedules(&write, &[w.new_schedule()], None)).await,
            1 => abandon(polls, w.store.schedules(w.account, &every_schedule())).await,
            2 => abandon(polls, w.store.jobs(w.account, &every_job())).await,
            3 => {
                let firing = w.firing(id).await;
                let now = soon(firing.tick);
                abandon(polls, w.store.fire(&[w.fence], now, &[firing])).await;
            }
            4 => abandon(polls, w.store.late(minute(9), None, 10)).await,
            5 => {
                let firing = w.firing(id).await;
                let claim = w.claim_at(soon(firing.tick));
                abandon(polls, w.store.fire_and_claim(&[w.fence], &claim, &[firing])).await;
            }
            6 => {
                let job = w.manual_job(id, minute(1)).await;
                abandon(polls, w.store.claim(&w.claim_at(minute(1)), &[job])).await;
            }
            7 => {
                let job = w.manual_job(id, minute(1)).await;
                let claimed = w.claim(minute(1), &[job]).await;
                let ends = claimed.iter().map(|one| w.completion(one, None, AttemptEnd::Succeeded));
                let ends: Vec<_> = ends.collect();
                abandon(polls, w.store.commit(minute(1), &ends)).await;
            }
            _ => {
                let missing = ScheduleId::new(minute(0), 1);
                abandon(polls, w.store.delete_schedule(&write, missing)).await;
            }
        }
    }
    w.read(id).await;
    let late = w.store.late(minute(999), None, 999).await.expect("read");
    w.claim(minute(999), &late.iter().map(|ticket| ticket.job).collect::<Vec<_>>()).await;
    w.fire_next(id).await;
    let mut other_session = database.second_connection().await;
    let open: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
    )
    .fetch_one(&mut other_session)
    .await
    .expect("ask");
    assert_eq!(open, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_refused_fails_its_batch_only() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let id = w.schedule().await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(w.manual_job(id, minute(1)).await);
    }
    let claimed = w.claim(minute(1), &jobs).await;
    let mut other_session = database.second_connection().await;
    prepare(&*w.store, minute(1)).await;
    run(&mut other_session, "ALTER TABLE jobs ADD CONSTRAINT good CHECK (response <> 'bad')").await;
    let end = |number: usize, body: &[u8]| {
        w.completion(&claimed[number], Some(answered(200, body)), AttemptEnd::Succeeded)
    };
    let batch = [end(0, b"good"), end(1, b"bad"), end(2, b"good")];
    let error = w.store.commit(minute(2), &batch).await.expect_err("a bad row");
    assert_eq!(error.kind(), StoreErrorKind::Rejected, "{error}");
    for job in &jobs {
        assert_eq!(w.status(*job).await, JobStatus::Running);
    }
    assert_eq!(w.read(id).await.last_run_at, None);
    let committed = w.commit(minute(2), &[batch[0].clone(), batch[2].clone()]).await;
    assert_eq!(committed.results, [CompletionResult::Applied(JobStatus::Success); 2]);
    let mut nul = w.new_schedule();
    nul.name = "a\0b".into();
    let refused =
        w.store.create_schedules(&w.write(minute(1)), &[w.new_schedule(), nul], None).await;
    assert_eq!(refused.expect_err("a NUL").kind(), StoreErrorKind::Rejected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_row_is_reported_as_such_and_stops_no_batch() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let spoil = async |sql| run(&mut database.second_connection().await, sql).await;
    damaged_rows::a_damaged_version_fails_its_job_alone(&w, spoil).await;
    damaged_rows::a_damaged_schedule_is_no_candidate(&w, spoil).await;
    let id = w.schedule().await;
    spoil("UPDATE schedule_versions SET http_method = 'BREW'").await;
    let error = w.store.schedule(w.account, id).await.expect_err("an unknown method");
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
    assert!(!error.to_string().contains("BREW"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_jobs_do_not_stop_the_job_rescuer() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let spoil = async |sql| run(&mut database.second_connection().await, sql).await;
    damaged_rows::damaged_jobs_do_not_stop_the_job_rescuer(&w, spoil).await;
    damaged_rows::damaged_rows_stop_no_alerts(&w, spoil).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_store_refuses_politely() {
    let database = Database::migrated().await;
    let store = database.open();
    assert!(store.time().await.expect("it has a clock").is_some());
    store.close().await;
    let missing = ScheduleId::new(minute(0), 1);
    let error = store.schedule(AccountId::new(minute(0), 1), missing).await.expect_err("closed");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
}
