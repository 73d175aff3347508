//! Tests of the endpoints for jobs: read, list, retry, cancel.

use std::time::Duration;

use punctual::domain::audit::Author;
use punctual::domain::outcome::{ErrorCode, Exchange, Failure, Response, Timings};
use punctual::domain::{AuditId, JobId, Timestamp};
use punctual::queue::{Capacity, Queue};
use punctual::store::{
    AttemptEnd, ClaimRequest, ClaimStore, Completion, ExecutorId, JobStore, NewJob, WriteContext,
};
use serde_json::{Value, json};

use super::harness::{START, Service, at, id};

const EXECUTOR: ExecutorId = ExecutorId(7);

/// Claims a job, which begins its next attempt.
pub async fn begin(service: &Service, job: &str) {
    let now = service.clock.now();
    let until = now.plus(Duration::from_secs(60));
    service.store.renew(EXECUTOR, until, now).await.expect("begin a lease");
    let claim = ClaimRequest { executor: EXECUTOR, now };
    let claimed = service.store.claim(&claim, &[job.parse().expect("an id")]).await;
    assert_eq!(claimed.expect("claimed").taken.len(), 1);
}

/// Commits the end of the running attempt.
pub async fn end(service: &Service, job: &str, attempt: u8, end: AttemptEnd, body: &str) {
    let response = Response {
        status: if end == AttemptEnd::Succeeded { 200 } else { 500 },
        headers: vec![("content-type".into(), "text/plain".into())],
        body: body.as_bytes().to_vec(),
        truncated: false,
    };
    let timings =
        Timings { dns_ms: Some(1), connect_ms: None, first_byte_ms: Some(3), body_ms: Some(4) };
    let completion = Completion {
        job: job.parse().expect("an id"),
        attempt,
        executor: EXECUTOR,
        run: None,
        completed_at: service.clock.now(),
        exchange: Some(Exchange { result: Ok(response), timings, duration_ms: 2_000 }),
        end,
    };
    service.store.commit(service.clock.now(), &[completion]).await.expect("committed");
}

pub fn failure() -> Failure {
    let message = "the endpoint answered with status 500".to_owned();
    Failure { code: ErrorCode::HttpStatus, message, retryable: true }
}

async fn succeeded(service: &Service) -> (String, String) {
    let (schedule, job) = service.job().await;
    begin(service, &job).await;
    end(service, &job, 1, AttemptEnd::Succeeded, "fine").await;
    (schedule, job)
}

async fn job(service: &Service, id: &str) -> Value {
    service.get(&format!("/v1/jobs/{id}")).await.ok().clone()
}

#[tokio::test]
async fn a_job_shows_each_of_its_attempts() {
    let service = Service::start().await;
    let fields = json!({ "body": "hello", "headers": "{\"X-A\":\"b\"}", "maxRetries": 2 });
    let schedule = id(&service.create(fields).await);
    let path = format!("/v1/schedules/{schedule}/trigger");
    let triggered = service.call("POST", &path).send().await;
    let created = triggered.ok().as_str().expect("an id").to_owned();
    let mut expected = json!({
        "id": created, "scheduleId": schedule, "status": "PENDING", "trigger": "manual",
        "scheduledRunAtUtc": at(0), "attemptNumber": 0, "maxAttempts": 2, "nextAttemptAtUtc": null,
        "httpMethod": "POST", "endpoint": "https://example.com/hook", "body": "hello",
        "headers": "{\"X-A\":\"b\"}", "statusCode": null, "response": null,
        "responseHeaders": null, "responseTruncated": false, "startedAtUtc": null,
        "completedAtUtc": null, "durationMs": null, "errorCode": null, "errorMessage": null,
        "createdAt": at(0), "updatedAt": at(0), "attempts": [],
    });
    assert_eq!(job(&service, &created).await, expected);

    service.advance(1);
    begin(&service, &created).await;
    service.advance(2);
    let retry = AttemptEnd::Retry(failure(), START.plus(Duration::from_secs(9)));
    end(&service, &created, 1, retry, "no").await;
    let waiting = job(&service, &created).await;
    assert_eq!(
        (&waiting["status"], &waiting["nextAttemptAtUtc"]),
        (&json!("PENDING"), &json!(at(9)))
    );

    service.advance(6);
    begin(&service, &created).await;
    assert_eq!(job(&service, &created).await["status"], "RUNNING");
    service.advance(2);
    end(&service, &created, 2, AttemptEnd::Succeeded, "yes").await;
    for (name, value) in [
        ("status", json!("SUCCESS")),
        ("attemptNumber", json!(2)),
        ("statusCode", json!(200)),
        ("response", json!("yes")),
        ("startedAtUtc", json!(at(1))),
        ("completedAtUtc", json!(at(11))),
        ("durationMs", json!(2_000)),
        ("updatedAt", json!(at(11))),
    ] {
        expected[name] = value;
    }
    let mut finished = job(&service, &created).await;
    let headers = finished["responseHeaders"].as_str().expect("encoded").to_owned();
    assert_eq!(headers, "{\"content-type\":\"text/plain\"}");
    finished["responseHeaders"] = Value::Null;
    let timings = json!({ "dnsMs": 1, "connectMs": null, "firstByteMs": 3, "bodyMs": 4 });
    expected["attempts"] = json!([
        {
            "number": 1, "startedAtUtc": at(1), "completedAtUtc": at(3), "durationMs": 2_000,
            "statusCode": 500, "errorCode": "HTTP_STATUS",
            "errorMessage": "the endpoint answered with status 500", "timings": timings,
        },
        {
            "number": 2, "startedAtUtc": at(9), "completedAtUtc": at(11), "durationMs": 2_000,
            "statusCode": 200, "errorCode": null, "errorMessage": null, "timings": timings,
        },
    ]);
    assert_eq!(finished, expected);

    let shown = service.get(&format!("/v1/schedules/{schedule}")).await;
    let shown = shown.ok();
    assert_eq!(
        (&shown["lastJobStatus"], &shown["lastRunAtUtc"]),
        (&json!("SUCCESS"), &json!(at(1)))
    );
}

