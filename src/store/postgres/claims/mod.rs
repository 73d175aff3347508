//! Claims: takes and renews them, and finds late jobs and expired claims.

pub(super) mod definition_cache;
pub(super) mod late;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};

use super::commits;
use super::commits::ending::LockMode;
use definition_cache::CachedDefinitions;

use super::{PostgresStore, failed_in};
use crate::domain::schedule::Definition;
use crate::domain::ticket::Ticket;
use crate::domain::{AccountId, JobId, Timestamp};
use crate::runtime::faults;
use crate::store::contract::claims::{FIRST, LEASE_KEPT, next_page};
use crate::store::contract::signing::SealedSecret;
use crate::store::corrupt_rows::{CorruptRows, ReadableRow, unreadable};
use crate::store::sql::accounts::erasure::aborts;
use crate::store::sql::connection::access::{Access, Database, WorkScope, call};
use crate::store::sql::encoding::rows::{number, unfit};
use crate::store::sql::error::{Remedy, SqlResult};
use crate::store::sql::signing::{JobSecrets, SecretRow};
use crate::store::{
    ClaimRequest, ClaimStore, ClaimedJob, ClaimedJobs, Committed, Completion, ExecutorId,
    JobsToAbort, RecordedAttempt, Result, UnreadableJob, sql,
};

/// A claimed job: its data, or the reason why its row cannot be read.
pub(super) struct ClaimedRow {
    pub(super) job: JobId,
    attempt: u8,
    claimed: std::result::Result<(ClaimedJob, Option<Vec<SealedSecret>>), String>,
}

impl FromRow<'_, PgRow> for ClaimedRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Self::read(row, &CachedDefinitions::default())
    }
}

impl ClaimedRow {
    /// Reads a row. The definition of a cached version is taken from `known`, because the row does
    /// not contain it.
    pub(super) fn read(row: &PgRow, definitions: &CachedDefinitions) -> sqlx::Result<Self> {
        Ok(Self {
            job: row.try_get("id")?,
            attempt: number::<i16, _>(row, "attempt_number")?,
            claimed: claimed(row, definitions).map_err(|error| error.to_string()),
        })
    }
}

fn claimed(
    row: &PgRow,
    definitions: &CachedDefinitions,
) -> sqlx::Result<(ClaimedJob, Option<Vec<SealedSecret>>)> {
    let secrets: Option<String> = row.try_get("signing_secrets")?;
    let read = |json: String| {
        let rows = serde_json::from_str(&json).ok().and_then(SecretRow::read);
        rows.ok_or_else(|| unfit("signing_secrets", "not a list of secrets"))
    };
    let version = row.try_get("version_id")?;
    let definition = definitions.of(version).cloned();
    let claimed = ClaimedJob {
        job: row.try_get("id")?,
        account: row.try_get("account_id")?,
        schedule: row.try_get("schedule_id")?,
        shard: row.try_get("shard")?,
        version,
        trigger: row.try_get("trigger")?,
        was_held: row.try_get("was_held")?,
        attempt: number::<i16, _>(row, "attempt_number")?,
        max_attempts: number::<i16, _>(row, "max_attempts")?,
        started_at: row.try_get("attempt_started_at")?,
        first_started_at: row.try_get("started_at")?,
        definition: definition.map_or_else(|| Definition::from_row(row), Ok)?,
        signing_secrets: Vec::new(),
    };
    Ok((claimed, secrets.map(read).transpose()?))
}

/// The columns that an executor needs to send a claimed job: those of its version `v`, and the
/// account's secrets that sign at `$now`.
macro_rules! to_send {
    ($job:literal, $now:literal) => {
        concat!(
            "v.cron_expression, v.timezone, v.endpoint, v.http_method, v.body, v.headers,
             v.max_retries, v.timeout_seconds, v.expected_status_codes, v.sign_requests,
             CASE WHEN v.sign_requests THEN
                 (SELECT json_agg(json_build_array(
                      encode(uuid_send(k.id), 'hex'), k.secret, k.created_at, k.expires_at))
                  FROM signing_secrets AS k
                  WHERE k.account_id = ",
            $job,
            ".account_id AND (k.expires_at IS NULL OR k.expires_at > ",
            $now,
            "))::text END AS signing_secrets"
        )
    };
}
pub(super) use to_send;

/// Locks the rows that are free, in the order of their ids, and then claims them. Parameters:
/// executor, time, jobs.
///
/// The rows must be found by primary key. The cast of `status` keeps the planner from the index of
/// due jobs, which it may take for short when the queue is long. The update gets the locked ids as
/// an array: the plan of a join would depend on statistics, which are always outdated for jobs of
/// the present minute.
const CLAIM: &str = concat!(
    "WITH free AS MATERIALIZED (
        SELECT id, attempt_number = 0 AND wake_at > created_at AS was_held FROM runs
        WHERE id = ANY ($3) AND status::integer = 0 AND wake_at <= $2 AND attempt_number < max_attempts
          AND account_id NOT IN (SELECT id FROM deleted_accounts WHERE gone_at IS NULL)
          AND EXISTS (SELECT FROM executors WHERE id = $1)
        ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
    ), taken AS (
        UPDATE runs
        SET status = 1, attempt_number = attempt_number + 1, claimed_by = $1,
            wake_at = NULL, started_at = coalesce(started_at, $2), attempt_started_at = $2,
            updated_at = $2
        WHERE id = ANY (ARRAY (SELECT id FROM free))
        RETURNING id, account_id, schedule_id, shard, version_id, trigger, attempt_number,
                  max_attempts, started_at, attempt_started_at)
    SELECT t.*, t.id = ANY (ARRAY (SELECT id FROM free WHERE was_held)) AS was_held, ",
    to_send!("t", "$2"),
    " FROM taken AS t LEFT JOIN schedule_versions AS v ON v.id = t.version_id"
);

