use punctual::domain::job::{JobStatus, Trigger};
use punctual::domain::outcome::{ErrorCode, Timings};
use punctual::domain::schedule::Definition;
use punctual::domain::ticket::Ticket;
use punctual::domain::{JobId, ScheduleId};
use punctual::store::{AttemptEnd, Cancelled, NewJob, RetryResult, ScheduleState, TriggerResult};

use super::world::{HOST, SHARD, World, answered, definition, failure, minute, soon};

pub async fn a_manual_one_starts_at_once(w: &World) {
    let id = w.schedule_with(|new| new.is_enabled = false).await;
    let new = NewJob { id: JobId::new(minute(3), w.random.bits()), schedule: id };
    let ticket = w.store.create_job(&w.write(minute(3)), &new, None).await.expect("create");
    let expected =
        Ticket { job: new.id, shard: SHARD, account: w.account, host: HOST, start: minute(3) };
    assert_eq!(ticket, TriggerResult::Created(expected));
    let (job, attempts) = w.job_and_attempts(new.id).await;
    assert_eq!((job.id, job.schedule_id), (new.id, id));
    assert_eq!((job.status, job.trigger), (JobStatus::Pending, Trigger::Manual));
    assert_eq!(job.scheduled_run_at, minute(3));
    assert_eq!((job.attempt_number, job.max_attempts, job.next_attempt_at), (0, 3, None));
    let sent = definition();
    assert_eq!((job.http_method, job.endpoint), (sent.http_method, sent.endpoint));
    assert_eq!((job.body, job.headers), (sent.body, sent.headers));
    assert_eq!((job.status_code, job.response, job.response_headers), (None, None, None));
    assert_eq!((job.response_truncated, job.duration_ms), (false, None));
    assert_eq!((job.started_at, job.completed_at), (None, None));
    assert_eq!((job.error_code, job.error_message), (None, None));
    assert_eq!((job.created_at, job.updated_at), (minute(3), minute(3)));
    assert!(attempts.is_empty());
    let read = w.read(id).await;
    assert_eq!((read.next_tick, read.revision, read.updated_at), (None, 1, minute(0)));
}

pub async fn a_manual_one_needs_a_schedule(w: &World) {
    let schedule = ScheduleId::new(minute(0), 1);
    let new = NewJob { id: JobId::new(minute(0), 1), schedule };
    let made = w.store.create_job(&w.write(minute(0)), &new, None).await.expect("create");
    assert_eq!(made, TriggerResult::NoSuchSchedule);
    assert_eq!(w.store.job(w.account, new.id).await.expect("read"), None);
}

pub async fn retrying_makes_a_new_job_by_the_current_version(w: &World) {
    let id = w.schedule().await;
    let of = w.manual_job(id, minute(1)).await;
    let again = |number| JobId::new(minute(5), number);
    let retry = async |of, number| {
        w.store.retry_job(&w.write(minute(5)), of, again(number), None).await.expect("retry")
    };
    assert_eq!(retry(JobId::new(minute(1), 1), 1).await, RetryResult::NotFound);
    assert_eq!(retry(of, 1).await, RetryResult::Unfinished);
    w.run(minute(1), of, AttemptEnd::Failed(failure())).await;
    let new = Definition { endpoint: "https://new.example".into(), ..definition() };
    let change = ScheduleState { version: Some(w.new_version(new)), ..w.change(id).await };
    w.store.change_schedule(&w.write(minute(2)), id, &change).await.expect("change");
    let RetryResult::Created(ticket) = retry(of, 1).await else { panic!("it has finished") };
    assert_eq!((ticket.job, ticket.start, ticket.host), (again(1), minute(5), HOST));
    let job = w.job(again(1)).await;
    assert_eq!((job.status, job.trigger), (JobStatus::Pending, Trigger::Retry));
    assert_eq!((job.schedule_id, job.endpoint.as_str()), (id, "https://new.example"));
    assert_eq!(w.status(of).await, JobStatus::Failed);
    w.store.delete_schedule(&w.write(minute(6)), id).await.expect("delete");
    assert_eq!(retry(of, 2).await, RetryResult::ScheduleGone);
    assert_eq!(w.store.job(w.account, again(2)).await.expect("read"), None);
}

pub async fn cancelling_a_waiting_one_ends_it(w: &World) {
    let id = w.schedule().await;
    let fresh = w.manual_job(id, minute(1)).await;
    let tried = w.manual_job(id, minute(1)).await;
    w.run(minute(1), tried, AttemptEnd::Retry(failure(), minute(9))).await;
    for job in [fresh, tried] {
        let cancelled = w.store.cancel_job(&w.write(minute(2)), job).await.expect("cancel");
        assert_eq!(cancelled, Cancelled::Done(vec![]));
        let cancelled = w.store.cancel_job(&w.write(minute(3)), job).await.expect("cancel");
        assert_eq!(cancelled, Cancelled::Finished);
        let job = w.job(job).await;
        assert_eq!((job.status, job.error_code), (JobStatus::Failed, Some(ErrorCode::Cancelled)));
        assert_eq!((job.completed_at, job.updated_at), (Some(minute(2)), minute(2)));
        assert_eq!(job.next_attempt_at, None);
    }
    let (_, attempts) = w.job_and_attempts(tried).await;
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].error_code, Some(ErrorCode::HttpStatus));
    assert!(w.claim(minute(10), &[fresh, tried]).await.is_empty());
    let read = w.read(id).await;
    assert_eq!(
        (read.last_run_at, read.last_job_status, read.consecutive_failures),
        (None, None, 0)
    );
    let missing = JobId::new(minute(1), 1);
    let cancelled = w.store.cancel_job(&w.write(minute(2)), missing).await.expect("cancel");
    assert_eq!(cancelled, Cancelled::NotFound);
}

