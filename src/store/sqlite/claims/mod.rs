//! Claims: takes and renews them, and finds late jobs and expired claims.

mod definition;
pub(super) mod late;

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;

use super::SqliteStore;
use super::commits;
use super::connection::bisect::Bisection;
use super::connection::values::{Hex, json_ids, rows_of, trigger_of};
use crate::domain::shard::ShardId;
use crate::domain::ticket::Ticket;
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp, VersionId};
use crate::store::contract::claims::{FIRST, LEASE_KEPT, next_page};
use crate::store::contract::signing::SealedSecret;
use crate::store::corrupt_rows::{CorruptRows, unreadable};
use crate::store::sql::accounts::erasure::aborts;
use crate::store::sql::connection::Connection;
use crate::store::sql::connection::access::{Access, Database, WorkFunction, call};
use crate::store::sql::connection::query::execute_all;
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::sql::signing::{JobSecrets, SecretRow};
use crate::store::{
    ClaimRequest, ClaimStore, ClaimedJob, ClaimedJobs, Committed, Completion, ExecutorId,
    JobsToAbort, RecordedAttempt, Result, StoreErrorKind, UnreadableJob, sql,
};
use definition::DefinitionRow;

/// The maximum number of jobs that are read at once: each can have a body of 256 KiB.
const READ_AT_ONCE: usize = 50;

/// Reads jobs that are claimed, or can be, with all that is needed to send them. The first value of
/// a row is the position of the job in the request. Parameters: time, jobs, executor.
macro_rules! jobs_where {
    ($condition:literal) => {
        concat!(
            "
    SELECT json_group_array(json_array(
        e.key, hex(j.account_id), hex(j.schedule_id), j.shard, hex(j.version_id), j.trigger,
        j.status = 0 AND j.attempt_number = 0 AND j.wake_at > j.created_at,
        j.attempt_number + 1 - j.status, j.max_attempts, coalesce(j.started_at, ?1),
        json_array(v.cron_expression, v.timezone, v.endpoint, v.http_method, v.body, v.headers,
                   v.max_retries, v.timeout_seconds, v.expected_status_codes, v.sign_requests),
        iif(v.sign_requests, json(
            (SELECT json_group_array(json_array(
                 hex(k.id), k.secret, k.created_at, k.expires_at))
             FROM signing_secrets AS k
             WHERE k.account_id = j.account_id AND (k.expires_at IS NULL OR k.expires_at > ?1))),
            NULL)))
    FROM json_each(?2) AS e CROSS JOIN runs AS j CROSS JOIN schedule_versions AS v
    WHERE j.id = unhex(e.value) AND ",
            $condition,
            "
      AND v.id = j.version_id
      AND NOT EXISTS (SELECT 1 FROM deleted_accounts AS d WHERE d.id = j.account_id)"
        )
    };
}

pub(super) const CLAIMABLE: &str = jobs_where!(
    "j.status = 0 AND j.wake_at <= ?1 AND j.attempt_number < j.max_attempts
      AND EXISTS (SELECT 1 FROM executors WHERE id = ?3)"
);

pub(super) const CLAIMED: &str =
    jobs_where!("j.status = 1 AND j.claimed_by = ?3 AND j.attempt_started_at = ?1");

pub(super) const CLAIM: &str = "
    UPDATE runs
    SET status = 1, attempt_number = attempt_number + 1, claimed_by = ?1, wake_at = NULL,
        started_at = coalesce(started_at, ?2), attempt_started_at = ?2, updated_at = ?2
    WHERE id IN (SELECT unhex(value) FROM json_each(?3))";

pub(super) const RENEW: &str = "
    INSERT INTO executors (id, alive_until) VALUES (?1, ?2)
    ON CONFLICT (id) DO UPDATE SET alive_until = max(alive_until, excluded.alive_until)";

