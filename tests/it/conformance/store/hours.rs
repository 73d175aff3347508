//! Finished jobs by account and hour.

use std::time::Duration;

use futures_util::future::join_all;
use punctual::domain::hours::AccountHour;
use punctual::domain::{AccountId, JobId, Timestamp};
use punctual::store::{AttemptEnd, Cancelled, ClaimedJob, Completion, CompletionResult, NewJob};

use super::account_deletion::{erase_all, fill_foreign};
use super::world::{World, failure, minute, soon, write};

/// Returns the hour that begins `n` hours after the start of the world.
fn hour(n: i64) -> AccountHour {
    AccountHour::empty(minute(60 * n))
}

async fn hours_of(w: &World, account: AccountId) -> Vec<AccountHour> {
    w.store.hours(account, minute(0)).await.expect("read")
}

async fn hours(w: &World) -> Vec<AccountHour> {
    hours_of(w, w.account).await
}

/// Creates a manual job that is scheduled for `at` and claims it `lag_ms` later.
async fn claimed(w: &World, at: Timestamp, lag_ms: u64) -> ClaimedJob {
    let schedule = w.schedule().await;
    let job = w.manual_job(schedule, at).await;
    w.claim(at.plus(Duration::from_millis(lag_ms)), &[job]).await.remove(0)
}

/// Runs a job that is scheduled for `at` and begins `lag_ms` later.
async fn run(w: &World, at: Timestamp, lag_ms: u64, end: AttemptEnd) {
    let claimed = claimed(w, at, lag_ms).await;
    let completion = w.completion(&claimed, None, end);
    let committed = w.commit(soon(completion.completed_at), &[completion]).await;
    assert!(matches!(committed.results[..], [CompletionResult::Applied(_)]), "{committed:?}");
}

pub async fn jobs_are_counted_in_the_hour_of_their_end(w: &World) {
    assert_eq!(hours(w).await, []);
    for (lag_ms, end) in [
        (10, AttemptEnd::Succeeded),
        (11, AttemptEnd::Succeeded),
        (100, AttemptEnd::Failed(failure())),
        (250, AttemptEnd::Succeeded),
        (1_000, AttemptEnd::Succeeded),
        (10_000, AttemptEnd::Failed(failure())),
        (60_000, AttemptEnd::Succeeded),
        (60_001, AttemptEnd::Succeeded),
    ] {
        run(w, minute(2), lag_ms, end).await;
    }
    // Scheduled in the first hour, ended in the second one: the attempts take 10 ms.
    run(w, minute(59), 59_980, AttemptEnd::Succeeded).await;
    run(w, minute(59), 59_990, AttemptEnd::Succeeded).await;
    run(w, minute(150), 0, AttemptEnd::Failed(failure())).await;
    let first = AccountHour { succeeded: 7, failed: 2, lags: [1, 1, 1, 1, 1, 1, 2, 1], ..hour(0) };
    let second = AccountHour { succeeded: 1, lags: [0, 0, 0, 0, 0, 0, 1, 0], ..hour(1) };
    let third = AccountHour { failed: 1, lags: [1, 0, 0, 0, 0, 0, 0, 0], ..hour(2) };
    assert_eq!(hours(w).await, [first, second, third]);
    let from = async |at| w.store.hours(w.account, at).await.expect("read");
    assert_eq!(from(minute(60)).await, [second, third]);
    assert_eq!(from(minute(60).plus(Duration::from_millis(1))).await, [third], "whole hours only");
    assert_eq!(hours_of(w, w.foreign).await, []);
    // The history can be pruned without them.
    w.store.prune(minute(200), 100).await.expect("prune");
    assert_eq!(hours(w).await.len(), 3);
}