/// A command gets its time before it waits for its turn, so a claim may come in between.
pub async fn cancelled_by_an_older_command_it_ends_after_its_start(w: &World) {
    let id = w.schedule().await;
    let (cancelled, deleted) =
        (w.manual_job(id, minute(1)).await, w.manual_job(id, minute(1)).await);
    for job in [cancelled, deleted] {
        w.run(minute(3), job, AttemptEnd::Retry(failure(), minute(9))).await;
    }
    w.store.cancel_job(&w.write(minute(2)), cancelled).await.expect("cancel");
    w.store.delete_schedule(&w.write(minute(2)), id).await.expect("delete");
    for job in [cancelled, deleted] {
        let job = w.job(job).await;
        assert_eq!(job.error_code, Some(ErrorCode::Cancelled));
        assert!(job.completed_at >= job.started_at, "{job:?}");
        assert_eq!(job.completed_at, Some(job.updated_at));
    }
}

pub async fn cancelling_a_running_one_lets_no_attempt_follow(w: &World) {
    let id = w.schedule().await;
    let job = w.manual_job(id, minute(1)).await;
    let claimed = w.claim(minute(1), &[job]).await.remove(0);
    assert!(w.store.aborts().await.expect("read").jobs.is_empty());
    for _ in 0..2 {
        let cancelled = w.store.cancel_job(&w.write(soon(minute(1))), job).await.expect("cancel");
        assert_eq!(cancelled, Cancelled::Done(vec![]));
    }
    assert_eq!(w.status(job).await, JobStatus::Running);
    assert_eq!(w.store.aborts().await.expect("read").jobs, [job]);
    let end =
        w.completion(&claimed, Some(answered(503, b"")), AttemptEnd::Retry(failure(), minute(2)));
    assert!(w.commit(minute(2), &[end]).await.tickets.is_empty());
    let (job, attempts) = w.job_and_attempts(job).await;
    assert_eq!((job.status, job.error_code), (JobStatus::Failed, Some(ErrorCode::Cancelled)));
    assert_eq!((job.status_code, attempts[0].status_code), (Some(503), Some(503)));
    assert_eq!(attempts[0].error_code, Some(ErrorCode::HttpStatus));
    assert!(w.store.aborts().await.expect("read").jobs.is_empty());
    let cancelled = w.store.cancel_job(&w.write(minute(3)), job.id).await.expect("cancel");
    assert_eq!(cancelled, Cancelled::Finished);
}

pub async fn all_attempts_are_kept(w: &World) {
    let id = w.schedule().await;
    let job = w.manual_job(id, minute(1)).await;
    w.run(minute(1), job, AttemptEnd::Retry(failure(), minute(2))).await;
    let claimed = w.claim(minute(2), &[job]).await.remove(0);
    let (running, attempts) = w.job_and_attempts(job).await;
    assert_eq!((running.status, running.attempt_number), (JobStatus::Running, 2));
    assert_eq!((running.status_code, running.next_attempt_at), (Some(503), None));
    let [first, second] = &attempts[..] else { panic!("{attempts:?}") };
    assert_eq!((first.number, first.started_at), (1, minute(1)));
    assert_eq!(first.completed_at, Some(minute(1).plus(std::time::Duration::from_millis(10))));
    assert_eq!((first.duration_ms, first.status_code), (Some(7), Some(503)));
    assert_eq!(first.error_code, Some(ErrorCode::HttpStatus));
    assert_eq!(first.error_message.as_deref(), Some("the endpoint answered with status 503"));
    assert_eq!(first.timings, answered(503, b"").timings);
    assert_eq!((second.number, second.started_at), (2, minute(2)));
    assert_eq!((second.completed_at, second.status_code, second.duration_ms), (None, None, None));
    assert_eq!((second.error_code, second.timings), (None, Timings::default()));

    let end = w.completion(&claimed, Some(answered(200, b"yes")), AttemptEnd::Succeeded);
    w.commit(soon(minute(2)), &[end]).await;
    let (done, attempts) = w.job_and_attempts(job).await;
    assert_eq!((done.status, done.attempt_number), (JobStatus::Success, 2));
    assert_eq!((done.started_at, done.status_code), (Some(minute(1)), Some(200)));
    assert_eq!(done.response.as_deref(), Some("yes"));
    assert_eq!((done.error_code, done.error_message), (None, None));
    assert_eq!(attempts.len(), 2);
    assert_eq!((attempts[1].number, attempts[1].status_code), (2, Some(200)));
    assert_eq!((attempts[1].completed_at, attempts[1].error_code), (done.completed_at, None));
    assert_eq!(attempts[1].timings, answered(200, b"").timings);
}
