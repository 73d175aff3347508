//! Rows that another session has locked. Only work that needs them waits.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use punctual::domain::call::{Idempotency, IdempotencyKey};
use punctual::domain::job::JobStatus;
use punctual::domain::schedule::{OverlapPolicy, SkipReason};
use punctual::domain::{JobId, ScheduleId};
use punctual::store::{
    AttemptEnd, ClaimedJob, CompletionResult, Fired, Firing, JobGrants, NewKey, Reservation,
    Reserved, SETTLED, TickRange, WantedJobs,
};
use sqlx::types::Uuid;
use sqlx::{Connection, PgConnection, Postgres, Transaction};
use tokio::time::timeout;

use super::super::account_deletion::{erase_all, fill};
use super::super::accounts::new_key;
use super::super::world::{World, failure, fenced, minute, soon};
use super::locks::{until_one_waits, without_waiting};
use super::world;
use crate::harness::database::{Database, run};
use crate::harness::wait::{live_for, until};

/// The lock timeout of a stage's statements, except those that wait for a quarter of a second.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

fn uuid(bytes: [u8; 16]) -> Uuid {
    Uuid::from_bytes(bytes)
}

/// Locks the row of a job.
async fn hold_job(other: &mut PgConnection, job: JobId) -> Transaction<'_, Postgres> {
    hold(other, &format!("runs WHERE id = '{}'", uuid(job.to_bytes()))).await
}

/// Locks the row of a schedule's state.
async fn hold_state(other: &mut PgConnection, id: ScheduleId) -> Transaction<'_, Postgres> {
    hold(other, &format!("schedule_state WHERE schedule_id = '{}'", uuid(id.to_bytes()))).await
}

pub async fn hold<'c>(other: &'c mut PgConnection, rows: &str) -> Transaction<'c, Postgres> {
    let mut held = other.begin().await.expect("begin");
    run(&mut held, &format!("SELECT FROM {rows} FOR UPDATE")).await;
    held
}

/// Makes a call that needs a locked row and must give up long before `LOCK_TIMEOUT`. A busy machine
/// may delay a call, so one of a few calls must.
async fn give_up_early<T>(call: impl AsyncFn() -> T) -> T {
    for _ in 0..5 {
        let began = Instant::now();
        let result = call().await;
        if began.elapsed() < LOCK_TIMEOUT {
            return result;
        }
    }
    panic!("each call has waited for the ordinary lock timeout");
}

/// Waits until `count` transactions have waited for a lock, at once or one after the other.
async fn until_so_many_have_waited(other_session: &mut PgConnection, count: usize) {
    let mut seen = HashSet::new();
    until("so many transactions have waited for a lock", async || {
        let waiting = "SELECT concat(pid, ' ', xact_start) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting: Vec<String> =
            sqlx::query_scalar(waiting).fetch_all(&mut *other_session).await.expect("read");
        seen.extend(waiting);
        (seen.len() >= count).then_some(())
    })
    .await;
}