pub(super) const REMOVE_LEASES: &str = "
    DELETE FROM executors
    WHERE alive_until < ?2 AND id <> ?1
      AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.claimed_by = executors.id AND r.status = 1)";

pub(super) const LATE: &str = "
    SELECT j.id, j.shard, j.account_id, v.host_key, j.wake_at
    FROM runs AS j INDEXED BY runs_wake CROSS JOIN schedule_versions AS v
    WHERE j.status = 0 AND j.wake_at < ?1 AND (j.wake_at, j.id) > (?3, ?4)
      AND v.id = j.version_id
      AND NOT EXISTS (SELECT 1 FROM deleted_accounts AS d WHERE d.id = j.account_id)
    ORDER BY j.wake_at, j.id LIMIT ?2";

pub(super) const EXPIRED: &str = "
    SELECT r.id, r.attempt_number, r.max_attempts, e.id AS claimed_by, e.alive_until
    FROM (SELECT id, alive_until FROM executors WHERE alive_until < ?1 ORDER BY alive_until) AS e
    CROSS JOIN runs AS r INDEXED BY runs_claimed
    WHERE r.status = 1 AND r.claimed_by = e.id
    ORDER BY e.alive_until LIMIT ?2";

pub(super) const CLAIMS_OF: &str = "
    SELECT r.id, r.attempt_number, r.max_attempts, e.id AS claimed_by, e.alive_until
    FROM executors AS e CROSS JOIN runs AS r INDEXED BY runs_claimed
    WHERE e.id = ?1 AND r.status = 1 AND r.claimed_by = e.id AND r.attempt_started_at < ?2";

/// The running jobs that a user has cancelled.
const CANCELLED: &str =
    "SELECT id FROM runs INDEXED BY runs_cancelled WHERE stop = 2 AND status = 1";

#[async_trait]
impl ClaimStore for SqliteStore {
    async fn claim(&self, claim: &ClaimRequest, jobs: &[JobId]) -> Result<ClaimedJobs> {
        self.claims("claim", *claim, jobs, take).await
    }

    /// Queues with the writes, so that it runs after a claim that is still under way.
    async fn recall(&self, claim: &ClaimRequest, jobs: &[JobId]) -> Result<ClaimedJobs> {
        self.claims("recall", *claim, jobs, claimed).await
    }

    async fn renew(&self, executor: ExecutorId, until: Timestamp, now: Timestamp) -> Result<()> {
        let renew = sql::query(RENEW).bind(executor).bind(until);
        let remove = sql::query(REMOVE_LEASES).bind(executor).bind(now.minus(LEASE_KEPT));
        self.connections.transaction("renew", call(execute_all, ([renew, remove],))).await
    }

    async fn aborts(&self) -> Result<JobsToAbort> {
        self.connections.read("aborts", call(aborts, (CANCELLED,))).await
    }

    /// Writes take turns, so no other transaction has locked a row.
    async fn commit(&self, now: Timestamp, completions: &[Completion]) -> Result<Committed> {
        if completions.is_empty() {
            return Ok(Committed::default());
        }
        let commit = call(commits::commit, (now, Arc::from(completions)));
        self.connections.batch("commit", completions.len(), commit).await
    }

    async fn late(
        &self,
        before: Timestamp,
        after: Option<(Timestamp, JobId)>,
        limit: u32,
    ) -> Result<Vec<Ticket>> {
        let (start, job) = after.unwrap_or(FIRST);
        let query = sql::query_as(LATE).bind(before).bind(i64::from(limit)).bind(start).bind(job);
        self.readable_jobs("late", query).await
    }

    async fn late_of_each(
        &self,
        before: Timestamp,
        after: Option<AccountId>,
    ) -> Result<(Vec<Ticket>, Option<AccountId>)> {
        let find = call(late::of_each, (before, after));
        let (accounts, rows) = self.connections.read("late_of_each", find).await?;
        Ok((self.shared.corrupt_rows.leave_out("jobs", rows), next_page(&accounts)))
    }

