//! Cancellation of jobs, and retries of finished ones.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::end;
use crate::harness::app::Service;
use crate::harness::recorder::Hit;
use crate::harness::wait::until;

/// The maximum time until a running attempt is aborted: the 5 s of the contract, and the delay that
/// a busy machine may add. Without an abort, the attempt lasts for its timeout of 30 s.
const ABORTED_WITHIN: Duration = Duration::from_secs(15);

#[tokio::test]
async fn a_waiting_job_ends_at_once() {
    let service = Service::start().await;
    let id = service.api.run(&service.target.url("/later/60"), json!({ "maxRetries": 2 })).await;
    until("the job waits for its second attempt", async || {
        let job = service.api.job(&id).await;
        (job["status"] == "PENDING" && job["attemptNumber"] == 1).then_some(())
    })
    .await;
    let reply = service.api.post(&format!("/v1/jobs/{id}/cancel"), &Value::Null).await;
    assert_eq!(end(&reply.data().clone()), ("FAILED", Some("CANCELLED"), 1));
    let again = service.api.post(&format!("/v1/jobs/{id}/cancel"), &Value::Null).await;
    assert_eq!(again.status, 409, "{again:?}");
    assert_eq!(service.target.hits_of(&id).len(), 1);
}

#[tokio::test]
async fn a_running_attempt_is_aborted() {
    let service = Service::start().await;
    let id = service.api.run(&service.target.url("/hang"), json!({ "maxRetries": 3 })).await;
    until("the first attempt is sent", async || (service.target.count() == 1).then_some(())).await;
    let asked = Instant::now();
    let reply = service.api.post(&format!("/v1/jobs/{id}/cancel"), &Value::Null).await;
    assert_eq!(reply.data()["status"], "RUNNING");
    let job = service.api.finished(&id).await;
    assert_eq!(end(&job), ("FAILED", Some("CANCELLED"), 1));
    let left =
        until("the request to the target is aborted", async || service.target.hits()[0].ended)
            .await;
    assert!(left - asked < ABORTED_WITHIN, "{:?}", left - asked);
    assert_eq!(service.target.hits()[0].answered, None);

    let schedule = job["scheduleId"].as_str().expect("an id");
    let schedule = service.api.get(&format!("/v1/schedules/{schedule}")).await;
    let data = schedule.data();
    assert_eq!((&data["consecutiveFailures"], &data["lastJobStatus"]), (&json!(0), &Value::Null));
}

/// The account's rows may be removed before its attempts are aborted. Then there is no job left to
/// cancel.
#[tokio::test]
async fn the_attempts_of_a_deleted_account_are_aborted() {
    let service = Service::start().await;
    let other_account = service.other_account_client("second").await;
    let others = other_account.run(&service.target.url("/hang"), json!({})).await;
    service.api.run(&service.target.url("/hang"), json!({ "maxRetries": 3 })).await;
    until("the attempts of both accounts are sent", async || {
        (service.target.count() == 2).then_some(())
    })
    .await;
    let asked = Instant::now();
    service.delete_account().await;
    let ended = async || {
        let of_others = |hit: &Hit| hit.job == others;
        service.target.hits().into_iter().find(|hit| !of_others(hit))?.ended
    };
    let left = until("the request to the target is aborted", ended).await;
    assert!(left - asked < ABORTED_WITHIN, "{:?}", left - asked);
    assert_eq!(
        service.target.hits_of(&others)[0].ended,
        None,
        "the attempt of the other account continues"
    );
    service.target.release();
    let job = other_account.finished(&others).await;
    assert_eq!(end(&job), ("SUCCESS", None, 1));
    assert_eq!(service.target.count(), 2, "no further attempt");
}

#[tokio::test]
async fn a_finished_job_runs_again_by_the_current_version() {
    let service = Service::start().await;
    let first = service.api.run(&service.target.url("/hang"), json!({})).await;
    let early = service.api.post(&format!("/v1/jobs/{first}/retry"), &Value::Null).await;
    assert_eq!(early.status, 409, "{early:?}");
    service.target.release();
    let job = service.api.finished(&first).await;
    let schedule = job["scheduleId"].as_str().expect("an id").to_owned();

    let path = format!("/v1/schedules/{schedule}");
    let change = json!({ "endpoint": service.target.url("/ok/changed") });
    service.api.call("PATCH", &path, Some(&change)).await.expect("an answer").data();
    let reply = service.api.post(&format!("/v1/jobs/{first}/retry"), &Value::Null).await;
    let second = reply.data().as_str().expect("an id").to_owned();
    assert_ne!(first, second);
    let again = service.api.finished(&second).await;
    assert_eq!((end(&again), &again["trigger"]), (("SUCCESS", None, 1), &json!("retry")));
    assert_eq!(service.target.hits_of(&second)[0].path, "/ok/changed");
    assert_eq!(service.api.job(&first).await, job, "the first one stays as it was");

    service.api.call("DELETE", &path, None).await.expect("an answer").data();
    let gone = service.api.post(&format!("/v1/jobs/{first}/retry"), &Value::Null).await;
    assert_eq!(gone.status, 404, "{gone:?}");
}
