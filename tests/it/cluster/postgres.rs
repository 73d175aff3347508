//! PostgreSQL restarts, is silent, loses answers, and has locked rows.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::{Connection, PgConnection, Postgres, Transaction};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::history::{Answer, ApiOperation};
use super::load::Users;
use super::stores::{ServerKind, Store};
use super::world::{LONG_OUTAGE, MINUTE_OUTAGE, USUAL, World, WorldConfig};
use crate::harness::client::{ApiClient, schedule};
use crate::harness::link::Mood;
use crate::harness::postgres::{PostgresServer, Stop};
use crate::harness::states::running;
use crate::harness::wait::{live_for, until, within};

/// The number of connections that the API of each replica has in a `World`.
const API_CONNECTIONS: i64 = 8;
/// The maximum number of concurrent commits of each executor: two for new outcomes, one for
/// deferred outcomes.
const EXECUTORS_COMMITS: i64 = 3;
/// A text that only the firing statement contains, which also claims if there are free slots.
const FIRES: &str = "CROSS JOIN (SELECT ($15::uuid IS NOT NULL)";
/// A text that only the claiming statement contains.
const CLAIMS: &str = "attempt_number = attempt_number + 1";
const OWN: WorldConfig = WorldConfig { own_store: true, ..USUAL };

impl World {
    fn postgres(&mut self) -> &mut PostgresServer {
        match &mut self.stores.store {
            Store::Own(server) => server,
            Store::Shared(_) => panic!("the server is not the test's own"),
        }
    }

    /// Waits until every replica says that it is ready.
    async fn all_ready(&self, bound: Duration) {
        within(bound, "all replicas are ready", async || {
            for replica in &self.replicas {
                if !replica.process().is_ready().await {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }
}

/// F30.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_store_keeps_all_acknowledged_changes() {
    let mut world = World::start(OWN).await;
    for (stop, away) in [(Stop::Fast, 0), (Stop::Immediate, 0), (Stop::Immediate, 6)] {
        world.begin_fault();
        world.postgres().stop(stop).await;
        live_for(Duration::from_secs(away)).await;
        world.postgres().restart().await;
        world.end_fault();
        world.all_ready(Duration::from_secs(10)).await;
        world.minutes(0.8).await;
    }
    world.minutes(1.0).await;
    world.holds().await;
}

impl World {
    /// Makes each replica lose the answer to its next request that contains `text`, `times` times.
    async fn lose_answers_to(&self, text: &'static str, times: usize) {
        for _ in 0..times {
            for replica in &self.replicas {
                replica.links.store.lose_answer_to(text);
            }
            until("each replica has lost a response of the store", async || {
                self.replicas.iter().all(|replica| !replica.links.store.is_to_lose()).then_some(())
            })
            .await;
            self.minutes(0.4).await;
        }
    }
}

/// F31.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_whose_answers_are_lost_are_not_done_twice() {
    let mut world = World::start(USUAL).await;
    world.begin_fault();
    world.lose_answers_to("COMMIT", 3).await;
    world.end_fault();
    world.minutes(1.0).await;
    world.holds().await;
}

/// F31, for statements that are transactions of their own: those that fire, with and without a
/// claim, and those that claim. A fired tick does not fire again, and a claim without an answer
/// costs no attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn firings_and_claims_whose_answers_are_lost_cost_no_attempt() {
    let settings = &[("PUNCTUAL_EXECUTOR_CLAIM_SECONDS", "30")];
    let mut world = World::start(WorldConfig { settings, ..USUAL }).await;
    world.begin_fault();
    for text in [FIRES, CLAIMS] {
        world.lose_answers_to(text, 2).await;
    }
    world.end_fault();
    world.calm = true;
    world.minutes(1.0).await;
    let history = world.holds().await;
    let attempts = history.jobs.iter().flat_map(|job| &job.attempts);
    let lost = attempts.filter(|attempt| attempt.error.as_deref() == Some("WORKER_LOST"));
    assert_eq!(lost.count(), 0);
}

/// Locks the rows of a schedule until the returned transaction is rolled back.
async fn lock<'a>(other: &'a mut PgConnection, schedule: &str) -> Transaction<'a, Postgres> {
    let id: punctual::domain::ScheduleId = schedule.parse().expect("an id");
    let mut lock = other.begin().await.expect("begun");
    for table in ["schedules WHERE id", "schedule_versions WHERE schedule_id"] {
        let lock_it = format!("SELECT FROM {table} = $1 FOR UPDATE");
        sqlx::query(sqlx::AssertSqlSafe(lock_it))
            .bind(sqlx::types::Uuid::from_bytes(id.to_bytes()))
            .execute(&mut *lock)
            .await
            .expect("locked");
    }
    lock
}

