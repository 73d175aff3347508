use std::time::Duration;

use punctual::domain::job::JobStatus;
use punctual::domain::outcome::{ErrorCode, Exchange, Failure, Response};
use punctual::domain::{JobId, ScheduleId};
use punctual::store::{AttemptEnd, Completion, CompletionResult, ExecutorId};

use super::world::{World, answered, failure, minute, soon};

pub async fn success_and_failure_are_final(w: &World) {
    let id = w.schedule().await;
    let other = Failure { code: ErrorCode::Dns, message: "no such host".into(), retryable: false };
    for (end, status, code) in [
        (AttemptEnd::Succeeded, JobStatus::Success, None),
        (AttemptEnd::Failed(other), JobStatus::Failed, Some(ErrorCode::Dns)),
    ] {
        let job = w.manual_job(id, minute(1)).await;
        let claimed = w.claim(minute(2), &[job]).await.remove(0);
        let completion = w.completion(&claimed, Some(answered(201, b"body")), end);
        let committed = w.commit(minute(3), std::slice::from_ref(&completion)).await;
        assert_eq!(
            (committed.results, committed.tickets),
            (vec![CompletionResult::Applied(status)], vec![])
        );
        assert_eq!(committed.failed, code.into_iter().map(|code| (0, code)).collect::<Vec<_>>());
        let (read, attempts) = w.job_and_attempts(job).await;
        assert_eq!((read.status, read.error_code), (status, code));
        assert_eq!(read.error_message.is_some(), code.is_some());
        assert_eq!((read.started_at, read.updated_at), (Some(minute(2)), minute(3)));
        assert_eq!(read.completed_at, Some(completion.completed_at));
        assert_eq!((read.status_code, read.duration_ms), (Some(201), Some(7)));
        assert_eq!(read.response.as_deref(), Some("body"));
        assert_eq!(read.response_headers.as_deref(), Some(r#"{"content-type":"text/plain"}"#));
        assert_eq!((attempts.len(), attempts[0].error_code), (1, code));
        assert!(w.claim(minute(9), &[job]).await.is_empty());
        assert_eq!(w.commit(minute(9), &[completion]).await.results, [CompletionResult::Lost]);
    }
}

pub async fn a_retry_waits_for_its_time(w: &World) {
    let id = w.schedule().await;
    let job = w.manual_job(id, minute(1)).await;
    let committed = w.run(minute(1), job, AttemptEnd::Retry(failure(), minute(5))).await;
    assert_eq!(committed.results, [CompletionResult::Applied(JobStatus::Pending)]);
    assert_eq!(committed.failed, [], "it has not failed for good");
    let ticket = committed.tickets[0];
    assert_eq!((committed.tickets.len(), ticket.job, ticket.start), (1, job, minute(5)));
    assert_eq!((ticket.account, ticket.host), (w.account, super::world::HOST));
    let read = w.job(job).await;
    assert_eq!((read.status, read.next_attempt_at), (JobStatus::Pending, Some(minute(5))));
    assert_eq!((read.attempt_number, read.completed_at), (1, None));
    assert_eq!((read.status_code, read.error_code), (Some(503), Some(ErrorCode::HttpStatus)));
    assert!(w.claim(minute(4), &[job]).await.is_empty());
    let read = w.read(id).await;
    assert_eq!((read.last_run_at, read.consecutive_failures), (None, 0), "it has not ended");
}

pub async fn without_an_attempt_left_a_retry_fails(w: &World) {
    let id = w.schedule_with(|new| new.version.definition.max_retries = 1).await;
    let job = w.manual_job(id, minute(1)).await;
    let committed = w.run(minute(1), job, AttemptEnd::Retry(failure(), minute(5))).await;
    assert_eq!(committed.results, [CompletionResult::Applied(JobStatus::Failed)]);
    assert!(committed.tickets.is_empty());
    assert_eq!(committed.failed, [(0, ErrorCode::HttpStatus)]);
    let (read, attempts) = w.job_and_attempts(job).await;
    assert_eq!((read.error_code, read.next_attempt_at), (Some(ErrorCode::HttpStatus), None));
    assert!(read.completed_at.is_some());
    assert_eq!(attempts.len(), 1);
}

pub async fn a_lost_claim_changes_nothing(w: &World) {
    let id = w.schedule().await;
    let job = w.manual_job(id, minute(1)).await;
    let claimed = w.claim(minute(1), &[job]).await.remove(0);
    let fine = w.completion(&claimed, None, AttemptEnd::Succeeded);
    let before = w.job_and_attempts(job).await;
    let lost = [
        Completion { executor: ExecutorId(1), ..fine.clone() },
        Completion { attempt: 2, ..fine.clone() },
        Completion { attempt: 0, ..fine.clone() },
        Completion { job: JobId::new(minute(1), 1), ..fine.clone() },
    ];
    let committed = w.commit(minute(2), &lost).await;
    assert_eq!((committed.results, committed.tickets), (vec![CompletionResult::Lost; 4], vec![]));
    assert_eq!(w.job_and_attempts(job).await, before);
    assert_eq!(w.read(id).await.last_run_at, None);

    // The attempt was closed and the next one is running, so the commit of the first executor is
    // lost.
    let closed = w.completion(&claimed, None, AttemptEnd::Retry(failure(), minute(2)));
    w.commit(minute(2), &[closed]).await;
    let second = w.claim(minute(2), &[job]).await.remove(0);
    assert_eq!(
        w.commit(minute(2), std::slice::from_ref(&fine)).await.results,
        [CompletionResult::Lost]
    );
    let end = w.completion(&second, None, AttemptEnd::Succeeded);
    let committed = w.commit(minute(3), &[fine, end]).await;
    assert_eq!(
        committed.results,
        [CompletionResult::Lost, CompletionResult::Applied(JobStatus::Success)]
    );
}

pub async fn the_second_end_of_a_job_is_lost(w: &World) {
    let id = w.schedule().await;
    let [job, other] = [w.manual_job(id, minute(1)).await, w.manual_job(id, minute(1)).await];
    let claimed = w.claim(minute(1), &[job, other]).await;
    let of = |job| claimed.iter().find(|claimed| claimed.job == job).expect("claimed");
    let batch = [
        w.completion(of(job), None, AttemptEnd::Failed(failure())),
        w.completion(of(job), None, AttemptEnd::Succeeded),
        w.completion(of(other), None, AttemptEnd::Succeeded),
    ];
    let committed = w.commit(minute(2), &batch).await;
    let (failed, success) = (JobStatus::Failed, JobStatus::Success);
    assert_eq!(
        committed.results,
        [
            CompletionResult::Applied(failed),
            CompletionResult::Lost,
            CompletionResult::Applied(success)
        ]
    );
    assert_eq!(w.status(job).await, JobStatus::Failed);
    assert_eq!(w.commit(minute(2), &batch).await.results, [CompletionResult::Lost; 3]);
    assert_eq!(w.read(id).await.consecutive_failures, 0);
    assert!(w.commit(minute(2), &[]).await.results.is_empty());
}

pub async fn a_lost_executor_leaves_no_response(w: &World) {
    let id = w.schedule().await;
    let job = w.manual_job(id, minute(1)).await;
    w.run(minute(1), job, AttemptEnd::Retry(failure(), minute(2))).await;
    w.claim(minute(2), &[job]).await;
    let lost = w.store.expired(minute(9), 9).await.expect("read").remove(0);
    let message = "the executor was lost".to_owned();
    let why = Failure { code: ErrorCode::WorkerLost, message, retryable: true };
    let completion = Completion {
        job,
        attempt: lost.attempt,
        executor: lost.executor,
        run: None,
        completed_at: minute(9),
        exchange: None,
        end: AttemptEnd::Retry(why, minute(9)),
    };
    assert_eq!(w.commit(minute(9), &[completion]).await.tickets.len(), 1);
    let (read, attempts) = w.job_and_attempts(job).await;
    assert_eq!((read.status, read.error_code), (JobStatus::Pending, Some(ErrorCode::WorkerLost)));
    assert_eq!((read.status_code, read.response, read.response_headers), (None, None, None));
    assert_eq!(read.duration_ms, None);
    assert_eq!((attempts[1].number, attempts[1].duration_ms), (2, None));
    assert_eq!(attempts[1].completed_at, Some(minute(9)));
    assert_eq!(attempts[1].error_code, Some(ErrorCode::WorkerLost));
}

pub async fn any_bytes_can_be_stored(w: &World) {
    let id = w.schedule().await;
    let job = w.manual_job(id, minute(1)).await;
    let claimed = w.claim(minute(1), &[job]).await.remove(0);
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers =
        vec![header("x-b", "one"), header("x-a", "nul\0 \"quote\" \\ é"), header("x-b", "two")];
    let body = b"a\0b\xff\xfe\xed\xa0\x80\"\\u0000'\r\n\x01".to_vec();
    let response = Response { status: 599, headers, body: body.clone(), truncated: true };
    let exchange = Exchange { result: Ok(response), ..answered(200, b"") };
    let message = "it said \0".to_owned();
    let end =
        AttemptEnd::Failed(Failure { code: ErrorCode::HttpStatus, message, retryable: false });
    w.commit(minute(1), &[w.completion(&claimed, Some(exchange), end)]).await;
    let read = w.job(job).await;
    let expected = String::from_utf8_lossy(&body).replace('\0', "\u{fffd}");
    assert_eq!(read.response, Some(expected));
    assert!(read.response_truncated);
    assert_eq!(read.error_message.as_deref(), Some("it said \u{fffd}"));
    let headers: serde_json::Value =
        serde_json::from_str(&read.response_headers.expect("headers")).expect("JSON");
    let expected = serde_json::json!({"x-a": "nul\u{fffd} \"quote\" \\ é", "x-b": "one, two"});
    assert_eq!(headers, expected);
}

pub async fn large_responses_in_one_batch(w: &World) {
    let id = w.schedule().await;
    let mut jobs = Vec::new();
    for _ in 0..40 {
        jobs.push(w.manual_job(id, minute(1)).await);
    }
    let claimed = w.claim(minute(1), &jobs).await;
    let body = vec![b'"'; 65_536];
    let batch: Vec<_> = claimed
        .iter()
        .map(|claimed| w.completion(claimed, Some(answered(200, &body)), AttemptEnd::Succeeded))
        .collect();
    let committed = w.commit(minute(2), &batch).await;
    assert_eq!(committed.results, [CompletionResult::Applied(JobStatus::Success); 40]);
    for job in [jobs[0], jobs[39]] {
        assert_eq!(w.job(job).await.response.map(|text| text.len()), Some(65_536));
    }
}

/// Runs a job from `at` to its end.
async fn run_job(w: &World, id: ScheduleId, at: i64, end: AttemptEnd) -> JobId {
    let job = w.manual_job(id, minute(at)).await;
    w.run(minute(at), job, end).await;
    job
}

pub async fn the_streak_counts_failures_since_a_success(w: &World) {
    let id = w.schedule().await;
    let mut expected = 0;
    for (at, end) in [
        (1, AttemptEnd::Failed(failure())),
        (2, AttemptEnd::Failed(failure())),
        (3, AttemptEnd::Succeeded),
        (4, AttemptEnd::Failed(failure())),
    ] {
        let fails = end != AttemptEnd::Succeeded;
        run_job(w, id, at, end).await;
        expected = if fails { expected + 1 } else { 0 };
        let read = w.read(id).await;
        assert_eq!(read.consecutive_failures, expected);
        assert_eq!(read.last_run_at, Some(minute(at)));
        let status = if fails { JobStatus::Failed } else { JobStatus::Success };
        assert_eq!(read.last_job_status, Some(status));
        assert_eq!((read.revision, read.updated_at), (1, minute(0)));
    }
    // Several outcomes of one schedule in one batch count in their order.
    let mut jobs = Vec::new();
    for at in 10..14 {
        jobs.push(w.manual_job(id, minute(at)).await);
    }
    let claimed = w.claim(minute(20), &jobs).await;
    let ends = [
        AttemptEnd::Failed(failure()),
        AttemptEnd::Succeeded,
        AttemptEnd::Failed(failure()),
        AttemptEnd::Failed(failure()),
    ];
    let batch: Vec<_> = jobs
        .iter()
        .zip(ends)
        .map(|(job, end)| {
            let claimed = claimed.iter().find(|claimed| claimed.job == *job).expect("claimed");
            w.completion(claimed, None, end)
        })
        .collect();
    w.commit(minute(21), &batch).await;
    assert_eq!(w.read(id).await.consecutive_failures, 2);
}

pub async fn an_older_run_does_not_become_the_last(w: &World) {
    let id = w.schedule().await;
    let [slow, quick] = [w.manual_job(id, minute(1)).await, w.manual_job(id, minute(2)).await];
    let slow = w.claim(minute(1), &[slow]).await.remove(0);
    let quick = w.claim(minute(2), &[quick]).await.remove(0);
    w.commit(minute(3), &[w.completion(&quick, None, AttemptEnd::Succeeded)]).await;
    w.commit(minute(9), &[w.completion(&slow, None, AttemptEnd::Failed(failure()))]).await;
    let read = w.read(id).await;
    assert_eq!(read.last_run_at, Some(minute(2)));
    assert_eq!(read.last_job_status, Some(JobStatus::Success));
    assert_eq!(read.consecutive_failures, 1, "it ended after the success");

    // Both jobs end within one batch.
    let other = w.schedule().await;
    let [slow, quick] =
        [w.manual_job(other, minute(1)).await, w.manual_job(other, minute(2)).await];
    let slow = w.claim(minute(1), &[slow]).await.remove(0);
    let quick = w.claim(minute(2), &[quick]).await.remove(0);
    let batch = [
        w.completion(&quick, None, AttemptEnd::Succeeded),
        w.completion(&slow, None, AttemptEnd::Failed(failure())),
    ];
    w.commit(minute(9), &batch).await;
    let read = w.read(other).await;
    assert_eq!((read.last_run_at, read.consecutive_failures), (Some(minute(2)), 1));
    assert_eq!(read.last_job_status, Some(JobStatus::Success));
}

pub async fn cancelled_jobs_count_nothing(w: &World) {
    let id = w.schedule().await;
    run_job(w, id, 1, AttemptEnd::Failed(failure())).await;
    // The job ends by itself before the executor learns of the cancellation.
    for end in [AttemptEnd::Failed(failure()), AttemptEnd::Retry(failure(), minute(3))] {
        let job = w.manual_job(id, minute(2)).await;
        let claimed = w.claim(minute(2), &[job]).await.remove(0);
        w.store.cancel_job(&w.write(soon(minute(2))), job).await.expect("cancel");
        let end = w.completion(&claimed, None, end);
        let committed = w.commit(minute(2).plus(Duration::from_secs(1)), &[end]).await;
        assert_eq!(
            committed.failed,
            [(0, ErrorCode::Cancelled)],
            "not what its attempt ended with"
        );
        assert_eq!(w.job(job).await.error_code, Some(ErrorCode::Cancelled));
        assert_eq!(w.read(id).await.consecutive_failures, 1);
    }
    let job = w.manual_job(id, minute(2)).await;
    let claimed = w.claim(minute(2), &[job]).await.remove(0);
    w.store.cancel_job(&w.write(soon(minute(2))), job).await.expect("cancel");
    let message = "the job was cancelled".to_owned();
    let why = Failure { code: ErrorCode::Cancelled, message, retryable: false };
    let end = w.completion(&claimed, None, AttemptEnd::Failed(why));
    let committed = w.commit(minute(2).plus(Duration::from_secs(1)), &[end]).await;
    assert_eq!(committed.results, [CompletionResult::Applied(JobStatus::Failed)]);
    let read = w.read(id).await;
    assert_eq!((read.last_run_at, read.consecutive_failures), (Some(minute(1)), 1));
    assert_eq!(w.job(job).await.error_code, Some(ErrorCode::Cancelled));
}
