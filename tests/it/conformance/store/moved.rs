//! The migration of unfinished jobs from an older store, which kept them in the same table as
//! finished ones.

use punctual::domain::job::JobStatus;
use punctual::domain::{AccountId, JobId, Timestamp};
use punctual::store::SharedStore;
use sqlx::migrate::Migrator;

/// The last migration of the older store.
const BEFORE: i64 = 11;
/// The number of finished jobs.
pub const FINISHED: u32 = 1_000_000;

/// The account of the unfinished jobs.
pub const ACCOUNT: AccountId = AccountId::from_bytes([1; 16]);
/// The time in the ids of the jobs: 2024-05-15.
pub const AT: Timestamp = Timestamp::from_millis(1_715_774_400_000);

/// Returns the migrations of an older binary.
pub fn older(all: &Migrator) -> Migrator {
    let known = all.iter().filter(|migration| migration.version <= BEFORE).cloned();
    Migrator::with_migrations(known.collect())
}

/// Returns the id of an unfinished job.
pub fn unfinished(number: u128) -> JobId {
    JobId::new(AT, number)
}

/// Returns statements that insert a version of an account and three unfinished jobs: one that waits
/// for its first attempt, one that waits for its second, and one whose second attempt is running.
/// `id` formats an id for the database.
pub fn statements(id: impl Fn([u8; 16]) -> String) -> String {
    let [one, two, three] = [1, 2, 3].map(|number| id(unfinished(number).to_bytes()));
    let (account, version, schedule) = (id([1; 16]), id([2; 16]), id([3; 16]));
    let at = AT.as_millis();
    let of = format!("{account}, {schedule}, {version}, 0");
    format!(
        "INSERT INTO accounts (id, name, created_at) VALUES ({account}, 'a', 1);
         INSERT INTO schedule_versions (id, account_id, schedule_id, host_key, cron_expression,
             timezone, endpoint, http_method, max_retries, timeout_seconds, sign_requests,
             created_at)
         VALUES ({version}, {account}, {schedule}, 1, '* * * * *', 'UTC', 'https://a.test/', 'GET', 3,
                 30, false, 1);
         INSERT INTO jobs (id, account_id, schedule_id, version_id, shard, status, trigger,
             attempt_number, max_attempts, wake_at, claimed_by, created_at, updated_at, started_at,
             attempt_started_at, status_code, response)
         VALUES ({one}, {of}, 0, 1, 0, 3, {at}, NULL, {at}, {at}, NULL, NULL, NULL, NULL),
                ({two}, {of}, 0, 1, 1, 3, {at} + 7, NULL, {at}, {at}, {at}, {at}, 503, 'no'),
                ({three}, {of}, 1, 1, 2, 3, {at} + 8, {account}, {at}, {at}, {at}, {at}, 503, 'no');
         INSERT INTO attempts (job_id, number, started_at, completed_at, status_code)
         VALUES ({two}, 1, {at}, {at}, 503), ({three}, 1, {at}, {at}, 503);"
    )
}

/// Asserts that the unfinished jobs look and continue as before.
pub async fn go_on(store: &SharedStore) {
    let read = async |number| {
        let found = store.job(ACCOUNT, unfinished(number)).await.expect("read");
        found.expect("the job")
    };
    let (waiting, attempts) = read(1).await;
    assert_eq!((waiting.status, attempts.len()), (JobStatus::Pending, 0));
    let (retried, attempts) = read(2).await;
    assert_eq!((retried.status, attempts.len()), (JobStatus::Pending, 1));
    assert_eq!((retried.status_code, retried.response.as_deref()), (Some(503), Some("no")));
    assert_eq!(retried.next_attempt_at, Some(AT.plus(std::time::Duration::from_millis(7))));
    let (running, attempts) = read(3).await;
    assert_eq!((running.status, attempts.len()), (JobStatus::Running, 2));
    assert_eq!((running.status_code, running.response.as_deref()), (Some(503), Some("no")));
    let late = store.late(AT.plus(std::time::Duration::from_secs(9)), None, 9).await.expect("late");
    let late: Vec<JobId> = late.iter().map(|ticket| ticket.job).collect();
    assert_eq!(late, [unfinished(1), unfinished(2)]);
    let expired = store.expired(AT.plus(std::time::Duration::from_secs(9)), 9).await;
    let expired: Vec<JobId> = expired.expect("expired").iter().map(|claim| claim.job).collect();
    assert_eq!(expired, [unfinished(3)]);
}
