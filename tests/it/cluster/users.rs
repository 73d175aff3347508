//! Calls of users on all replicas while schedules are due.

use std::time::{Duration, Instant};

use punctual::domain::Timestamp;
use punctual::queue::Queue;
use punctual::queue::redis::{RedisQueue, RedisSettings};
use punctual::runtime::{Clock, Random, Tasks};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::history::{Answer, ApiOperation, Call, Job};
use super::lapse::{MINUTE, machine};
use super::load::kinds;
use super::world::{USUAL, World, WorldConfig};
use crate::harness::client::{ApiClient, schedule};
use crate::harness::wait::{live_for, within};

const ONE_AT_A_TIME: WorldConfig = WorldConfig { schedules: 30, ..USUAL };

/// The number of schedules that are due at once.
const BURST: usize = 5_000;
/// The number of accounts that own them.
const ACCOUNTS: usize = 10;

impl World {
    /// Creates a schedule with a running job and a job that waits for it.
    async fn runs_and_waits(&self) -> (String, [String; 2]) {
        let fields = json!({
            "name": self.users.name(),
            "cronExpression": "* * * * *",
            "overlapPolicy": "queue_one",
            "timeoutSeconds": 300,
        });
        let one = schedule(&self.target.url("/hang"), fields);
        let created = self.users.create(0, 1, vec![one]).await.remove(0);
        let api = ApiClient::new(self.users.address().expect("a replica"), &self.users.keys[0]);
        let jobs = within(Duration::from_secs(30), "one job runs and one job waits", async || {
            let jobs = api.jobs(&format!("scheduleId={created}")).await;
            let of = |status| jobs.iter().find(|job| job["status"] == status);
            let ids = [of("RUNNING")?, of("PENDING")?].map(|job| job["id"].as_str());
            Some(ids.map(|id| id.expect("an id").to_owned()))
        });
        let jobs = jobs.await;
        (created, jobs)
    }

    /// Makes a call about each of `count` new schedules around their tick, on all replicas.
    async fn around_the_tick(
        &mut self,
        count: usize,
        ask: fn(usize, String) -> (ApiOperation, Option<Value>),
    ) {
        let url = self.target.url("");
        let created = self.users.create(0, 1, kinds(&self.users, &url, count, 1)).await;
        self.part_of_minute(0.5).await;
        let half = MINUTE.unsigned_abs() / 2 / self.lapse.factor.unsigned_abs();
        let mut asking = JoinSet::new();
        for (index, schedule) in created.into_iter().enumerate() {
            let users = self.users.clone();
            asking.spawn(async move {
                let wait = half as f64 - 150.0 + 300.0 * users.random.unit();
                live_for(Duration::from_secs_f64(wait / 1_000.0)).await;
                let (operation, body) = ask(index, schedule);
                users.ask(operation, body.as_ref()).await;
            });
        }
        asking.join_all().await;
    }
}

/// F71: after the response to a delete, no tick makes a job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_delete_is_answered_no_tick_makes_a_job() {
    let mut world = World::start(ONE_AT_A_TIME).await;
    let (schedule, [running, waiting]) = world.runs_and_waits().await;
    world.users.ask(ApiOperation::Delete { schedule }, None).await;
    for _ in 0..2 {
        world.around_the_tick(40, |_, schedule| (ApiOperation::Delete { schedule }, None)).await;
    }
    world.minutes(1.5).await;
    let history = world.holds().await;
    let is_cancelled = |job: &&Job| job.error.as_deref() == Some("CANCELLED");
    for job in history.jobs.iter().filter(is_cancelled) {
        let hits = history.hits_of(&job.id).count();
        // An attempt is recorded before its request is sent, so it can be aborted in between.
        assert!(hits <= job.number as usize, "nothing is sent for a cancelled job: {job:?}");
    }
    let found = |id: &str| history.jobs.iter().find(|job| job.id == id).expect("it is readable");
    assert!(is_cancelled(&found(&waiting)), "{:?}", found(&waiting));
    assert_eq!(found(&running).status, "SUCCESS", "the running job ends by itself");
}

