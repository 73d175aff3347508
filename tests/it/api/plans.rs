//! The limits of plans, and suspended accounts.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{Either, select};
use punctual::accounts::RateLimits;
use punctual::cluster::single::SingleNode;
use punctual::domain::audit::Author;
use punctual::domain::plan::{ChannelType, Plan, Plans};
use punctual::domain::ticket::Ticket;
use punctual::local_executor::{LocalFiring, LocalStarter};
use punctual::runtime::{LoopPause, Random, Worker};
use punctual::scheduler::{HistoryPruner, HistoryPrunerSettings, Leader, SchedulerContext};
use punctual::store::{Fence, Firing, SharedStore};
use serde_json::{Value, json};

use crate::harness::wait::{live_for, until};

use super::harness::{Answer, SHARDS, Service, Setup, at, id, schedule_with};

fn free() -> Plan {
    Plan {
        schedules: Some(2),
        shortest_interval: Some(Duration::from_secs(300)),
        jobs_per_month: Some(3),
        channel_types: Some(vec![ChannelType::Email]),
        body_bytes: Some(8),
        requests_per_minute: Some(50),
        requests_per_hour: Some(0),
        ..Plan::unlimited("free")
    }
}

/// Starts a service whose account is on the plan `free`.
async fn limited(plan: Plan) -> Service {
    let limits = RateLimits { per_minute: 1_000, per_hour: 10_000 };
    Service::with(Setup { plans: vec![plan], plan: "free", limits, ..Setup::default() }).await
}

pub async fn set_plan(service: &Service, plan: &str) {
    let set = service.accounts.set_plan(Author::SERVICE, &service.account, plan);
    set.await.expect("set");
}

#[track_caller]
fn exceeds(answer: &Answer, limit: &str, max: u64, current: Option<u64>, requested: u64) {
    assert_eq!(answer.status, 403, "{}", answer.text);
    assert_eq!(answer.body["error"]["code"], "PLAN_LIMIT_EXCEEDED");
    let details = json!({
        "limit": limit, "max": max, "current": current, "requested": requested, "plan": "free",
    });
    assert_eq!(answer.body["error"]["details"], details);
}