/// Returns `count` running jobs of one schedule.
pub async fn running(w: &World, count: usize) -> Vec<ClaimedJob> {
    let id = w.schedule().await;
    let mut jobs = Vec::new();
    for _ in 0..count {
        jobs.push(w.manual_job(id, minute(1)).await);
    }
    w.claim(minute(1), &jobs).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_holds_jobs_or_old_leases_delays_no_renewal_and_no_look() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let [held, free] = &running(&w, 2).await[..] else { panic!("two") };
    w.others_claim(5, minute(1)).await;
    let mut other = database.second_connection().await;
    let mut hold = hold_job(&mut other, held.job).await;
    run(&mut hold, "SELECT FROM executors FOR UPDATE").await;
    let looked = without_waiting(&database, w.store.expired(minute(9), 9)).await;
    let mut lost: Vec<_> = looked.expect("read").into_iter().map(|claim| claim.job).collect();
    lost.sort_unstable();
    let mut both = [held.job, free.job];
    both.sort_unstable();
    assert_eq!(lost, both);
    let other_lease = w.store.renew(punctual::store::ExecutorId(8), minute(99), minute(98));
    without_waiting(&database, other_lease).await.expect("renew");
    hold.rollback().await.expect("roll back");
    w.store.renew(w.executor, minute(99), minute(98)).await.expect("renew");
    assert_eq!(w.store.expired(minute(98), 9).await.expect("read"), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_takes_effect_just_now_is_running() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let once = |holder| Idempotency { key: IdempotencyKey([5; 16]), holder };
    let reserve = async |minutes, holder| {
        let asked = Reservation { idempotency: once(holder), request: [1; 32] };
        let reserved = w.store.reserve(w.account, minute(minutes), &asked);
        without_waiting(&database, reserved).await.expect("reserve")
    };
    assert_eq!(reserve(1, 1).await, Reserved::Yours);
    let mut other = database.second_connection().await;
    let held = hold(&mut other, "idempotency_keys").await;
    assert_eq!(reserve(1, 2).await, Reserved::Running);
    assert_eq!(reserve(1, 1).await, Reserved::Yours, "the same caller gets the same answer");
    assert_eq!(reserve(2, 2).await, Reserved::Running, "it has expired, but is locked");
    held.rollback().await.expect("roll back");
    assert_eq!(reserve(1, 2).await, Reserved::Running);
    assert_eq!(reserve(2, 2).await, Reserved::Yours);
    w.store.keep_answer(w.account, once(2), "done").await.expect("keep");
    let held = hold(&mut other, "idempotency_keys").await;
    assert_eq!(reserve(2, 3).await, Reserved::Answered("done".to_owned()));
    held.rollback().await.expect("roll back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_claimed_and_the_held_one_stays_late() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let id = w.schedule().await;
    let [held, free] = [w.manual_job(id, minute(1)).await, w.manual_job(id, minute(1)).await];
    let mut other = database.second_connection().await;
    let hold = hold_job(&mut other, held).await;
    let claimed = without_waiting(&database, w.claim(minute(1), &[held, free])).await;
    assert_eq!(claimed.iter().map(|claimed| claimed.job).collect::<Vec<_>>(), [free]);
    let late = w.store.late(minute(9), None, 9).await.expect("read");
    assert_eq!(late.iter().map(|ticket| ticket.job).collect::<Vec<_>>(), [held], "without a lock");
    assert_eq!(w.claim(minute(9), &[held]).await, [], "while it is held");
    hold.rollback().await.expect("roll back");
    assert_eq!(w.claim(minute(9), &[held]).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_fire_and_the_held_one_stays_due() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let [held, free, changed] = [w.schedule().await, w.schedule().await, w.schedule().await];
    let old = w.firing(changed).await;
    w.fire_next(changed).await;
    let firings = [w.firing(held).await, old, w.firing(free).await];
    let mut other = database.second_connection().await;
    let hold = hold_state(&mut other, held).await;
    let fire = async || w.store.fire(&[w.fence], soon(minute(1)), &firings).await.expect("fire");
    let fired = without_waiting(&database, fire()).await;
    let Fired { tickets, advanced, stale, busy, .. } = fired;
    assert_eq!((tickets.len(), advanced.len()), (1, 1));
    assert_eq!((advanced[0].0, stale, busy), (free, vec![changed], vec![held]));
    let newer = w.store.raise_epoch(w.fence.shard, "newer", minute(1)).await.expect("raise");
    assert_eq!(fire().await, fenced(), "held or not");
    hold.rollback().await.expect("roll back");
    assert_eq!(fire().await, fenced());
    let fence = punctual::store::Fence { epoch: newer, ..w.fence };
    let fired = w.store.fire(&[fence], soon(minute(9)), &firings).await.expect("fire");
    let Fired { tickets, busy, .. } = fired;
    assert_eq!((tickets.len(), tickets[0].job), (1, JobId::of_tick(held, minute(1))), "its tick");
    assert_eq!(busy, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_range_of_skips_is_left_as_it_is() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let id = w.schedule().await;
    let mut other = database.second_connection().await;
    for (tick, is_held, ranges) in [(1, false, 1), (2, true, 2), (3, false, 2)] {
        let firing = w.firing(id).await;
        let range = TickRange { first: firing.tick, last: firing.tick, count: 1 };
        let skips = vec![(range, SkipReason::CatchUp)];
        let firing = Firing { jobs: vec![], skips, ..firing };
        let rows = if is_held { "skips" } else { "skips WHERE false" };
        let hold = hold(&mut other, rows).await;
        let done = without_waiting(&database, w.fire(soon(minute(tick)), &[firing])).await;
        assert_eq!(done.advanced.len(), 1);
        hold.rollback().await.expect("roll back");
        assert_eq!(w.skips(id).await.len(), ranges, "tick {tick}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_held_for_a_moment_fails_no_batch() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let [ended] = &running(&w, 1).await[..] else { panic!("one") };
    let waits = w.manual_job(ended.schedule, minute(1)).await;
    let (mut other, mut other_session) =
        (database.second_connection().await, database.second_connection().await);
    // Opens a connection for each of the calls, so that all wait from the beginning.
    let renewals = (0..3).map(|_| w.store.renew(w.executor, minute(3), minute(2)));
    assert!(join_all(renewals).await.iter().all(Result::is_ok));
    let mut hold = other.begin().await.expect("begin");
    run(&mut hold, "LOCK TABLE runs, executors, ONLY jobs, ONLY attempts IN ACCESS EXCLUSIVE MODE")
        .await;
    let end = [w.completion(ended, None, AttemptEnd::Succeeded)];
    let (claim, claimed) = (w.claim_at(minute(2)), [waits]);
    // Dropping a day's partition locks the tables for longer than the first try of a commit waits.
    // So the commit waits in two transactions.
    let release = async {
        until_so_many_have_waited(&mut other_session, 4).await;
        hold.rollback().await.expect("roll back");
    };
    let (claimed, renewed, committed, ()) = tokio::join!(
        w.store.claim(&claim, &claimed),
        w.store.renew(w.executor, minute(3), minute(2)),
        w.store.commit(minute(2), &end),
        release,
    );
    assert_eq!(claimed.expect("claim").taken.len(), 1);
    renewed.expect("renew");
    let results = committed.expect("commit").results;
    assert_eq!(results, [CompletionResult::Applied(JobStatus::Success)]);
}

/// Commits two ends twice. The rows of the second end are locked, so it is busy both times. Then
/// releases the lock.
async fn commit_around(w: &World, ends: &[&ClaimedJob; 2], hold: Transaction<'_, Postgres>) {
    let batch = ends.map(|claimed| w.completion(claimed, None, AttemptEnd::Succeeded));
    let committed = w.commit(minute(2), &batch).await;
    assert_eq!(
        committed.results,
        [CompletionResult::Applied(JobStatus::Success), CompletionResult::Busy]
    );
    let again = give_up_early(async || w.store.commit(minute(2), &batch).await).await;
    let again = again.expect("commit");
    assert_eq!(
        (again.results, again.tickets.len()),
        (vec![CompletionResult::Lost, CompletionResult::Busy], 0)
    );
    assert_eq!(w.status(ends[1].job).await, JobStatus::Running, "nothing of it is written");
    hold.rollback().await.expect("roll back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_committed_and_the_held_job_when_it_is_free() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let [free, held] = &running(&w, 2).await[..] else { panic!("two") };
    let mut other = database.second_connection().await;
    let hold = hold_job(&mut other, held.job).await;
    commit_around(&w, &[free, held], hold).await;
    let end = w.completion(held, None, AttemptEnd::Failed(failure()));
    let committed = w.commit(minute(3), &[end.clone(), end]).await;
    assert_eq!(
        committed.results,
        [CompletionResult::Applied(JobStatus::Failed), CompletionResult::Lost]
    );
    assert_eq!(w.read(held.schedule).await.consecutive_failures, 1, "counted once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_committed_and_those_of_a_held_schedule_when_it_is_free() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let (free, held) = (running(&w, 1).await.remove(0), running(&w, 1).await.remove(0));
    let mut other = database.second_connection().await;
    let hold = hold_state(&mut other, held.schedule).await;
    commit_around(&w, &[&free, &held], hold).await;
    let committed = w.commit(minute(3), &[w.completion(&held, None, AttemptEnd::Succeeded)]).await;
    assert_eq!(committed.results, [CompletionResult::Applied(JobStatus::Success)]);
    assert!(w.read(held.schedule).await.last_run_at.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_active_job_ends_when_the_one_behind_it_is_free() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let free = running(&w, 1).await.remove(0);
    let id = w.schedule_with(|new| new.overlap_policy = OverlapPolicy::QueueOne).await;
    let active = w.tick_job(id).await;
    assert!(w.fire_next(id).await.is_empty());
    let active = w.claim(soon(minute(1)), &[active]).await.remove(0);
    let behind = JobId::of_tick(id, minute(2));
    let mut other = database.second_connection().await;
    let hold = hold_job(&mut other, behind).await;
    commit_around(&w, &[&free, &active], hold).await;
    let committed =
        w.commit(minute(3), &[w.completion(&active, None, AttemptEnd::Succeeded)]).await;
    assert_eq!(committed.tickets.iter().map(|ticket| ticket.job).collect::<Vec<_>>(), [behind]);
    assert_eq!(w.claim(minute(3), &[behind]).await.len(), 1, "it follows");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_reserved_for_others_while_a_counter_is_held() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let both = [w.account, w.foreign];
    w.store.begin_months(minute(1), &both).await.expect("begin");
    let mut other = database.second_connection().await;
    let account = uuid(w.account.to_bytes());
    let hold = hold(&mut other, &format!("account_months WHERE account_id = '{account}'")).await;
    let wanted = both.map(|account| WantedJobs { account, quota: 9, jobs: 1 });
    let reserve = async || {
        let JobGrants { granted, held } =
            w.store.reserve_jobs(minute(1), 0, &wanted).await.expect("ask");
        (granted.iter().map(|granted| granted.account).collect::<Vec<_>>(), held)
    };
    let expected = (vec![w.foreign], vec![w.account]);
    assert_eq!(without_waiting(&database, reserve()).await, expected);
    let begun = without_waiting(&database, w.store.begin_months(minute(1), &both)).await;
    begun.expect("there already");
    let asked = give_up_early(async || w.store.await_jobs(minute(1), 0, &wanted[0]).await).await;
    assert_eq!(asked.expect("ask"), None);
    let waits = w.store.await_jobs(minute(1), 0, &wanted[0]);
    let mut other_session = database.second_connection().await;
    let lets_go = async {
        until_one_waits(&mut other_session).await;
        hold.rollback().await.expect("roll back");
    };
    let (granted, ()) = tokio::join!(waits, lets_go);
    assert_eq!(granted.expect("ask").expect("granted").jobs, 1, "as soon as it can be");
    assert_eq!(reserve().await.0.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_counter_is_granted_to_its_waiters() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    w.store.begin_months(minute(1), &[w.account]).await.expect("begin");
    let account = uuid(w.account.to_bytes());
    // Two sessions take turns, so that the counter is never free.
    let busy = (0..2).map(async |_| {
        let mut other = database.second_connection().await;
        loop {
            let counter = format!("account_months WHERE account_id = '{account}'");
            let held = hold(&mut other, &counter).await;
            live_for(Duration::from_millis(5)).await;
            held.commit().await.expect("commit");
        }
    });
    let mut other_session = database.second_connection().await;
    let waits = async {
        until_one_waits(&mut other_session).await;
        let wanted = WantedJobs { account: w.account, quota: 99, jobs: 1 };
        for _ in 0..5 {
            let mut granted = None;
            // On a slow machine the turns of the two may take longer than a call waits.
            for _ in 0..5 {
                granted = w.store.await_jobs(minute(1), 0, &wanted).await.expect("ask");
                if granted.is_some() {
                    break;
                }
            }
            assert_eq!(granted.map(|granted| granted.jobs), Some(1));
        }
    };
    tokio::select! {
        _ = join_all(busy) => {}
        () = waits => {}
    }
}

/// So the tests that use `without_waiting` can fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[should_panic(expected = "the call waits for a lock")]
async fn a_wait_for_a_lock_is_noticed() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let mut other = database.second_connection().await;
    let mut hold = other.begin().await.expect("begin");
    run(&mut hold, "LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE").await;
    let account = [w.account];
    without_waiting(&database, w.store.begin_months(minute(1), &account)).await.expect("count");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_takes_one_connection() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let mut other = database.second_connection().await;
    let mut hold = other.begin().await.expect("begin");
    run(&mut hold, "LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE").await;
    let account = [w.account];
    let mut other_session = database.second_connection().await;
    tokio::select! {
        begun = w.store.begin_months(minute(1), &account) => panic!("it does not wait: {begun:?}"),
        () = until_one_waits(&mut other_session) => {}
    }
    for _ in 0..20 {
        let begun = w.store.begin_months(minute(1), &account);
        assert!(timeout(Duration::from_millis(5), begun).await.is_err(), "it waits");
    }
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let waiting: i64 = sqlx::query_scalar(waiting).fetch_one(&mut *hold).await.expect("read");
    assert_eq!(waiting, 1, "not each of the calls");
    hold.rollback().await.expect("roll back");
    w.store.begin_months(minute(1), &[w.account]).await.expect("count");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_jobs_of_all_days_of_the_month_are_counted() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let id = w.schedule().await;
    let mut made = 0;
    for at in ["04-30T23:59:59.999", "05-01T00:00:00", "05-02T07:00:00", "05-15T12:00:00"] {
        let at = format!("2024-{at}Z").parse().expect("an instant");
        w.manual_job(id, at).await;
        made += 1;
    }
    w.store.begin_months(minute(1), &[w.account]).await.expect("begin");
    let usage = w.store.usage(w.account, minute(1)).await.expect("count");
    assert_eq!(usage.jobs_reserved, Some(made - 1), "but for April's");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_rows_are_pruned_except_locked_ones() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    for n in 1..=3 {
        let key = NewKey { expires_at: Some(minute(n)), ..new_key(n.cast_unsigned().into()) };
        w.store.create_key(&w.write(minute(0)), &key).await.expect("create");
    }
    let mut other = database.second_connection().await;
    let first = uuid(new_key(1).id.to_bytes());
    let hold = hold(&mut other, &format!("api_keys WHERE id = '{first}'")).await;
    let prune = async || {
        let pruned = without_waiting(&database, w.store.prune_keys(minute(9), 9)).await;
        pruned.expect("prune")
    };
    assert_eq!(prune().await, 2);
    hold.rollback().await.expect("roll back");
    assert_eq!(prune().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_account_is_erased_in_order_around_what_is_held() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    fill(&w).await;
    assert!(w.store.delete_account(&w.write(minute(4))).await.expect("delete"));
    let mut other = database.second_connection().await;
    let held = hold(&mut other, "api_keys").await;
    let rounds = without_waiting(&database, erase_all(&w, w.account)).await;
    assert!(!rounds.is_empty());
    let left = w.store.rows_left(w.account).await.expect("count");
    assert!(left > 1, "rows of later tables are left, too: {left}");
    let settled = minute(4).plus(SETTLED);
    assert!(!w.store.erase(w.account, settled, 9).await.expect("erase").gone);
    held.rollback().await.expect("roll back");
    erase_all(&w, w.account).await;
    assert_eq!(w.store.rows_left(w.account).await.expect("count"), 0);
    assert!(w.store.erase(w.account, settled, 9).await.expect("erase").gone);
}