/// F72: the path and the body of a job have the same version, which I6 checks. It is the version at
/// the creation of the job, which I7 checks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_changed_at_its_tick_runs_the_old_or_the_new_version() {
    let mut world = World::start(ONE_AT_A_TIME).await;
    let url = world.target.url("");
    let changed: Vec<_> = world.schedules.iter().take(15).cloned().collect();
    for round in 0..2 {
        let half = 2_400;
        world.part_of_minute(0.5).await;
        let mut asking = JoinSet::new();
        for (index, schedule) in changed.iter().cloned().enumerate() {
            let (users, url) = (world.users.clone(), url.clone());
            asking.spawn(async move {
                let wait = f64::from(half) - 150.0 + 500.0 * users.random.unit();
                live_for(Duration::from_secs_f64(wait / 1_000.0)).await;
                let version = 1_000 * (round + 1) + index;
                let sent = version.to_string();
                let body = json!({
                    "endpoint": format!("{url}/ok/{version}"),
                    "body": &sent,
                    "cronExpression": format!("*/{} * * * *", round % 2 + 1),
                });
                let minutes = i64::try_from(round % 2 + 1).expect("small");
                users
                    .ask(ApiOperation::Change { schedule, minutes, body: sent }, Some(&body))
                    .await;
            });
        }
        asking.join_all().await;
        world.minutes(1.0).await;
    }
    world.minutes(2.0).await;
    world.holds().await;
}

/// F73: a schedule that is switched off around its tick does not fire until it is switched on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_disabled_at_its_tick_does_not_fire_until_it_is_enabled() {
    let mut world = World::start(ONE_AT_A_TIME).await;
    let switched: Vec<_> = world.schedules.iter().take(15).cloned().collect();
    for _ in 0..2 {
        world.part_of_minute(0.9).await;
        for on in [false, true] {
            let body = json!({ "enabled": on });
            let mut asking = JoinSet::new();
            for schedule in switched.clone() {
                let (users, body) = (world.users.clone(), body.clone());
                asking.spawn(async move {
                    live_for(Duration::from_secs_f64(users.random.unit())).await;
                    users.ask(ApiOperation::Switch { schedule, on }, Some(&body)).await;
                });
            }
            asking.join_all().await;
            world.minutes(0.9).await;
        }
    }
    world.minutes(1.0).await;
    world.holds().await;
}

/// F74: 100 concurrent triggers make 100 jobs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_triggers_at_once_make_a_hundred_jobs() {
    let mut world = World::start(ONE_AT_A_TIME).await;
    let schedule = world.schedules[0].clone();
    let mut asking = JoinSet::new();
    for _ in 0..100 {
        let (users, schedule) = (world.users.clone(), schedule.clone());
        asking.spawn(async move {
            let made = users.ask(ApiOperation::Trigger { schedule }, None).await;
            let Answer::Done(ids) = made else { panic!("not triggered: {made:?}") };
            for address in users.addresses.open() {
                users.ask_at(address, 0, ApiOperation::Read { job: ids[0].clone() }, None).await;
            }
            ids
        });
    }
    let ids: std::collections::BTreeSet<_> =
        asking.join_all().await.into_iter().flatten().collect();
    assert_eq!(ids.len(), 100);
    world.holds().await;
}

/// F75: a batch is created completely or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_created_as_a_whole_or_not_at_all() {
    let mut world = World::start(ONE_AT_A_TIME).await;
    let one = |name: String| schedule("http://example.com/", json!({ "name": name }));
    let mut batch: Vec<_> = (0..1_000).map(|index| one(format!("bad {index}"))).collect();
    batch[999]["cronExpression"] = "never".into();
    let answer = world.users.ask(ApiOperation::Other, Some(&batch.into())).await;
    assert!(matches!(answer, Answer::Refused { status: 400, .. }), "{answer:?}");
    let mut usual = Duration::MAX;
    for round in 0..2 {
        let batch = (0..1_000).map(|index| one(format!("whole {round} {index}"))).collect();
        let begun = Instant::now();
        world.users.create(0, 0, batch).await;
        usual = usual.min(begun.elapsed());
    }
    let (mut round, mut cut_off) = (0, 0);
    while cut_off < 3 {
        assert!(round < 20, "only {cut_off} were cut off");
        let names: Vec<_> = (0..1_000).map(|index| format!("batch {round} {index}")).collect();
        let batch: Vec<_> = names.iter().cloned().map(one).collect();
        let victim = round % world.replicas.len();
        let address = world.replicas[victim].process().public().expect("it serves");
        let users = world.users.clone();
        world.begin_fault();
        let call = tokio::spawn(async move {
            let operation = ApiOperation::Create { names, minutes: 0 };
            users.ask_at(address, 0, operation, Some(&batch.into())).await
        });
        live_for(usual.mul_f64(world.users.random.unit())).await;
        world.replicas[victim].kill();
        cut_off += usize::from(call.await.expect("no panic") == Answer::Lost);
        world.restart(victim).await;
        world.end_fault();
        round += 1;
    }
    let history = world.holds().await;
    assert!(history.schedules.iter().all(|schedule| !schedule.name.starts_with("bad ")));
}