#[tokio::test]
async fn schedules_are_limited_and_a_batch_counts_whole() {
    let service = limited(free()).await;
    service.create(json!({})).await;
    let batch = json!([schedule_with(json!({})), schedule_with(json!({}))]);
    let refused = service.post("/v1/schedules/bulk", &batch).await;
    exceeds(&refused, "schedules", 2, Some(1), 2);
    assert_eq!(service.post("/v1/schedules/bulk", &json!([batch[0]])).await.status, 201);
    let refused = service.post("/v1/schedules", &batch[0]).await;
    exceeds(&refused, "schedules", 2, Some(2), 1);
    refused.refused(403, "PLAN_LIMIT_EXCEEDED", "The plan free allows 2 schedules");
    assert_eq!(service.get("/v1/schedules").await.ok().as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn intervals_and_bodies_are_limited_where_they_are_touched() {
    let service = limited(free()).await;
    let create = async |fields| service.post("/v1/schedules", &schedule_with(fields)).await;
    let refused = create(json!({ "cronExpression": "*/4 * * * *" })).await;
    exceeds(&refused, "shortestIntervalSeconds", 300, None, 240);
    let refused = create(json!({ "body": "123456789" })).await;
    exceeds(&refused, "bodyBytes", 8, None, 9);
    let batch = json!([schedule_with(json!({})), schedule_with(json!({ "body": "123456789" }))]);
    let refused = service.post("/v1/schedules/bulk", &batch).await;
    exceeds(&refused, "bodyBytes", 8, None, 9);
    let said = "The plan free allows bodies of 8 bytes at most (schedule 1 of the batch)";
    refused.refused(403, "PLAN_LIMIT_EXCEEDED", said);
    let path = format!("/v1/schedules/{}", id(&service.create(json!({ "body": "1" })).await));
    let refused = service.patch(&path, &json!({ "cronExpression": "* * * * *" })).await;
    exceeds(&refused, "shortestIntervalSeconds", 300, Some(86_400), 60);
    let refused = service.patch(&path, &json!({ "body": "123456789" })).await;
    exceeds(&refused, "bodyBytes", 8, Some(1), 9);
    service.patch(&path, &json!({ "cronExpression": "*/5 * * * *" })).await.ok();
}

#[tokio::test]
async fn schedules_beyond_a_smaller_plan_stay_as_they_are() {
    let service = limited(free()).await;
    let set = async |plan| set_plan(&service, plan).await;
    set("unlimited").await;
    let fields = json!({ "cronExpression": "* * * * *", "body": "123456789" });
    let path = format!("/v1/schedules/{}", id(&service.create(fields).await));
    for _ in 0..2 {
        service.create(json!({})).await;
    }
    set("free").await;
    service.patch(&path, &json!({ "name": "new", "maxRetries": 1 })).await.ok();
    let same = json!({ "cronExpression": "* * * * *", "body": "123456789" });
    service.patch(&path, &same).await.ok();
    service.patch(&format!("{path}/toggle"), &json!({ "enabled": false })).await.ok();
    let refused = service.patch(&path, &json!({ "body": "1234567890" })).await;
    exceeds(&refused, "bodyBytes", 8, Some(9), 10);
    let refused = service.post("/v1/schedules", &schedule_with(json!({}))).await;
    exceeds(&refused, "schedules", 2, Some(3), 1);
    assert!(service.accounts.set_plan(Author::SERVICE, &service.account, "gone").await.is_err());
}

#[tokio::test]
async fn the_account_shows_its_limits_and_usage() {
    let service = limited(free()).await;
    let (_, _) = service.job().await;
    let account = service.get("/v1/account").await.ok().clone();
    let limits = json!({
        "schedules": 2, "apiKeys": 10, "shortestIntervalSeconds": 300, "jobsPerMonth": 3,
        "concurrentAttempts": null, "channels": null, "channelTypes": ["email"],
        "notifyOn": null, "bodyBytes": 8, "historyDays": null, "requestsPerMinute": 50,
        "requestsPerHour": null,
    });
    let usage = json!({
        "schedules": 1, "apiKeys": 1, "channels": 0, "jobsThisMonth": 1, "quotaExhaustedAt": null,
    });
    assert_eq!((&account["limits"], &account["usage"]), (&limits, &usage));
    assert_eq!((&account["plan"], &account["suspendedAt"]), (&json!("free"), &Value::Null));
}

#[tokio::test]
async fn the_jobs_of_an_account_without_a_limit_are_counted_at_once() {
    let service = Service::start().await;
    let used = async || service.get("/v1/account").await.ok()["usage"]["jobsThisMonth"].clone();
    assert_eq!(used().await, 0);
    service.job().await;
    assert_eq!(used().await, 1);
}

#[tokio::test]
async fn a_plan_has_rates_of_its_own() {
    let service = limited(free()).await;
    assert_eq!(service.get("/v1/account").await.limits(), ("50", "49", &*at(60)));
    let other_key = service.other_account_key().await;
    let other = service.call("GET", "/v1/account").key(&other_key).send().await;
    assert_eq!(other.limits().0, "1000", "the usual ones");
    assert_eq!(service.bare("GET", "/v1/account").send().await.limits().0, "1000");
    set_plan(&service, "unlimited").await;
    service.advance(4);
    assert_eq!(service.get("/v1/account").await.limits().0, "1000", "known within 5 s");
}

#[tokio::test]
async fn a_trusted_proxy_names_the_client() {
    let limits = RateLimits { per_minute: 1, per_hour: 100 };
    let trusted_proxies = vec!["192.0.2.1/32".parse().expect("a network")];
    let service = Service::with(Setup { limits, trusted_proxies, ..Setup::default() }).await;
    let status = async |from, client: &str| {
        let call = service.bare("GET", "/v1/account").header("x-forwarded-for", client);
        call.from(from).send().await.status
    };
    assert_eq!(status(1, "198.51.100.1").await, 401);
    assert_eq!(status(1, "198.51.100.2").await, 401);
    assert_eq!(
        status(1, "203.0.113.9, 198.51.100.1").await,
        429,
        "addresses before the last one are not read"
    );
    assert_eq!(status(2, "198.51.100.3").await, 401);
    assert_eq!(status(2, "198.51.100.4").await, 429, "an unlisted proxy is not believed");
    assert_eq!(status(1, "192.0.2.2").await, 429, "it is counted under its own address");
}

#[tokio::test]
async fn triggers_and_retries_end_with_the_quota() {
    let service = limited(free()).await;
    let (schedule, job) = service.job().await;
    let cancelled = service.call("POST", &format!("/v1/jobs/{job}/cancel")).send().await;
    assert_eq!(cancelled.status, 200);
    let trigger = format!("/v1/schedules/{schedule}/trigger");
    let retry = format!("/v1/jobs/{job}/retry");
    let post = async |path: &str| service.call("POST", path).send().await;
    post(&trigger).await.ok();
    post("/v1/schedules/sch_01HF7YAT000000000000000007/trigger")
        .await
        .not_found("Schedule not found");
    post("/v1/jobs/job_01HF7YAT000000000000000007/retry").await.not_found("Job not found");
    post(&retry).await.ok();
    for path in [&trigger, &retry] {
        exceeds(&post(path).await, "jobsPerMonth", 3, Some(3), 1);
    }
    let usage = service.get("/v1/account").await.ok()["usage"].clone();
    assert_eq!(usage["jobsThisMonth"], 3);
    assert_eq!(usage["quotaExhaustedAt"], json!("2030-01-01T00:00:30.000Z"));
    service.advance(31 * 86_400);
    post(&trigger).await.ok();
    service.call("DELETE", &format!("/v1/schedules/{schedule}")).send().await;
    for _ in 0..4 {
        post(&retry).await.not_found("Schedule not found");
    }
    assert_eq!(service.get("/v1/account").await.ok()["usage"]["jobsThisMonth"], 1);
}

/// Returns the dependencies of the scheduler's loops of a service.
pub fn context(service: &Service) -> SchedulerContext {
    SchedulerContext {
        store: service.store.clone(),
        queue: service.queue.clone(),
        cluster: Arc::new(SingleNode::new("test", SHARDS)),
        clock: service.clock.clone(),
        starter: None,
        replica: "test".into(),
        others_lack_queue: Arc::default(),
    }
}

/// Creates a leader of all shards of a service.
pub fn leader(service: &Service, plans: Vec<Plan>) -> Leader {
    Leader::new(context(service), Arc::new(Plans::new(plans)), Random::seeded(5))
}

/// Fires all due ticks.
pub async fn fire(service: &Service, leader: &mut Leader) {
    while leader.run_once(service.clock.now()).await.expect("fired") == LoopPause::None {}
}

pub async fn skips(service: &Service, schedule: &str) -> Vec<(String, u64)> {
    let answer = service.get(&format!("/v1/schedules/{schedule}/skips")).await;
    let skips = answer.ok()["skips"].as_array().expect("skips").clone();
    let skip = |skip: &Value| {
        (skip["reason"].as_str().expect("a text").into(), skip["count"].as_u64().expect("a number"))
    };
    skips.iter().map(skip).collect()
}

pub async fn jobs(service: &Service) -> u64 {
    service.get("/v1/jobs").await.ok()["total"].as_u64().expect("a number")
}

#[tokio::test]
async fn ticks_over_the_quota_are_skipped_until_the_next_month() {
    let service = limited(free()).await;
    let mut leader = leader(&service, vec![free()]);
    let schedule = id(&service.create(json!({ "cronExpression": "*/5 * * * *" })).await);
    fire(&service, &mut leader).await;
    for _ in 0..5 {
        service.advance(300);
        fire(&service, &mut leader).await;
    }
    assert_eq!(jobs(&service).await, 3);
    assert_eq!(skips(&service, &schedule).await, [("quota".into(), 2)]);
    let account = service.get("/v1/account").await.ok().clone();
    assert_eq!(account["usage"]["jobsThisMonth"], 3);
    assert_eq!(account["usage"]["quotaExhaustedAt"], "2030-01-01T00:20:30.000Z");

    set_plan(&service, "unlimited").await;
    service.advance(300);
    fire(&service, &mut leader).await;
    assert_eq!(jobs(&service).await, 4, "a larger plan counts at once");
    let usage = service.get("/v1/account").await.ok()["usage"].clone();
    assert_eq!((&usage["jobsThisMonth"], &usage["quotaExhaustedAt"]), (&json!(4), &Value::Null));
}

/// Rejects all inserts into a table, until it is called with `false`.
async fn refuse(service: &Service, table: &str, refuse: bool) {
    use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
    let options = SqliteConnectOptions::new().filename(service.folder.path().join("punctual.db"));
    let mut other_session = options.connect().await.expect("connected");
    let sql = if refuse {
        let refused = "BEGIN SELECT RAISE(ABORT, 'refused'); END";
        format!("CREATE TRIGGER refuse BEFORE INSERT ON {table} {refused}")
    } else {
        "DROP TRIGGER refuse".to_owned()
    };
    sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut other_session).await.expect("done");
}

/// An executor that fires one job per call and leaves the job to its ticket.
struct RoomForOne(SharedStore);

#[async_trait]
impl LocalStarter for RoomForOne {
    async fn fire(
        &self,
        fences: &[Fence],
        mut wanted: Vec<(Firing, Ticket)>,
        _: Duration,
    ) -> Result<LocalFiring, Vec<(Firing, Ticket)>> {
        let (firing, ticket) = wanted.remove(0);
        let fired = vec![firing];
        let outcome = self.0.fire(fences, ticket.start, &fired).await;
        Ok(LocalFiring { fired, started: vec![], outcome, left: wanted, took: Duration::ZERO })
    }
}

#[tokio::test]
async fn a_firing_that_fails_costs_nothing() {
    for is_started in [false, true] {
        let plan = Plan { jobs_per_month: Some(20), ..free() };
        let service = limited(plan.clone()).await;
        let room: Arc<dyn LocalStarter> = Arc::new(RoomForOne(service.store.clone()));
        let context = SchedulerContext { starter: is_started.then_some(room), ..context(&service) };
        let mut leader = Leader::new(context, Arc::new(Plans::new(vec![plan])), Random::seeded(5));
        let every_five = json!({ "cronExpression": "*/5 * * * *" });
        let schedule = id(&service.create(every_five.clone()).await);
        service.create(every_five).await;
        fire(&service, &mut leader).await;
        service.advance(300);
        refuse(&service, "jobs", true).await;
        for _ in 0..30 {
            fire(&service, &mut leader).await;
            service.advance(5);
        }
        refuse(&service, "jobs", false).await;
        service.advance(60);
        fire(&service, &mut leader).await;
        assert_eq!((jobs(&service).await, skips(&service, &schedule).await), (2, vec![]));
        let account = service.get("/v1/account").await.ok().clone();
        assert_eq!(account["usage"]["jobsThisMonth"], 2);
    }
}

#[tokio::test]
async fn an_account_whose_counter_fails_keeps_no_other_account_from_firing() {
    let service = limited(free()).await;
    let mut leader = leader(&service, vec![free()]);
    let every_five = json!({ "cronExpression": "*/5 * * * *" });
    let schedule = id(&service.create(every_five.clone()).await);
    let other_key = service.other_account_key().await;
    for _ in 0..8 {
        let call = service.call("POST", "/v1/schedules").key(&other_key);
        let made = call.json(&schedule_with(every_five.clone())).send().await;
        assert_eq!(made.status, 201);
    }
    fire(&service, &mut leader).await;
    service.advance(300);
    refuse(&service, "account_months", true).await;
    fire(&service, &mut leader).await;
    let others = service.call("GET", "/v1/jobs").key(&other_key).send().await;
    assert_eq!(others.ok()["total"], 8, "those of an account that is not limited");
    assert_eq!((jobs(&service).await, skips(&service, &schedule).await), (0, vec![]));
    refuse(&service, "account_months", false).await;
    service.advance(6);
    fire(&service, &mut leader).await;
    assert_eq!((jobs(&service).await, skips(&service, &schedule).await), (1, vec![]));
}

/// Inserts `count` copies of the account's first job.
async fn multiply(service: &Service, count: u32) {
    use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
    let options = SqliteConnectOptions::new().filename(service.folder.path().join("punctual.db"));
    let mut other_session = options.connect().await.expect("connected");
    let sql = "
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
        INSERT INTO jobs (id, account_id, schedule_id, version_id, status, trigger, max_attempts,
                          completed_at, created_at, updated_at)
        SELECT unhex(hex(substr(id, 1, 6)) || hex(randomblob(10))), account_id, schedule_id,
               version_id, 3, trigger, max_attempts, updated_at, created_at, updated_at
        FROM (SELECT id, account_id, schedule_id, version_id, trigger, max_attempts, created_at,
                     updated_at FROM runs
              UNION ALL
              SELECT id, account_id, schedule_id, version_id, trigger, max_attempts, created_at,
                     updated_at FROM jobs LIMIT 1) CROSS JOIN n";
    sqlx::query(sql).bind(count).execute(&mut other_session).await.expect("done");
}

#[tokio::test]
async fn the_ticks_of_an_account_with_many_jobs_wait_until_they_are_counted() {
    const MANY: u32 = 60_000;
    let plan = Plan { jobs_per_month: Some(100_000), ..free() };
    let setup = Setup { plans: vec![plan.clone()], plan: "unlimited", ..Setup::default() };
    let service = Service::with(setup).await;
    let mut leader = leader(&service, vec![plan]);
    let every_five = json!({ "cronExpression": "*/5 * * * *", "catchUpPolicy": "all" });
    service.job().await;
    multiply(&service, MANY).await;
    let schedule = id(&service.create(every_five.clone()).await);
    let other_key = service.other_account_key().await;
    let call = service.call("POST", "/v1/schedules").key(&other_key);
    assert_eq!(call.json(&schedule_with(every_five)).send().await.status, 201);
    fire(&service, &mut leader).await;
    set_plan(&service, "free").await;
    service.advance(300);
    fire(&service, &mut leader).await;
    let others = service.call("GET", "/v1/jobs").key(&other_key).send().await;
    assert_eq!(others.ok()["total"], 1, "no other account waits");
    let fired = format!("/v1/jobs?scheduleId={schedule}");
    until("the tick has fired", async || {
        service.advance(1);
        fire(&service, &mut leader).await;
        (service.get(&fired).await.ok()["total"] == 1).then_some(())
    })
    .await;
    assert_eq!(skips(&service, &schedule).await, []);
    let used = service.get("/v1/account").await.ok()["usage"]["jobsThisMonth"].clone();
    let least = u64::from(MANY) + 2;
    assert!(used.as_u64().is_some_and(|used| (least..least + 1_000).contains(&used)), "{used}");
}

/// The count continues in the background, and a later call finds it done.
#[tokio::test]
async fn counting_the_jobs_of_a_month_delays_no_caller_for_long() {
    const SLOWLY: &str = "CREATE TRIGGER slow BEFORE INSERT ON account_months BEGIN
        SELECT count(*) FROM jobs AS a CROSS JOIN jobs AS b WHERE a.created_at + b.created_at = 1; END";
    for is_retry in [false, true] {
        let plan = Plan { jobs_per_month: Some(100_000), ..free() };
        let service = Service::with(Setup { plans: vec![plan], ..Setup::default() }).await;
        let (schedule, job) = service.job().await;
        service.call("POST", &format!("/v1/jobs/{job}/cancel")).send().await.ok();
        multiply(&service, 8_000).await;
        sqlx::query(SLOWLY).execute(&mut service.second_connection().await).await.expect("done");
        set_plan(&service, "free").await;
        let paths = [format!("/v1/schedules/{schedule}/trigger"), format!("/v1/jobs/{job}/retry")];
        let call = || service.call("POST", &paths[usize::from(is_retry)]).send();
        // This is less than the timeout of a call.
        let time_passes = async {
            for _ in 0..29 {
                live_for(Duration::from_millis(50)).await;
                service.advance(1);
            }
        };
        let answer = match select(pin!(call()), pin!(time_passes)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(((), answer)) => answer.await,
        };
        answer.refused(503, "SERVICE_UNAVAILABLE", "Service unavailable, try again soon");
        assert_eq!(answer.header("retry-after"), "2");
        call().await.ok();
    }
}

#[tokio::test]
async fn a_job_that_waits_for_another_counts_and_a_skipped_tick_does_not() {
    let plan = Plan { jobs_per_month: Some(4), shortest_interval: None, ..free() };
    let service = limited(plan.clone()).await;
    let mut leader = leader(&service, vec![plan]);
    let fields = json!({ "cronExpression": "*/5 * * * *", "overlapPolicy": "queue_one" });
    let schedule = id(&service.create(fields).await);
    fire(&service, &mut leader).await;
    for _ in 0..6 {
        service.advance(300);
        fire(&service, &mut leader).await;
    }
    assert_eq!(jobs(&service).await, 2, "one that is active, and one that waits");
    assert_eq!(skips(&service, &schedule).await, [("overlap".into(), 4)]);
    assert_eq!(service.get("/v1/account").await.ok()["usage"]["quotaExhaustedAt"], Value::Null);
}

#[tokio::test]
async fn ticks_wait_for_a_plan_that_is_not_configured() {
    let service = limited(free()).await;
    let every_five = json!({ "cronExpression": "*/5 * * * *" });
    let schedule = id(&service.create(every_five).await);
    let mut ignorant = leader(&service, Vec::new());
    fire(&service, &mut ignorant).await;
    for _ in 0..2 {
        service.advance(300);
        fire(&service, &mut ignorant).await;
    }
    assert_eq!((jobs(&service).await, skips(&service, &schedule).await), (0, vec![]));
    let usage = service.get("/v1/account").await.ok()["usage"].clone();
    assert_eq!((&usage["jobsThisMonth"], &usage["quotaExhaustedAt"]), (&json!(0), &Value::Null));
    fire(&service, &mut leader(&service, vec![free()])).await;
    assert_eq!(jobs(&service).await, 2, "a late one and a recent one");
    assert_eq!(skips(&service, &schedule).await, []);
}

#[tokio::test]
async fn a_suspended_account_runs_nothing_and_can_only_be_read() {
    let service = Service::start().await;
    let mut leader = leader(&service, Vec::new());
    let every_five = json!({ "cronExpression": "*/5 * * * *", "catchUpPolicy": "all" });
    let schedule = id(&service.create(every_five).await);
    fire(&service, &mut leader).await;
    service.advance(300);
    fire(&service, &mut leader).await;
    let suspend = async |suspended| {
        let set = service.accounts.set_suspended(Author::SERVICE, &service.account, suspended);
        set.await.expect("set");
    };
    suspend(true).await;
    let path = format!("/v1/schedules/{schedule}");
    let job = service.get("/v1/jobs").await.ok()["jobs"][0]["id"].clone();
    let job = job.as_str().expect("a job");
    for (method, path, body) in [
        ("POST", "/v1/schedules".to_owned(), schedule_with(json!({}))),
        ("POST", "/v1/schedules/bulk".to_owned(), json!([schedule_with(json!({}))])),
        ("PATCH", path.clone(), json!({ "name": "new" })),
        ("PUT", path.clone(), json!({ "name": "new" })),
        ("DELETE", path.clone(), json!({})),
        ("PATCH", format!("{path}/toggle"), json!({ "enabled": false })),
        ("POST", format!("{path}/trigger"), json!({})),
        ("POST", format!("/v1/jobs/{job}/cancel"), json!({})),
        ("POST", format!("/v1/jobs/{job}/retry"), json!({})),
    ] {
        let answer = service.call(method, &path).json(&body).send().await;
        let why = "The account is suspended: its schedules do not run, and it can only be read";
        answer.refused(403, "FORBIDDEN", why);
    }
    for _ in 0..2 {
        service.advance(300);
        fire(&service, &mut leader).await;
    }
    assert_eq!(jobs(&service).await, 1);
    assert_eq!(skips(&service, &schedule).await, [("suspended".into(), 2)]);
    let account = service.get("/v1/account").await.ok().clone();
    assert_eq!(account["suspendedAt"], "2030-01-01T00:05:30.000Z");

    // No leader fires for a while, and the account is resumed before those ticks are skipped.
    service.advance(900);
    suspend(false).await;
    service.advance(300);
    fire(&service, &mut leader).await;
    assert_eq!(jobs(&service).await, 2, "only ticks that became due since then");
    assert_eq!(skips(&service, &schedule).await, [("suspended".into(), 5)]);
    service.patch(&path, &json!({ "name": "new" })).await.ok();
}

#[tokio::test]
async fn history_ends_when_the_plan_says() {
    let plan = Plan { history_days: Some(7), ..Plan::unlimited("free") };
    let service = limited(plan.clone()).await;
    let (schedule, old) = service.job().await;
    let path = format!("/v1/jobs/{old}");
    service.call("POST", &format!("{path}/cancel")).send().await.ok();
    assert_eq!(jobs(&service).await, 1);
    service.advance(8 * 86_400);
    service.call("POST", &format!("/v1/schedules/{schedule}/trigger")).send().await.ok();
    let actions = async || {
        let log = service.get("/v1/audit-log").await.ok()["entries"].clone();
        let actions = log.as_array().expect("entries").iter().map(|one| one["action"].clone());
        actions.collect::<Vec<_>>()
    };
    assert_eq!(jobs(&service).await, 1, "the young one");
    service.get(&path).await.refused(404, "NOT_FOUND", "Job not found");
    assert_eq!(actions().await, ["schedule.triggered"]);

    // Jobs outside of the plan's history are hidden first and removed later.
    set_plan(&service, "unlimited").await;
    assert_eq!(jobs(&service).await, 2);
    service.get(&path).await.ok();
    set_plan(&service, "free").await;
    let days = |days: u64| Duration::from_secs(days * 86_400);
    let keep = HistoryPrunerSettings { history: days(35), audit_log: days(365) };
    let mut pruner = HistoryPruner::new(context(&service), keep, Arc::new(Plans::new([plan])));
    pruner.run_once(service.clock.now()).await.expect("pruned");
    set_plan(&service, "unlimited").await;
    assert_eq!(jobs(&service).await, 1);
    let set = "account.plan_set";
    let mut left = actions().await;
    left.sort_by_key(ToString::to_string);
    assert_eq!(left, [set, set, set, "schedule.triggered"]);
}