pub async fn a_job_is_counted_once_at_its_end(w: &World) {
    let schedule = w.schedule().await;
    let job = w.manual_job(schedule, minute(1)).await;
    w.run(minute(1), job, AttemptEnd::Retry(failure(), minute(70))).await;
    assert_eq!(hours(w).await, [], "it has not ended");
    let claimed = w.claim(minute(70), &[job]).await.remove(0);
    let end = w.completion(&claimed, None, AttemptEnd::Succeeded);
    let other = w.completion(&claimed, None, AttemptEnd::Failed(failure()));
    let batch = [end.clone(), other.clone()];
    let results = w.commit(minute(71), &batch).await.results;
    assert!(
        matches!(results[..], [CompletionResult::Applied(_), CompletionResult::Lost]),
        "{results:?}"
    );
    for repeated in [&batch[..], &[end], &[other]] {
        assert!(
            w.commit(minute(72), repeated)
                .await
                .results
                .iter()
                .all(|result| *result == CompletionResult::Lost)
        );
    }
    // The lag is that of the first attempt.
    let counted = AccountHour { succeeded: 1, lags: [1, 0, 0, 0, 0, 0, 0, 0], ..hour(1) };
    assert_eq!(hours(w).await, [counted]);
}

pub async fn cancelled_jobs_are_counted_by_themselves(w: &World) {
    let schedule = w.schedule().await;
    let cancel = async |at, job| {
        let cancelled = w.store.cancel_job(&w.write(at), job).await.expect("cancel");
        assert!(matches!(cancelled, Cancelled::Done(_)), "{cancelled:?}");
    };
    let [waiting, retried, running, left] = [
        w.manual_job(schedule, minute(1)).await,
        w.manual_job(schedule, minute(1)).await,
        w.manual_job(schedule, minute(1)).await,
        w.manual_job(schedule, minute(1)).await,
    ];
    w.run(minute(2), retried, AttemptEnd::Retry(failure(), minute(5))).await;
    let claimed = w.claim(minute(3), &[running]).await.remove(0);
    for job in [waiting, retried, running] {
        cancel(minute(4), job).await;
    }
    let none = AccountHour { cancelled: 2, lags: [0, 0, 0, 0, 0, 0, 1, 0], ..hour(0) };
    assert_eq!(hours(w).await, [none], "the third is running");
    let end = w.completion(&claimed, None, AttemptEnd::Failed(failure()));
    w.commit(minute(4), &[end]).await;
    assert!(w.store.delete_schedule(&w.write(minute(65)), schedule).await.expect("delete"));
    assert!(w.job(left).await.status.is_final());
    let first = AccountHour { cancelled: 3, lags: [0, 0, 0, 0, 0, 0, 1, 1], ..hour(0) };
    let second = AccountHour { cancelled: 1, ..hour(1) };
    assert_eq!(hours(w).await, [first, second]);
}

pub async fn the_jobs_of_a_month_have_ended_in_it_or_not_at_all(w: &World) {
    let made = async || w.store.jobs_made(w.account, minute(240)).await.expect("count");
    let at = |text: &str| text.parse::<Timestamp>().expect("an instant");
    let (april, may) = (at("2024-04-30T23:59:59.999Z"), at("2024-05-01T00:00:00Z"));
    let schedule = w.schedule().await;
    for at in [april, minute(3)] {
        w.manual_job(schedule, at).await;
    }
    assert_eq!(made().await, 1, "that of May, which has not ended");
    run(w, april, 5_000, AttemptEnd::Succeeded).await;
    for at in [may, minute(1), minute(61), minute(62), minute(121)] {
        run(w, at, 0, AttemptEnd::Failed(failure())).await;
    }
    let waiting = w.manual_job(schedule, minute(122)).await;
    w.store.cancel_job(&w.write(minute(122)), waiting).await.expect("cancel");
    assert_eq!(made().await, 8);
    assert_eq!(w.store.jobs_made(w.foreign, minute(240)).await.expect("count"), 0);
    // A store that has counted hours for an hour or not at all counts the others one by one.
    for until in [60, 239] {
        while w.steady.prune_hours(minute(until), 9).await.expect("prune") > 0 {}
        assert_eq!(made().await, 7, "without the job of April that has ended in May");
    }
}