/// Returns the number of executors' connections that wait for a lock.
async fn waiting_executors(store: &mut PgConnection) -> i64 {
    sqlx::query_scalar(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
         AND datname = current_database() AND application_name = 'punctual executor'",
    )
    .fetch_one(store)
    .await
    .expect("asked")
}

/// F33, with many jobs that need the locked row. They wait without delaying other jobs, and none of
/// them is sent twice, although the lock lasts longer than a claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_jobs_of_a_locked_schedule_delay_no_other() {
    let settings = &[("PUNCTUAL_EXECUTOR_CLAIM_SECONDS", "6")];
    let mut world = World::start(WorldConfig { settings, ..USUAL }).await;
    world.calm = true;
    // The simulated users do not touch this schedule.
    let batch = super::load::kinds(&world.users, &world.target.url(""), 1, 1);
    let locked = world.users.create(0, 1, batch).await.remove(0);
    world.held_up.push(locked.clone());
    let (mut other, mut other_session) = (
        world.stores.store.second_connection().await,
        world.stores.store.second_connection().await,
    );
    let mut lock = other.begin().await.expect("begun");
    let held = sqlx::query("SELECT FROM schedule_state WHERE schedule_id = $1 FOR UPDATE")
        .bind(uuid(locked.parse().expect("an id")))
        .execute(&mut *lock)
        .await
        .expect("locked");
    assert_eq!(held.rows_affected(), 1);
    world.fires_on(Duration::from_secs(2));
    let (mut jobs, mut most) = (BTreeSet::new(), 0);
    while jobs.len() < 200 {
        let operation = ApiOperation::Trigger { schedule: locked.clone() };
        if let Answer::Done(ids) = world.users.ask(operation, None).await {
            jobs.extend(ids);
        }
        most = most.max(waiting_executors(&mut other_session).await);
    }
    until("all triggered jobs are sent", async || {
        jobs.is_subset(&world.target.jobs()).then_some(())
    })
    .await;
    for _ in 0..80 {
        live_for(Duration::from_millis(100)).await;
        most = most.max(waiting_executors(&mut other_session).await);
    }
    println!("{most} connections of executors waited at once");
    assert!(most <= 3 * EXECUTORS_COMMITS, "{most}");
    lock.rollback().await.expect("released");
    world.minutes(1.0).await;
    let history = world.holds().await;
    let own = history.jobs.iter().filter(|job| jobs.contains(&job.id));
    let own: Vec<_> = own.map(|job| (job.status.as_str(), job.number)).collect();
    assert_eq!(own, [("SUCCESS", 1); 200], "sent once");
}

