//! Many concurrent jobs: the caps hold, and no account starves.

use std::time::Duration;

use futures_util::future::join_all;
use punctual::domain::plan::Plan;
use serde_json::{Value, json};

use crate::harness::app::Service;
use crate::harness::client::{ApiClient, schedule};
use crate::harness::recorder::Recorder;
use crate::harness::states::succeeded;
use crate::harness::wait::{live_for, until, within};

/// Returns the maximum number of concurrent requests.
fn most_at_once(target: &Recorder) -> usize {
    let mut edges = Vec::new();
    for hit in target.hits() {
        edges.push((hit.at, 1));
        edges.extend(hit.ended.map(|ended| (ended, -1)));
    }
    edges.sort();
    let mut now = 0_i32;
    let most = edges.iter().map(|(_, step)| {
        now += step;
        now
    });
    usize::try_from(most.max().unwrap_or(0)).expect("not negative")
}

/// Triggers a schedule this many times concurrently. Returns the ids of the jobs.
async fn trigger_often(api: &ApiClient, schedule: &str, times: usize) -> Vec<String> {
    join_all((0..times).map(|_| api.trigger(schedule))).await
}

#[tokio::test]
async fn a_hundred_triggers_at_once_are_a_hundred_jobs() {
    let service = Service::start().await;
    let schedule = service.api.create(&service.target.url("/ok"), json!({})).await;
    let mut ids = trigger_often(&service.api, &schedule, 100).await;
    for id in &ids {
        let job = service.api.finished(id).await;
        assert_eq!((&job["status"], &job["attemptNumber"]), (&json!("SUCCESS"), &json!(1)));
    }
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), service.target.count()), (100, 100));
    assert_eq!(service.api.jobs("").await.len(), 100);
}

#[tokio::test]
async fn no_account_has_more_under_way_than_its_cap() {
    let service = Service::with(&[("executor.per_account", "7")]).await;
    let hanging = service.api.create(&service.target.url("/hang"), json!({})).await;
    let slow = service.api.create(&service.target.url("/slow/30"), json!({})).await;
    let mut ids = trigger_often(&service.api, &hanging, 20).await;
    ids.extend(trigger_often(&service.api, &slow, 40).await);
    until("the account is at its cap", async || (service.target.count() == 7).then_some(())).await;
    // A job of another account starts and ends, and no further one of this account starts.
    let other_account = service.other_account_client("second").await;
    let other = Recorder::start().await;
    let job = other_account.run(&other.url("/ok"), json!({})).await;
    assert_eq!(other_account.finished(&job).await["status"], "SUCCESS");
    assert_eq!(service.target.count(), 7);
    service.target.release();
    for id in ids {
        assert_eq!(service.api.finished(&id).await["status"], "SUCCESS");
    }
    assert_eq!(most_at_once(&service.target), 7);
}

#[tokio::test]
async fn no_account_has_more_under_way_than_its_plan_allows() {
    let plan = Plan { concurrent_attempts: Some(3), ..Plan::unlimited("three") };
    let service = Service::on(&[], plan).await;
    let slow = service.api.create(&service.target.url("/hang"), json!({})).await;
    let jobs = trigger_often(&service.api, &slow, 20).await;
    until("the plan is full", async || (service.target.count() == 3).then_some(())).await;
    // The postponed jobs do not delay another account.
    let other_account = service.other_account_client("unlimited").await;
    let other = Recorder::start().await;
    let hanging = other_account.create(&other.url("/hang"), json!({})).await;
    let others = trigger_often(&other_account, &hanging, 10).await;
    until("more than 3 attempts of an account without a limit are sent", async || {
        (other.count() > 3).then_some(())
    })
    .await;
    other.release();
    for id in others {
        assert_eq!(other_account.finished(&id).await["status"], "SUCCESS");
    }
    assert_eq!(service.target.count(), 3);
    service.target.release();
    for id in jobs {
        assert_eq!(service.api.finished(&id).await["status"], "SUCCESS");
    }
    assert_eq!(most_at_once(&service.target), 3);
}

#[tokio::test]
async fn no_host_has_more_under_way_than_its_cap() {
    let service = Service::with(&[("executor.per_host", "4")]).await;
    let other = Recorder::start().await;
    let slow = service.api.create(&service.target.url("/hang"), json!({})).await;
    let quick = service.api.create(&other.url("/ok"), json!({})).await;
    let mut ids = trigger_often(&service.api, &slow, 20).await;
    until("the slow host is full", async || (service.target.count() == 4).then_some(())).await;
    // A slow host does not delay the jobs of another host.
    for id in trigger_often(&service.api, &quick, 5).await {
        assert_eq!(service.api.finished(&id).await["status"], "SUCCESS");
    }
    assert_eq!(service.target.count(), 4);
    service.target.release();
    for id in ids.drain(..) {
        assert_eq!(service.api.finished(&id).await["status"], "SUCCESS");
    }
    assert_eq!(most_at_once(&service.target), 4);
}