    async fn expired(&self, before: Timestamp, limit: u32) -> Result<Vec<RecordedAttempt>> {
        let query = sql::query_as(EXPIRED).bind(before).bind(i64::from(limit));
        self.readable_jobs("expired", query).await
    }

    async fn claims_of(
        &self,
        executor: ExecutorId,
        before: Timestamp,
    ) -> Result<Vec<RecordedAttempt>> {
        let query = sql::query_as(CLAIMS_OF).bind(executor).bind(before);
        self.readable_jobs("claims_of", query).await
    }
}

impl SqliteStore {
    /// Runs `work`, which claims jobs or reads those that are claimed, in the order of the writes.
    async fn claims<W>(
        &self,
        operation: &'static str,
        claim: ClaimRequest,
        jobs: &[JobId],
        work: W,
    ) -> Result<ClaimedJobs>
    where
        W: for<'c> WorkFunction<
                'c,
                (ClaimRequest, Vec<JobId>, Arc<CorruptRows>),
                (ClaimedJobs, JobSecrets),
            > + Send
            + Sync
            + 'static,
    {
        if jobs.is_empty() {
            return Ok(ClaimedJobs::default());
        }
        let jobs = each_once(jobs);
        let (rows, corrupt_rows) = (jobs.len(), self.shared.corrupt_rows.clone());
        let work = call(work, (claim, jobs, corrupt_rows));
        let (claims, secrets) = self.connections.batch(operation, rows, work).await?;
        Ok(self.shared.encrypted_fields.open_claims(claims, secrets))
    }
}

/// Removes duplicates, so that a job that is named twice is claimed once.
fn each_once(jobs: &[JobId]) -> Vec<JobId> {
    let mut seen = HashSet::with_capacity(jobs.len());
    jobs.iter().copied().filter(|job| seen.insert(*job)).collect()
}

/// A row of `CLAIMABLE` or `CLAIMED`.
#[derive(Deserialize)]
struct ClaimableRow {
    position: usize,
    account: Hex,
    schedule: Hex,
    shard: u16,
    version: Hex,
    trigger: u8,
    was_held: u8,
    attempt: u8,
    max_attempts: u8,
    first_started_at: i64,
    definition: DefinitionRow,
    secrets: Option<Vec<SecretRow>>,
}

/// Returns those of the jobs that a claim has taken.
pub(super) async fn claimed(
    connection: &mut Connection<'_>,
    claim: ClaimRequest,
    jobs: Vec<JobId>,
    corrupt_rows: Arc<CorruptRows>,
) -> SqlResult<(ClaimedJobs, JobSecrets)> {
    let found = FoundJobs::read(connection, CLAIMED, claim, &jobs, &corrupt_rows).await?;
    found.claims(connection).await
}

/// Claims those of the jobs that can be claimed.
async fn take(
    connection: &mut Connection<'_>,
    claim: ClaimRequest,
    jobs: Vec<JobId>,
    corrupt_rows: Arc<CorruptRows>,
) -> SqlResult<(ClaimedJobs, JobSecrets)> {
    let found = FoundJobs::read(connection, CLAIMABLE, claim, &jobs, &corrupt_rows).await?;
    let all: Vec<JobId> = found.taken.iter().map(|claimed| claimed.job).collect();
    // A damaged job is claimed, too, so that the executor can end it with a failure.
    let all: Vec<&JobId> = all.iter().chain(&found.damaged).collect();
    if !all.is_empty() {
        sql::query(CLAIM)
            .bind(claim.executor)
            .bind(claim.now)
            .bind(json_ids(all))
            .execute(connection)
            .await?;
    }
    found.claims(connection).await
}

/// Jobs that are claimed, or can be: those that can be read, and those that are damaged.
struct FoundJobs {
    taken: Vec<ClaimedJob>,
    damaged: Vec<JobId>,
    secrets: JobSecrets,
}