pub async fn of_many_batches_at_once_each_job_is_counted(w: &World) {
    const ACCOUNTS: u128 = 5;
    const ROUNDS: usize = 12;
    let mut jobs: Vec<(AccountId, Vec<JobId>)> = Vec::new();
    for number in 0..ACCOUNTS {
        let account = AccountId::new(minute(0), 100 + number);
        let creation = write(account, minute(0), w.random.bits());
        let name = format!("of-many-{number}");
        let made = w.store.create_account(&creation, &name, "unlimited").await;
        assert!(made.expect("create an account"));
        let new = w.new_schedule();
        let schedule = new.id;
        let creation = w.write_for(account, minute(0));
        w.store.create_schedules(&creation, &[new], None).await.expect("create");
        let mut of_account = Vec::new();
        for _ in 0..ROUNDS {
            let job = NewJob { id: w.job_id(minute(1)), schedule };
            let creation = w.write_for(account, minute(1));
            w.store.create_job(&creation, &job, None).await.expect("create");
            of_account.push(job.id);
        }
        jobs.push((account, of_account));
    }
    // Each batch has a job of each account, in an order of its own. Each third job is cancelled by
    // its user instead.
    let (mut ends, mut users) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let mut batch: Vec<JobId> = jobs.iter().map(|(_, jobs)| jobs[round]).collect();
        batch.rotate_left(round % jobs.len());
        if round % 2 == 1 {
            batch.reverse();
        }
        if round % 3 == 2 {
            for (account, jobs) in &jobs {
                let (store, write) = (w.store.clone(), w.write_for(*account, minute(2)));
                let job = jobs[round];
                users.push(w.spawn(async move { store.cancel_job(&write, job).await }));
            }
            continue;
        }
        let claimed = w.claim(minute(1), &batch).await;
        let mut batch: Vec<Completion> = claimed
            .iter()
            .map(|claimed| w.completion(claimed, None, AttemptEnd::Succeeded))
            .collect();
        let store = w.store.clone();
        ends.push(w.spawn(async move {
            while !batch.is_empty() {
                let results = store.commit(minute(2), &batch).await.expect("commit").results;
                let mut results = results.into_iter();
                batch.retain(|_| results.next() == Some(CompletionResult::Busy));
            }
        }));
    }
    join_all(ends).await;
    for cancelled in join_all(users).await {
        assert!(matches!(cancelled, Ok(Cancelled::Done(_))), "{cancelled:?}");
    }
    let cancelled = (ROUNDS / 3) as u64;
    let succeeded = ROUNDS as u64 - cancelled;
    for (account, _) in jobs {
        let lags = [succeeded, 0, 0, 0, 0, 0, 0, 0];
        let counted = AccountHour { succeeded, cancelled, lags, ..hour(0) };
        assert_eq!(hours_of(w, account).await, [counted]);
    }
}

pub async fn old_hours_go_in_small_batches(w: &World) {
    for at in [1, 61, 121, 181] {
        run(w, minute(at), 0, AttemptEnd::Succeeded).await;
    }
    // A repeated call would prune another batch.
    let prune = async |at| w.steady.prune_hours(minute(at), 1).await.expect("prune");
    let starts = async || hours(w).await.iter().map(|hour| hour.start).collect::<Vec<Timestamp>>();
    assert_eq!([prune(59).await, prune(60).await, prune(60).await], [0, 1, 0]);
    assert_eq!(starts().await, [minute(60), minute(120), minute(180)]);
    assert_eq!([prune(239).await, prune(239).await, prune(239).await], [1, 1, 0]);
    assert_eq!(starts().await, [minute(180)], "the last hour is not over");
}

pub async fn rows_of_a_deleted_account_are_not_found(w: &World) {
    let schedule = fill_foreign(w).await.id;
    let job = NewJob { id: w.job_id(minute(3)), schedule };
    let creation = w.write_for(w.foreign, minute(3));
    w.store.create_job(&creation, &job, None).await.expect("create");
    let claimed = w.claim(minute(3), &[job.id]).await.remove(0);
    run(w, minute(1), 0, AttemptEnd::Succeeded).await;
    let deletion = w.write_for(w.foreign, minute(4));
    assert!(w.store.delete_account(&deletion).await.expect("delete"));
    // Its running attempt ends, so a row is there until it is removed.
    let end = w.completion(&claimed, None, AttemptEnd::Succeeded);
    w.commit(minute(5), &[end]).await;
    assert_eq!(hours_of(w, w.foreign).await, []);
    erase_all(w, w.foreign).await;
    assert_eq!(w.store.rows_left(w.foreign).await.expect("count"), 0);
    assert_eq!(hours(w).await.len(), 1, "those of others stay");
}