/// F44: repeated tickets run no job twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_tickets_run_no_job_twice() {
    let mut world = World::start(ONE_AT_A_TIME).await;
    let tasks = Tasks::new();
    let settings = RedisSettings::parse(&world.stores.redis.url(), "punctual", None, None);
    let settings = settings.expect("settings");
    let queue = RedisQueue::start(settings, 8, Clock::system(), Random::seeded(1), &tasks);
    let queue = queue.expect("a queue");
    let begun = Instant::now();
    let mut pushed = 0;
    let mut store = world.stores.store.second_connection().await;
    while begun.elapsed() < Duration::from_secs(10) {
        let newest: Vec<(sqlx::types::Uuid, i32, sqlx::types::Uuid, i64)> = sqlx::query_as(
            "SELECT j.id, st.shard, j.account_id, v.host_key
             FROM (SELECT id, account_id, schedule_id, version_id FROM jobs
                   UNION ALL SELECT id, account_id, schedule_id, version_id FROM runs) AS j
             JOIN schedule_state AS st ON st.schedule_id = j.schedule_id
             JOIN schedule_versions AS v ON v.id = j.version_id
             ORDER BY j.id DESC LIMIT 40",
        )
        .fetch_all(&mut store)
        .await
        .expect("read");
        let now = Timestamp::from_millis(world.lapse.now());
        let tickets: Vec<_> = newest.into_iter().map(|row| ticket(row, now)).collect();
        queue.push(&tickets).await.expect("pushed");
        pushed += tickets.len();
        live_for(Duration::from_millis(30)).await;
    }
    assert!(pushed > 1_000, "{pushed}");
    // No attempt may be repeated without need.
    world.calm = true;
    world.holds().await;
    tasks.finish(Duration::from_secs(1)).await;
}

fn ticket(
    (job, shard, account, host): (sqlx::types::Uuid, i32, sqlx::types::Uuid, i64),
    start: Timestamp,
) -> punctual::domain::ticket::Ticket {
    punctual::domain::ticket::Ticket {
        job: punctual::domain::JobId::from_bytes(job.into_bytes()),
        shard: punctual::domain::shard::ShardId(shard.try_into().expect("small")),
        account: punctual::domain::AccountId::from_bytes(account.into_bytes()),
        host: punctual::domain::ticket::HostKey(host.cast_unsigned()),
        start,
    }
}

/// F66: 5,000 schedules that are due at once all run, and users are served in the meantime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_due_at_once_all_run_and_users_are_served_meanwhile() {
    let settings =
        &[("PUNCTUAL_EXECUTOR_PER_ACCOUNT", "1024"), ("PUNCTUAL_EXECUTOR_PER_HOST", "1024")];
    let mut world =
        World::start(WorldConfig { schedules: 12, accounts: ACCOUNTS, settings, ..USUAL }).await;
    // This leaves time to create them before they are due.
    let due = |now: i64| now.rem_euclid(10 * MINUTE);
    within(
        Duration::from_secs(60),
        "the calendar is shortly after a multiple of ten minutes",
        async || (due(world.lapse.now()) < 2 * MINUTE).then_some(()),
    )
    .await;
    let begun = world.lapse.now();
    for account in 0..ACCOUNTS {
        let batch: Vec<_> = (0..BURST / ACCOUNTS)
            .map(|_| {
                let name = world.users.name();
                let fields = json!({ "name": name, "cronExpression": "*/10 * * * *" });
                schedule(&world.target.url("/ok/burst"), fields)
            })
            .collect();
        world.users.create(account, 10, batch).await;
    }
    assert!(world.lapse.now() - begun < 7 * MINUTE, "created before they are due");
    let due_at = world.lapse.at((begun / (10 * MINUTE) + 1) * 10 * MINUTE);
    within(Duration::from_secs(90), "all jobs of the burst are sent", async || {
        (world.target.count_of("/burst") >= BURST).then_some(())
    })
    .await;
    let over_at = machine();
    world.latest_ms = Some(20_000);
    let history = world.holds().await;
    let during = |call: &&Call| call.begun_at <= over_at && due_at <= call.ended_at;
    let calls = history.calls.iter().filter(during);
    let mut calls: Vec<_> = calls.map(|call| call.ended_at - call.begun_at).collect();
    calls.sort_unstable();
    let (burst, median) = (over_at - due_at, calls[calls.len() / 2]);
    println!(
        "the burst took {burst} ms; {} calls meanwhile took {:?} ms at most, half of them {median}",
        calls.len(),
        calls.last(),
    );
    // A call that waits for the burst ends with it.
    assert!(median < burst / 2, "the burst took {burst} ms, calls meanwhile {calls:?} ms");
    let jobs = history.jobs.iter().filter(|job| job.endpoint.ends_with("/burst"));
    assert_eq!(jobs.count(), BURST, "{BURST} ticks, each a job");
}