/// S10: the rate limit of the key that a schedule sends stops a schedule that triggers itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_that_triggers_itself_ends_at_the_limit_of_its_key() {
    // The jobs run one after the other, and all of them must be sent within the same minute.
    const LIMIT: usize = 60;
    let service = Service::with(&[("rate.per_minute", &LIMIT.to_string())]).await;
    let headers = json!({ "x-api-key": service.second_key().await });
    let fields = json!({ "headers": headers.to_string(), "maxRetries": 1 });
    let schedule = service.api.create(&service.target.url("/ok"), fields).await;
    let path = format!("/v1/schedules/{schedule}");
    let trigger = format!("http://{}{path}/trigger", service.api.address());
    let itself = json!({ "endpoint": trigger });
    service.api.call("PATCH", &path, Some(&itself)).await.expect("an answer").data();
    service.api.trigger(&schedule).await;
    let refused = within(Duration::from_secs(50), "a job has failed", async || {
        // This pause keeps the polling calls within the limit of their key.
        live_for(Duration::from_secs(1)).await;
        service.api.get("/v1/jobs?status=FAILED").await.data()["jobs"].as_array()?.first().cloned()
    })
    .await;
    assert_eq!(refused["statusCode"], 429);
    let all = service.api.jobs("").await;
    assert_eq!(all.len(), LIMIT + 1, "the user's job, and the jobs within the limit of the key");
}

/// The number of schedules of one account that are due at once.
const NOISE: usize = 5_000;
/// The number of measured runs of the other account, before and during the burst.
const SAMPLES: usize = 40;
/// The time that a start may take in addition to twice its idle time, on a busy machine. A start
/// that waited behind the burst would wait for the timeouts of its requests, which are
/// `NOISE_SECONDS`. How much a burst costs is for the benchmarks.
const NOISE_OF_MACHINE: Duration = Duration::from_secs(1);
/// The timeout of the requests of the burst. They hang for longer than the test takes.
const NOISE_SECONDS: u32 = 300;

/// Runs a schedule repeatedly. Returns the median time from the trigger to the request at the
/// target.
async fn start_lag(api: &ApiClient, schedule: &str, target: &Recorder) -> Duration {
    let mut lags = Vec::new();
    for _ in 0..SAMPLES {
        let id = api.trigger(schedule).await;
        let job = api.finished(&id).await;
        let due = job["scheduledRunAtUtc"].as_str().expect("an instant");
        let due: punctual::domain::Timestamp = due.parse().expect("an instant");
        let lag = target.hits_of(&id)[0].wall_ms - due.as_millis();
        lags.push(Duration::from_millis(u64::try_from(lag).expect("not early")));
    }
    lags.sort();
    lags[lags.len() / 2]
}

/// Creates this many schedules of one account. Their requests hang.
async fn make_noise(service: &Service, count: usize) {
    let url = service.target.url("/hang");
    for part in 0..count / 1_000 {
        let one = |index: usize| {
            let name = format!("noise {part}.{index}");
            schedule(&url, json!({ "name": name, "timeoutSeconds": NOISE_SECONDS }))
        };
        let batch = Value::Array((0..1_000).map(one).collect());
        service.api.post("/v1/schedules/bulk", &batch).await.data();
    }
}

/// The newest schedules of another account are due at the same instant in the same shard. They fire
/// in turn, and not after all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_due_ticks_of_one_account_hide_none_of_another() {
    const FEW: usize = 20;
    let mut service = Service::start().await;
    let quiet_target = Recorder::start().await;
    make_noise(&service, 25_000).await;
    let quiet = service.other_account_client("quiet").await;
    let one = |_| schedule(&quiet_target.url("/ok"), json!({}));
    quiet.post("/v1/schedules/bulk", &Value::Array((0..FEW).map(one).collect())).await.data();
    let quiet_key = quiet.key().to_owned();
    service
        .restart(async |store| {
            let set_back = "UPDATE schedule_state SET next_tick = unixepoch() / 60 * 60000";
            sqlx::query(set_back).execute(store).await.expect("set back");
        })
        .await;
    let quiet = service.api.with_key(&quiet_key);
    within(
        Duration::from_secs(30),
        "the due jobs of the other account have succeeded",
        async || (quiet.jobs("status=SUCCESS").await.len() >= FEW).then_some(()),
    )
    .await;
    let fired_before = concat!(
        "SELECT count(*) FROM runs WHERE created_at < (SELECT max(created_at) FROM jobs WHERE ",
        succeeded!(),
        ")"
    );
    let query = sqlx::query_scalar(fired_before);
    let before: i64 = query.fetch_one(&mut service.store().await).await.expect("counted");
    assert!(before < 2_000, "{before} of the many were fired before the last of the few");
}

/// Architecture, "Cost": while 5,000 long jobs of one account are due, the start lag of another
/// account stays within twice its idle value, and the tolerance of a busy machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_one_account_does_not_delay_another() {
    let mut service = Service::start().await;
    let quiet_target = Recorder::start().await;
    make_noise(&service, NOISE).await;
    let quiet = service.other_account_client("quiet").await;
    let schedule = quiet.create(&quiet_target.url("/ok"), json!({})).await;
    let idle = start_lag(&quiet, &schedule, &quiet_target).await;

    let quiet_key = quiet.key().to_owned();
    service
        .restart(async |store| {
            // All schedules except that of the other account are due at the start.
            sqlx::query(
                "UPDATE schedule_state SET next_tick = unixepoch() / 60 * 60000
                 WHERE schedule_id IN (SELECT id FROM schedules WHERE name LIKE 'noise %')",
            )
            .execute(store)
            .await
            .expect("set back");
        })
        .await;
    let quiet = service.api.with_key(&quiet_key);
    within(Duration::from_secs(30), "the burst fills the host", async || {
        // The cap of one host.
        (service.target.count() == 50).then_some(())
    })
    .await;
    let busy = start_lag(&quiet, &schedule, &quiet_target).await;
    assert_eq!(service.target.count(), 50, "the burst was still there");
    println!("start lag: {idle:?} idle, {busy:?} beside {NOISE} due jobs of another account");
    assert!(busy <= idle * 2 + NOISE_OF_MACHINE, "{idle:?} idle, {busy:?} busy");
}