/// Reads the jobs that a claim has taken, with the parameters of [`CLAIM`]. It needs no lock: no
/// other executor can change these columns while the claim lasts.
const RECALL: &str = concat!(
    "SELECT t.id, t.account_id, t.schedule_id, t.shard, t.version_id, t.trigger, t.attempt_number,
            t.max_attempts, t.started_at, t.attempt_started_at, false AS was_held, ",
    to_send!("t", "$2"),
    " FROM runs AS t LEFT JOIN schedule_versions AS v ON v.id = t.version_id
    WHERE t.id = ANY ($3)
      AND t.status::integer = 1 AND t.claimed_by = $1 AND t.attempt_started_at = $2
      AND t.account_id NOT IN (SELECT id FROM deleted_accounts WHERE gone_at IS NULL)"
);

/// Creates or extends a lease, and removes old leases without running jobs. Leases whose rows
/// another transaction has locked, for example to remove them, are skipped.
const RENEW: &str = "
    WITH over AS (
        DELETE FROM executors
        WHERE id IN (
            SELECT e.id FROM executors AS e
            WHERE e.alive_until < $3 AND e.id <> $1
              AND NOT EXISTS (SELECT FROM runs AS r WHERE r.claimed_by = e.id AND r.status = 1)
            FOR UPDATE SKIP LOCKED))
    INSERT INTO executors AS e (id, alive_until) VALUES ($1, $2)
    ON CONFLICT (id) DO UPDATE SET alive_until = greatest(e.alive_until, excluded.alive_until)";

/// Takes no locks. If another transaction claims or ends one of the jobs meanwhile, a claim of the
/// returned ticket finds nothing. The index has no ids, so jobs with the same start are sorted: a
/// batch of firings makes some hundreds of them.
const LATE: &str = "
    SELECT j.id, j.shard, j.account_id, v.host_key, j.wake_at
    FROM runs AS j JOIN schedule_versions AS v ON v.id = j.version_id
    WHERE j.status = 0 AND j.wake_at < $1 AND (j.wake_at, j.id) > ($3, $4)
      AND j.account_id NOT IN (SELECT id FROM deleted_accounts WHERE gone_at IS NULL)
    ORDER BY j.wake_at, j.id LIMIT $2";

/// Starts from the expired leases, which are few, so the cost does not depend on the number of
/// other jobs.
const EXPIRED: &str = "
    SELECT r.id, r.attempt_number, r.max_attempts, e.id AS claimed_by, e.alive_until
    FROM executors AS e
    CROSS JOIN LATERAL (
        SELECT id, attempt_number, max_attempts FROM runs
        WHERE status = 1 AND claimed_by = e.id LIMIT $2) AS r
    WHERE e.alive_until < $1
    ORDER BY e.alive_until LIMIT $2";

const CLAIMS_OF: &str = "
    SELECT r.id, r.attempt_number, r.max_attempts, e.id AS claimed_by, e.alive_until
    FROM executors AS e JOIN runs AS r ON r.claimed_by = e.id AND r.status = 1
    WHERE e.id = $1 AND r.attempt_started_at < $2";

/// The running jobs that a user has cancelled.
const CANCELLED: &str = "SELECT id FROM runs WHERE stop = 2 AND status = 1";

#[async_trait]
impl ClaimStore for PostgresStore {
    async fn claim(&self, claim: &ClaimRequest, jobs: &[JobId]) -> Result<ClaimedJobs> {
        self.claims("claim", CLAIM, *claim, jobs).await
    }

    async fn recall(&self, claim: &ClaimRequest, jobs: &[JobId]) -> Result<ClaimedJobs> {
        self.claims("recall", RECALL, *claim, jobs).await
    }

    async fn renew(&self, executor: ExecutorId, until: Timestamp, now: Timestamp) -> Result<()> {
        let renew = sql::query(RENEW).bind(executor).bind(until).bind(now.minus(LEASE_KEPT));
        self.executor.execute("renew", 1, renew).await?;
        Ok(())
    }