/// F33, for all rows that the stages lock. Work that needs none of the locked rows is not delayed.
/// No job that needs them is lost or sent twice, although the lock lasts longer than a claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_states_and_jobs_delay_no_other_account() {
    let settings = &[("PUNCTUAL_EXECUTOR_CLAIM_SECONDS", "6")];
    let mut world = World::start(WorldConfig { settings, ..USUAL }).await;
    world.calm = true;
    let url = world.target.url("");
    let batch = super::load::kinds(&world.users, &url, 1, 1);
    let ticks = world.users.create(0, 1, batch).await.remove(0);
    world.held_up.push(ticks.clone());
    let (runs, ends) = (world.hanging(6, &[3]).await, world.hanging(6, &[3]).await);
    let one = runs.first().expect("six").parse().expect("an id");
    let of_ends: punctual::domain::JobId = ends.first().expect("six").parse().expect("an id");
    let mut other = world.stores.store.second_connection().await;
    let mut lock = other.begin().await.expect("begun");
    for (rows, id) in [
        ("schedule_state WHERE schedule_id = $1", uuid(ticks.parse().expect("an id"))),
        ("runs WHERE id = $1", uuid_of_job(one)),
        (
            "schedule_state WHERE schedule_id = (SELECT schedule_id FROM runs WHERE id = $1)",
            uuid_of_job(of_ends),
        ),
    ] {
        let lock_it = sqlx::AssertSqlSafe(format!("SELECT FROM {rows} FOR UPDATE"));
        let locked = sqlx::query(lock_it).bind(id).execute(&mut *lock).await.expect("locked");
        assert_eq!(locked.rows_affected(), 1, "{rows}");
    }
    world.latest_ms = Some(2_000);
    live_for(Duration::from_secs(7)).await;
    world.target.release();
    within(Duration::from_secs(10), "all jobs but the locked one end", async || {
        let left: i64 = sqlx::query_scalar(concat!(
            "SELECT count(*) FROM runs WHERE ",
            running!(),
            " AND schedule_id = (SELECT schedule_id FROM runs WHERE id = $1)"
        ))
        .bind(uuid_of_job(one))
        .fetch_one(&mut world.stores.store.second_connection().await)
        .await
        .expect("counted");
        (left == 1).then_some(())
    })
    .await;
    live_for(Duration::from_secs(4)).await;
    lock.rollback().await.expect("released");
    world.minutes(1.0).await;
    let history = world.holds().await;
    let hung = history.jobs.iter().filter(|job| runs.contains(&job.id) || ends.contains(&job.id));
    let hung: Vec<_> = hung.map(|job| (job.status.as_str(), job.number)).collect();
    assert_eq!(hung, [("SUCCESS", 1); 12], "sent once");
}

fn uuid(id: punctual::domain::ScheduleId) -> sqlx::types::Uuid {
    sqlx::types::Uuid::from_bytes(id.to_bytes())
}

/// F32: users have connections of their own. A call that gets no connection is refused in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_waiting_users_delay_no_tick_and_no_job() {
    let mut world = World::start(USUAL).await;
    let fields = json!({ "name": world.users.name() });
    let one = schedule("http://example.com/", fields);
    let wanted = world.users.create(0, 0, vec![one]).await.remove(0);
    let mut other = world.stores.store.second_connection().await;
    let lock = lock(&mut other, &wanted).await;
    world.begin_fault();
    let until_then = Instant::now() + LONG_OUTAGE;
    let waiting =
        (0..200).map(|_| tokio::spawn(insist(world.users.clone(), wanted.clone(), until_then)));
    let waiting: Vec<_> = waiting.collect();
    let mut other_session = world.stores.store.second_connection().await;
    until("all connections of users wait for the lock", async || {
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
             AND datname = current_database() AND application_name = 'punctual api'",
        )
        .fetch_one(&mut other_session)
        .await
        .expect("asked");
        (waiting == 3 * API_CONNECTIONS).then_some(())
    })
    .await;
    let mut refused = 0;
    for user in waiting {
        refused += user.await.expect("no panic");
    }
    lock.rollback().await.expect("released");
    world.end_fault();
    println!("{refused} calls were refused");
    assert!(refused > 400, "only {refused} calls were refused");
    world.all_ready(Duration::from_secs(10)).await;
    world.minutes(1.0).await;
    world.fires_on(Duration::from_secs(2));
    world.prompt = true;
    world.holds().await;
}

/// Tries to delete a locked schedule until `end`. Returns how often that was refused. A call waits
/// for a connection to look up its key, for a connection to delete, and for the lock, at most 3 s
/// each. The rest of its time limit is for other tests on the same machine.
async fn insist(users: Users, schedule: String, end: Instant) -> usize {
    let path = format!("/v1/schedules/{schedule}");
    let mut refused = 0;
    while Instant::now() < end {
        let api = ApiClient::new(users.address().expect("a replica"), &users.keys[0]);
        let asked = Instant::now();
        let reply = api.call("DELETE", &path, None).await;
        let reply = reply.expect("an answer");
        assert!(asked.elapsed() < Duration::from_secs(9 + 6), "{:?}", asked.elapsed());
        let code = reply.body["error"]["code"].as_str();
        assert_eq!((reply.status, code), (503, Some("SERVICE_UNAVAILABLE")), "{reply:?}");
        refused += 1;
    }
    refused
}