#[tokio::test]
async fn a_finished_job_runs_again_by_the_current_version() {
    let service = Service::start().await;
    let (schedule, finished) = succeeded(&service).await;
    let change = json!({ "endpoint": "https://example.com/new", "maxRetries": 1 });
    service.patch(&format!("/v1/schedules/{schedule}"), &change).await.ok();
    service.advance(3);
    let answer = service.call("POST", &format!("/v1/jobs/{finished}/retry")).send().await;
    assert_eq!(answer.body, json!({ "data": answer.ok(), "success": true }));
    let again = job(&service, answer.ok().as_str().expect("an id")).await;
    assert_ne!(again["id"], json!(finished));
    for (name, value) in [
        ("status", json!("PENDING")),
        ("trigger", json!("retry")),
        ("endpoint", json!("https://example.com/new")),
        ("maxAttempts", json!(1)),
        ("scheduledRunAtUtc", json!(at(3))),
    ] {
        assert_eq!(again[name], value, "{name}");
    }
    assert_eq!(job(&service, &finished).await["endpoint"], "https://example.com/hook");
    let room = Capacity { total: 9, per_account: 9, per_host: 9, ..Capacity::default() };
    let (tickets, _) = service.queue.take(service.clock.now(), &room).await.expect("taken");
    assert!(tickets.iter().any(|ticket| json!(ticket.job) == again["id"]), "it is queued");
}

#[tokio::test]
async fn a_retry_needs_a_finished_job_and_a_schedule() {
    let service = Service::start().await;
    let (_, waiting) = service.job().await;
    let retry =
        async |job: &str| service.call("POST", &format!("/v1/jobs/{job}/retry")).send().await;
    retry(&waiting).await.refused(409, "CONFLICT", "The job has not finished");
    let (schedule, finished) = succeeded(&service).await;
    service.call("DELETE", &format!("/v1/schedules/{schedule}")).send().await.ok();
    retry(&finished).await.not_found("Schedule not found");
    job(&service, &finished).await;
    retry(&JobId::new(START, 3).to_string()).await.not_found("Job not found");
}

#[tokio::test]
async fn a_waiting_job_is_cancelled_at_once_and_a_running_one_soon() {
    let service = Service::start().await;
    let cancel =
        async |job: &str| service.call("POST", &format!("/v1/jobs/{job}/cancel")).send().await;
    let (_, waiting) = service.job().await;
    service.advance(4);
    let answer = cancel(&waiting).await;
    let record = answer.ok();
    for (name, value) in [
        ("id", json!(waiting)),
        ("status", json!("FAILED")),
        ("errorCode", json!("CANCELLED")),
        ("completedAtUtc", json!(at(4))),
    ] {
        assert_eq!(record[name], value, "{name}");
    }
    assert!(record.get("attempts").is_none());
    let finished = "The job has already finished";
    cancel(&waiting).await.refused(409, "JOB_ALREADY_FINISHED", finished);

    let (_, running) = service.job().await;
    begin(&service, &running).await;
    assert_eq!(cancel(&running).await.ok()["status"], "RUNNING");
    let cancelled = service.store.aborts().await.expect("read").jobs;
    assert_eq!(cancelled, [running.parse().expect("an id")]);
    cancel(&JobId::new(START, 3).to_string()).await.not_found("Job not found");
}

