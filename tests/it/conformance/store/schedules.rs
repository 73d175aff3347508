use punctual::domain::ScheduleId;
use punctual::domain::job::JobStatus;
use punctual::domain::outcome::ErrorCode;
use punctual::domain::schedule::{CatchUpPolicy, Definition, HttpMethod, OverlapPolicy};
use punctual::store::{AttemptEnd, NewSchedule, StoreErrorKind};

use super::world::{World, failure, minute, soon};

pub async fn one_reads_back_whole(w: &World) {
    let definition = Definition {
        cron_expression: "*/5 1-3 * JAN sun".into(),
        timezone: "Australia/Lord_Howe".into(),
        endpoint: "https://bücher.example/ä?q='\"\\%_".into(),
        http_method: HttpMethod::Patch,
        body: Some("line\r\n\t\u{1f980} 'quoted' \"too\" \\u0000".into()),
        headers: Some(String::new()),
        max_retries: 10,
        timeout_seconds: 300,
        expected_status_codes: Some("200-299, 410".into()),
        sign_requests: true,
    };
    let new = NewSchedule {
        name: "naïve; DROP TABLE schedules --".into(),
        description: Some("d".repeat(1_000)),
        version: w.new_version(definition.clone()),
        overlap_policy: OverlapPolicy::QueueOne,
        catch_up_policy: CatchUpPolicy::Skip,
        ..w.new_schedule()
    };
    let write = w.write(minute(0));
    w.store.create_schedules(&write, std::slice::from_ref(&new), None).await.expect("create");
    let read = w.read(new.id).await;
    assert_eq!(read.definition, definition);
    assert_eq!((read.id, read.version), (new.id, new.version.id));
    assert_eq!((read.name, read.description), (new.name, new.description));
    assert_eq!(read.overlap_policy, OverlapPolicy::QueueOne);
    assert_eq!(read.catch_up_policy, CatchUpPolicy::Skip);
    assert!(read.is_enabled);
    assert_eq!(read.next_tick, Some(minute(1)));
    assert_eq!(
        (read.last_run_at, read.last_job_status, read.consecutive_failures),
        (None, None, 0)
    );
    assert_eq!((read.created_at, read.updated_at), (minute(0), minute(0)));
    let missing = ScheduleId::new(minute(0), 1);
    assert_eq!(w.store.schedule(w.account, missing).await.expect("read"), None);
}

pub async fn creation_is_all_or_nothing(w: &World) {
    let taken = w.schedule().await;
    let fine = w.new_schedule();
    let clash = NewSchedule { id: taken, ..w.new_schedule() };
    let id = fine.id;
    let error = w.store.create_schedules(&w.write(minute(1)), &[fine, clash], None).await;
    assert_eq!(error.expect_err("a clash").kind(), StoreErrorKind::Rejected);
    assert_eq!(w.store.schedule(w.account, id).await.expect("read"), None);
    assert_eq!(w.read(taken).await.updated_at, minute(0));
    w.store.create_schedules(&w.write(minute(1)), &[], None).await.expect("nothing to create");
}

pub async fn a_disabled_one_has_no_next_tick(w: &World) {
    let id = w.schedule_with(|new| new.is_enabled = false).await;
    let read = w.read(id).await;
    assert_eq!((read.is_enabled, read.next_tick), (false, None));
    assert!(w.candidates(&[id]).await.is_empty());
}

pub async fn a_thousand_at_once(w: &World) {
    let many: Vec<_> = (0..1_000).map(|_| w.new_schedule()).collect();
    w.store.create_schedules(&w.write(minute(0)), &many, None).await.expect("create");
    for new in [&many[0], &many[999]] {
        assert_eq!(w.read(new.id).await.version, new.version.id);
    }
    assert_eq!(w.store.usage(w.account, minute(0)).await.expect("count").schedules, 1_000);
}

pub async fn deleting_ends_waiting_jobs_and_keeps_history(w: &World) {
    let id = w.schedule().await;
    let done = w.tick_job(id).await;
    w.run(soon(minute(1)), done, AttemptEnd::Succeeded).await;
    let again = w.tick_job(id).await;
    w.run(soon(minute(2)), again, AttemptEnd::Retry(failure(), minute(9))).await;
    let waiting = w.manual_job(id, minute(3)).await;
    let other = w.schedule().await;
    let others = w.manual_job(other, minute(3)).await;

    assert!(w.store.delete_schedule(&w.write(minute(4)), id).await.expect("delete"));
    assert!(!w.store.delete_schedule(&w.write(minute(4)), id).await.expect("delete"));
    assert_eq!(w.store.schedule(w.account, id).await.expect("read"), None);
    for job in [again, waiting] {
        let job = w.job(job).await;
        assert_eq!((job.status, job.completed_at), (JobStatus::Failed, Some(minute(4))));
        assert_eq!(job.error_code, Some(ErrorCode::Cancelled));
        assert!(job.error_message.expect("a message").contains("deleted"));
        assert_eq!((job.next_attempt_at, job.updated_at), (None, minute(4)));
    }
    assert_eq!(w.status(done).await, JobStatus::Success);
    assert_eq!(w.job(done).await.endpoint, "https://example.com/hook");
    assert_eq!(w.status(others).await, JobStatus::Pending);
    assert!(w.claim(minute(10), &[again, waiting]).await.is_empty());
    let ticks = w.store.next_ticks(w.fence.shard, None, 10).await.expect("read");
    assert_eq!(ticks.iter().map(|entry| entry.schedule).collect::<Vec<_>>(), [other]);
}

pub async fn deleting_lets_the_attempt_under_way_end(w: &World) {
    let id = w.schedule().await;
    let [first, second] = [w.tick_job(id).await, w.tick_job(id).await];
    let claimed = w.claim(soon(minute(2)), &[first, second]).await;
    assert!(w.store.delete_schedule(&w.write(minute(3)), id).await.expect("delete"));
    assert_eq!(w.status(first).await, JobStatus::Running);
    assert!(w.store.aborts().await.expect("read").jobs.is_empty(), "no user has cancelled it");
    let ends = [AttemptEnd::Succeeded, AttemptEnd::Retry(failure(), minute(4))];
    let completions: Vec<_> =
        claimed.iter().zip(ends).map(|(claimed, end)| w.completion(claimed, None, end)).collect();
    let committed = w.commit(minute(3), &completions).await;
    assert!(committed.tickets.is_empty());
    assert_eq!(w.status(claimed[0].job).await, JobStatus::Success);
    let (job, attempts) = w.job_and_attempts(claimed[1].job).await;
    assert_eq!((job.status, job.error_code), (JobStatus::Failed, Some(ErrorCode::Cancelled)));
    assert!(job.error_message.expect("a message").contains("deleted"));
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].error_code, Some(ErrorCode::HttpStatus));
}