fn uuid_of_job(id: punctual::domain::JobId) -> sqlx::types::Uuid {
    sqlx::types::Uuid::from_bytes(id.to_bytes())
}

/// F34, F45: outcomes are kept while the store is silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_falls_silent_is_used_again_when_it_speaks() {
    let mut world = World::start(USUAL).await;
    world.begin_fault();
    world.replicas[1].links.set(ServerKind::Store, Mood::Silent);
    live_for(LONG_OUTAGE).await;
    world.replicas[1].links.set(ServerKind::Store, Mood::Open);
    world.end_fault();
    world.all_ready(Duration::from_secs(15)).await;
    world.minutes(1.0).await;
    silent_to_all(&mut world, LONG_OUTAGE).await;
    world.holds().await;
}

/// F34, for a whole minute, with the default claim time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_silent_for_a_minute_is_used_again_when_it_speaks() {
    let settings = &[("PUNCTUAL_EXECUTOR_CLAIM_SECONDS", "30")];
    let mut world = World::start(WorldConfig { settings, ..USUAL }).await;
    silent_to_all(&mut world, MINUTE_OUTAGE).await;
    world.holds().await;
}

/// Makes the store silent to all replicas for `span`, and waits until they are ready again.
async fn silent_to_all(world: &mut World, span: Duration) {
    world.begin_fault();
    world.replicas.iter().for_each(|replica| replica.links.set(ServerKind::Store, Mood::Silent));
    live_for(span).await;
    world.replicas.iter().for_each(|replica| replica.links.set(ServerKind::Store, Mood::Open));
    world.end_fault();
    world.all_ready(Duration::from_secs(15)).await;
    world.minutes(1.5).await;
}

/// F45.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_outlive_an_outage_of_the_store() {
    let settings = &[("PUNCTUAL_EXECUTOR_CLAIM_SECONDS", "30")];
    let mut world = World::start(WorldConfig { schedules: 30, settings, ..USUAL }).await;
    let jobs = world.hanging(9, &[3]).await;
    world.begin_fault();
    world.replicas.iter().for_each(|replica| replica.links.set(ServerKind::Store, Mood::Cut));
    world.target.release();
    until("the target has answered the requests of all jobs", async || {
        let hits = world.target.hits();
        let mut own = hits.iter().filter(|hit| jobs.contains(&hit.job));
        own.all(|hit| hit.answered == Some(200)).then_some(())
    })
    .await;
    live_for(Duration::from_secs(4)).await;
    world.replicas.iter().for_each(|replica| replica.links.set(ServerKind::Store, Mood::Open));
    world.end_fault();
    world.minutes(1.0).await;
    let history = world.holds().await;
    for job in history.jobs.iter().filter(|job| jobs.contains(&job.id)) {
        assert_eq!((job.status.as_str(), job.number), ("SUCCESS", 1), "sent once: {job:?}");
    }
}

/// F35.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_who_disconnect_leave_nothing_behind() {
    let mut world = World::start(WorldConfig { schedules: 30, ..USUAL }).await;
    let batch: Vec<_> = (0..20)
        .map(|_| schedule("http://example.com/", json!({ "name": "left behind" })))
        .collect();
    let body = serde_json::Value::from(batch).to_string();
    for index in 0..1_000 {
        let Some(address) = world.users.address() else { continue };
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let head = format!(
            "POST /v1/schedules/bulk HTTP/1.1\r\nhost: test\r\nx-api-key: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            world.users.keys[1],
            body.len()
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        // A third of the clients disconnect in the middle of the request, the others after it.
        let said = if index % 3 == 0 { body.len() / 2 } else { body.len() };
        stream.write_all(&body.as_bytes()[..said]).await.expect("sent");
        if index % 3 == 1 {
            live_for(Duration::from_secs_f64(0.03 * world.users.random.unit())).await;
        }
    }
    world.minutes(1.0).await;
    let history = world.holds().await;
    let whole = history.schedules.iter().filter(|schedule| schedule.name == "left behind").count();
    assert_eq!(whole % 20, 0, "all of a batch or nothing");
    let answered = world.users.ask(ApiOperation::Other, Some(&json!([]))).await;
    assert!(matches!(answered, Answer::Refused { status: 400, .. }));
}