/// Creates `count` jobs of one schedule, one second apart. Returns their ids, newest first.
async fn many(service: &Service, count: usize) -> Vec<String> {
    let schedule = id(&service.create(json!({})).await).parse().expect("an id");
    let mut jobs = Vec::new();
    for index in 0..count {
        let second = i64::try_from(index).expect("few");
        let at = Timestamp::from_millis(START.as_millis() + second * 1_000);
        let (author, entry) = (Author::SERVICE, AuditId::new(at, 9));
        let write =
            WriteContext { account: service.account.id, now: at, author, entry, idempotency: None };
        let new = NewJob { id: JobId::new(at, 9), schedule };
        service.store.create_job(&write, &new, None).await.expect("made");
        jobs.insert(0, new.id.to_string());
    }
    jobs
}

fn ids(data: &Value) -> Vec<&str> {
    let jobs = data["jobs"].as_array().expect("an array");
    jobs.iter().map(|job| job["id"].as_str().expect("an id")).collect()
}

#[tokio::test]
async fn jobs_are_listed_newest_first_in_pages() {
    let service = Service::start().await;
    let jobs = many(&service, 25).await;
    let first = service.get("/v1/jobs").await;
    let data = first.ok();
    assert_eq!(ids(data), jobs[..10]);
    for (name, value) in [("page", 1), ("pageSize", 10), ("total", 25), ("totalPages", 3)] {
        assert_eq!(data[name], value, "{name}");
    }
    let second = service.get("/v1/jobs?page=2&limit=10").await;
    assert_eq!(ids(second.ok()), jobs[10..20]);
    let cursor = data["nextCursor"].as_str().expect("there is more");
    let next = service.get(&format!("/v1/jobs?cursor={cursor}&pageSize=100")).await;
    assert_eq!(ids(next.ok()), jobs[10..]);
    assert_eq!(next.ok()["nextCursor"], Value::Null);
    for (limit, size) in [("0", 1), ("-3", 1), ("1000000000", 100), ("7", 7)] {
        let answer = service.get(&format!("/v1/jobs?limit={limit}")).await;
        assert_eq!(answer.ok()["pageSize"], size, "{limit}");
        assert_eq!(ids(answer.ok()).len(), size.min(25), "{limit}");
    }
}

#[tokio::test]
async fn jobs_are_filtered() {
    let service = Service::start().await;
    let (schedule, first) = succeeded(&service).await;
    service.advance(60);
    let (_, second) = service.job().await;
    let cases = [
        (format!("scheduleId={schedule}"), vec![&first]),
        ("status=SUCCESS".into(), vec![&first]),
        ("status=PENDING".into(), vec![&second]),
        ("status=FAILED".into(), vec![]),
        ("trigger=manual".into(), vec![&second, &first]),
        ("trigger=catch_up".into(), vec![]),
        (format!("from={}", at(60)), vec![&second]),
        (format!("to={}", at(59)), vec![&first]),
        (format!("from={}&to={}", at(0), at(60)), vec![&second, &first]),
        (format!("scheduleId={}", super::harness::unknown_schedule()), vec![]),
        ("scheduleId=nonsense".into(), vec![]),
        ("scheduleId=&status=".into(), vec![&second, &first]),
    ];
    for (query, expected) in cases {
        let answer = service.get(&format!("/v1/jobs?{query}")).await;
        assert_eq!(ids(answer.ok()), expected, "{query}");
        assert_eq!(answer.ok()["total"], expected.len(), "{query}");
    }
    for (query, name) in [
        ("status=success", "status"),
        ("trigger=x", "trigger"),
        ("from=yesterday", "from"),
        ("to=2030-01-01", "to"),
        ("limit=abc", "limit"),
        ("cursor=abc", "cursor"),
        ("scheduleId=nonsense&page=x", "page"),
    ] {
        let answer = service.get(&format!("/v1/jobs?{query}")).await;
        answer.refused(400, "VALIDATION_ERROR", "Validation error");
        let errors = answer.body["error"]["details"]["fieldErrors"].as_object().expect("an object");
        assert_eq!(errors.keys().collect::<Vec<_>>(), [name], "{query}");
    }
}

#[tokio::test]
async fn responses_are_cut_in_lists() {
    let service = Service::start().await;
    let (_, long) = service.job().await;
    begin(&service, &long).await;
    end(&service, &long, 1, AttemptEnd::Succeeded, &"é".repeat(3_000)).await;
    let list = service.get("/v1/jobs").await;
    let shown = &list.ok()["jobs"][0];
    let cut = shown["response"].as_str().expect("a text");
    assert_eq!((cut.len(), &shown["responseTruncated"]), (2_048, &json!(true)));
    let whole = job(&service, &long).await;
    assert_eq!(whole["response"].as_str().map(str::len), Some(6_000));
    assert_eq!(whole["responseTruncated"], false);
}