impl FoundJobs {
    /// Reads the jobs that `query` finds.
    async fn read(
        connection: &mut Connection<'_>,
        query: &'static str,
        claim: ClaimRequest,
        jobs: &[JobId],
        corrupt_rows: &CorruptRows,
    ) -> SqlResult<Self> {
        let (mut taken, mut damaged) = (Vec::with_capacity(jobs.len()), Vec::new());
        let mut secrets = JobSecrets::new();
        let mut parts = Bisection::of(jobs, READ_AT_ONCE);
        while let Some(part) = parts.next() {
            match rows(connection, query, claim, part).await {
                Ok(rows) => {
                    for (claimed, sealed) in rows {
                        secrets.extend(sealed.map(|sealed| (claimed.job, sealed)));
                        taken.push(claimed);
                    }
                }
                Err(error) => {
                    if let Some((job, why)) = parts.halve(part, error)? {
                        corrupt_rows.log("jobs", job, &why);
                        damaged.push(*job);
                    }
                }
            }
        }
        Ok(Self { taken, damaged, secrets })
    }

    /// Returns the result of the claim. Reads the numbers of the attempts of damaged jobs.
    async fn claims(self, connection: &mut Connection<'_>) -> SqlResult<(ClaimedJobs, JobSecrets)> {
        let mut unreadable = Vec::new();
        for job in self.damaged {
            unreadable.extend(attempt_of(connection, job).await?);
        }
        Ok((ClaimedJobs { taken: self.taken, unreadable }, self.secrets))
    }
}

async fn rows(
    connection: &mut Connection<'_>,
    query: &'static str,
    claim: ClaimRequest,
    jobs: &[JobId],
) -> SqlResult<Vec<(ClaimedJob, Option<Vec<SealedSecret>>)>> {
    let rows: String = sql::query_scalar(query)
        .bind(claim.now)
        .bind(json_ids(jobs))
        .bind(claim.executor)
        .fetch_one(connection)
        .await?;
    rows_of::<ClaimableRow>(&rows)?.into_iter().map(|row| claimed_row(row, jobs, claim)).collect()
}

/// Returns the recorded attempt of a job that cannot be read; `None` if the attempt's number is
/// damaged, too.
async fn attempt_of(
    connection: &mut Connection<'_>,
    job: JobId,
) -> SqlResult<Option<UnreadableJob>> {
    let attempt: i64 = sql::query_scalar("SELECT attempt_number FROM runs WHERE id = ?1")
        .bind(job)
        .fetch_one(connection)
        .await?;
    let attempt = u8::try_from(attempt).ok();
    Ok(attempt.map(|attempt| UnreadableJob { job, attempt, failure: unreadable() }))
}

fn claimed_row(
    row: ClaimableRow,
    jobs: &[JobId],
    claim: ClaimRequest,
) -> SqlResult<(ClaimedJob, Option<Vec<SealedSecret>>)> {
    let damaged = || SqlError::new(StoreErrorKind::Corrupt, "a job's row cannot be read back");
    let secrets = row.secrets.map(|rows| SecretRow::read(rows).ok_or_else(damaged)).transpose()?;
    let claimed = ClaimedJob {
        job: *jobs.get(row.position).ok_or_else(damaged)?,
        account: AccountId::from_bytes(row.account.0),
        schedule: ScheduleId::from_bytes(row.schedule.0),
        shard: ShardId(row.shard),
        version: VersionId::from_bytes(row.version.0),
        trigger: trigger_of(row.trigger).ok_or_else(damaged)?,
        was_held: row.was_held != 0,
        attempt: row.attempt,
        max_attempts: row.max_attempts,
        started_at: claim.now,
        first_started_at: Timestamp::from_millis(row.first_started_at),
        definition: row.definition.definition().ok_or_else(damaged)?,
        signing_secrets: Vec::new(),
    };
    Ok((claimed, secrets))
}