    async fn aborts(&self) -> Result<JobsToAbort> {
        self.executor.read("aborts", call(aborts, (CANCELLED,))).await
    }

    async fn commit(&self, now: Timestamp, completions: &[Completion]) -> Result<Committed> {
        if completions.is_empty() {
            return Ok(Committed::default());
        }
        let completions: Arc<[Completion]> = completions.into();
        let with = async |mode| {
            let completions = completions.clone();
            let within = match mode {
                LockMode::Optimistic => WorkScope::BriefLockTransaction,
                LockMode::SkipLocked => WorkScope::Transaction,
            };
            self.run_with_days(&self.executor, within, move |connection| {
                Box::pin(commits::commit(connection, now, completions.clone(), mode))
            })
            .await
        };
        // Tries the cheaper way first. The other one is only needed if rows are locked, or were
        // changed meanwhile.
        let committed = match with(LockMode::Optimistic).await {
            Err(error) if error.remedy == Remedy::PassOver => with(LockMode::SkipLocked).await,
            committed => committed,
        };
        committed.map_err(failed_in("commit"))
    }

    async fn late(
        &self,
        before: Timestamp,
        after: Option<(Timestamp, JobId)>,
        limit: u32,
    ) -> Result<Vec<Ticket>> {
        let (start, job) = after.unwrap_or(FIRST);
        let query = sql::query_as(faults::statement("late", LATE)).bind(before);
        let query = query.bind(i64::from(limit)).bind(start).bind(job);
        self.readable_jobs("late", query).await
    }

    async fn late_of_each(
        &self,
        before: Timestamp,
        after: Option<AccountId>,
    ) -> Result<(Vec<Ticket>, Option<AccountId>)> {
        let found = self.executor.run("late_of_each", WorkScope::Statement, move |connection| {
            Box::pin(late::of_each(connection, before, after))
        });
        let (accounts, rows) = found.await?;
        Ok((self.shared.corrupt_rows.leave_out("jobs", rows), next_page(&accounts)))
    }

    async fn expired(&self, before: Timestamp, limit: u32) -> Result<Vec<RecordedAttempt>> {
        let query = sql::query_as(faults::statement("expired", EXPIRED)).bind(before);
        self.readable_jobs("expired", query.bind(i64::from(limit))).await
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

impl PostgresStore {
    /// Runs [`CLAIM`] or [`RECALL`] for these jobs.
    async fn claims(
        &self,
        operation: &'static str,
        query: &'static str,
        claim: ClaimRequest,
        jobs: &[JobId],
    ) -> Result<ClaimedJobs> {
        if jobs.is_empty() {
            return Ok(ClaimedJobs::default());
        }
        let (jobs, corrupt_rows): (Arc<[JobId]>, _) =
            (jobs.into(), self.shared.corrupt_rows.clone());
        let claims = self.executor.run(operation, WorkScope::Statement, move |connection| {
            Box::pin(claimed_by(connection, query, claim, jobs.clone(), corrupt_rows.clone()))
        });
        let (claims, secrets) = claims.await?;
        Ok(self.shared.encrypted_fields.open_claims(claims, secrets))
    }
}

/// Returns the claimed jobs in the order of `jobs`.
async fn claimed_by(
    connection: &mut PgConnection,
    query: &'static str,
    claim: ClaimRequest,
    jobs: Arc<[JobId]>,
    corrupt_rows: Arc<CorruptRows>,
) -> SqlResult<(ClaimedJobs, JobSecrets)> {
    let rows: Vec<ReadableRow<JobId, ClaimedRow>> = sqlx::query_as(query)
        .bind(claim.executor)
        .bind(claim.now)
        .bind(&*jobs)
        .fetch_all(connection)
        .await?;
    let (mut claims, secrets) = split_readable(corrupt_rows.leave_out("jobs", rows), &corrupt_rows);
    let positions: HashMap<JobId, usize> = jobs.iter().copied().zip(0..).collect();
    claims.taken.sort_unstable_by_key(|claimed| positions.get(&claimed.job).copied());
    Ok((claims, secrets))
}

/// Divides claimed jobs into those that can be sent, with their secrets, and those that cannot.
pub(super) fn split_readable(
    jobs: Vec<ClaimedRow>,
    corrupt_rows: &CorruptRows,
) -> (ClaimedJobs, JobSecrets) {
    let (mut claims, mut secrets) = (ClaimedJobs::default(), JobSecrets::new());
    for ClaimedRow { job, attempt, claimed } in jobs {
        match claimed {
            Ok((claimed, sealed)) => {
                secrets.extend(sealed.map(|sealed| (job, sealed)));
                claims.taken.push(claimed);
            }
            Err(why) => {
                corrupt_rows.log("jobs", &job, &why);
                claims.unreadable.push(UnreadableJob { job, attempt, failure: unreadable() });
            }
        }
    }
    (claims, secrets)
}
