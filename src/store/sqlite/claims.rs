//! Claims: taken, renewed, found late or expired.

use std::collections::HashMap;

use async_trait::async_trait;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row, SqliteConnection};

use super::commit;
use super::error::{Fault, Outcome};
use super::values::{hex, json_ids, json_rows};
use super::{SqliteStore, failed_in};
use crate::domain::job::Trigger;
use crate::domain::schedule::Definition;
use crate::domain::ticket::Ticket;
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp, VersionId};
use crate::store::{
    Claim, ClaimStore, Claimed, Committed, Completion, ExpiredClaim, Result, StoreErrorKind,
};

impl FromRow<'_, SqliteRow> for ExpiredClaim {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            job: row.try_get("id")?,
            attempt: row.try_get("attempt_number")?,
            max_attempts: row.try_get("max_attempts")?,
            executor: row.try_get("claimed_by")?,
        })
    }
}

pub(super) const CLAIM: &str = "
    UPDATE jobs
    SET status = 1, attempt_number = attempt_number + 1, claimed_by = ?1, wake_at = ?3,
        started_at = coalesce(started_at, ?2), attempt_started_at = ?2, updated_at = ?2
    WHERE id IN (SELECT unhex(value) FROM json_each(?4))
      AND status = 0 AND wake_at <= ?2 AND attempt_number < max_attempts
    RETURNING id, account_id, schedule_id, version_id, trigger, attempt_number, max_attempts";

pub(super) const DEFINITIONS: &str = "
    SELECT v.id, v.cron_expression, v.timezone, v.endpoint, v.http_method, v.body, v.headers,
           v.max_retries, v.timeout_seconds, v.expected_status_codes, v.sign_requests
    FROM json_each(?1) AS e CROSS JOIN schedule_versions AS v WHERE v.id = unhex(e.value)";

pub(super) const RENEW: &str = "
    UPDATE jobs SET wake_at = ?2
    FROM (SELECT unhex(value ->> 0) AS job, value ->> 1 AS attempt FROM json_each(?3)) AS held
    WHERE jobs.id = held.job AND jobs.status = 1 AND jobs.attempt_number = held.attempt
      AND jobs.claimed_by = ?1
    RETURNING id";

#[async_trait]
impl ClaimStore for SqliteStore {
    async fn claim(&self, claim: &Claim, jobs: &[JobId]) -> Result<Vec<Claimed>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let (claim, jobs) = (*claim, json_ids(jobs));
        self.write("claim", move |connection| Box::pin(take(connection, claim, jobs))).await
    }

    async fn renew(&self, claim: &Claim, jobs: &[(JobId, u8)]) -> Result<Vec<JobId>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<_> = jobs.iter().map(|(job, attempt)| (hex(job), attempt)).collect();
        let (claim, rows) = (*claim, json_rows(&rows));
        self.write("renew", move |connection| {
            Box::pin(async move {
                let renewed = sqlx::query_scalar(RENEW)
                    .bind(claim.executor)
                    .bind(claim.until)
                    .bind(rows)
                    .fetch_all(connection)
                    .await?;
                Ok(renewed)
            })
        })
        .await
    }

    async fn cancelled(&self) -> Result<Vec<JobId>> {
        sqlx::query_scalar(
            "SELECT id FROM jobs INDEXED BY jobs_cancelled WHERE stop = 2 AND status = 1",
        )
        .fetch_all(&self.readers)
        .await
        .map_err(Fault::from)
        .map_err(failed_in("cancelled"))
    }

    async fn commit(&self, now: Timestamp, completions: &[Completion]) -> Result<Committed> {
        if completions.is_empty() {
            return Ok(Committed::default());
        }
        let rounds = commit::rounds(completions);
        self.write("commit", move |connection| Box::pin(commit::commit(connection, now, rounds)))
            .await
    }

    async fn late(&self, before: Timestamp, limit: u32) -> Result<Vec<Ticket>> {
        sqlx::query_as(
            "SELECT j.id, j.shard, j.account_id, v.host_key, j.wake_at
             FROM jobs AS j INDEXED BY jobs_unfinished
             CROSS JOIN schedule_versions AS v
             WHERE j.status < 2 AND j.status = 0 AND j.wake_at < ?1 AND v.id = j.version_id
             ORDER BY j.wake_at LIMIT ?2",
        )
        .bind(before)
        .bind(limit)
        .fetch_all(&self.readers)
        .await
        .map_err(Fault::from)
        .map_err(failed_in("late"))
    }

    async fn expired(&self, before: Timestamp, limit: u32) -> Result<Vec<ExpiredClaim>> {
        sqlx::query_as(
            "SELECT id, attempt_number, max_attempts, claimed_by
             FROM jobs INDEXED BY jobs_unfinished
             WHERE status < 2 AND status = 1 AND wake_at < ?1 ORDER BY wake_at LIMIT ?2",
        )
        .bind(before)
        .bind(limit)
        .fetch_all(&self.readers)
        .await
        .map_err(Fault::from)
        .map_err(failed_in("expired"))
    }
}

/// A job that has just been claimed.
#[derive(FromRow)]
struct Taken {
    id: JobId,
    account_id: AccountId,
    schedule_id: ScheduleId,
    version_id: VersionId,
    trigger: Trigger,
    attempt_number: u8,
    max_attempts: u8,
}

struct Version {
    id: VersionId,
    definition: Definition,
}

impl FromRow<'_, SqliteRow> for Version {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self { id: row.try_get("id")?, definition: Definition::from_row(row)? })
    }
}

async fn take(
    connection: &mut SqliteConnection,
    claim: Claim,
    jobs: String,
) -> Outcome<Vec<Claimed>> {
    let taken: Vec<Taken> = sqlx::query_as(CLAIM)
        .bind(claim.executor)
        .bind(claim.now)
        .bind(claim.until)
        .bind(jobs)
        .fetch_all(&mut *connection)
        .await?;
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    // A version once, however many of its jobs are taken: it can be large.
    let mut wanted: Vec<VersionId> = taken.iter().map(|job| job.version_id).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let versions: Vec<Version> =
        sqlx::query_as(DEFINITIONS).bind(json_ids(&wanted)).fetch_all(connection).await?;
    let definitions: HashMap<_, _> =
        versions.into_iter().map(|version| (version.id, version.definition)).collect();
    taken.iter().map(|job| claimed(job, claim, &definitions)).collect()
}

fn claimed(
    job: &Taken,
    claim: Claim,
    definitions: &HashMap<VersionId, Definition>,
) -> Outcome<Claimed> {
    let definition = definitions.get(&job.version_id).cloned().ok_or_else(|| {
        let message = format!("{} has lost its version {}", job.id, job.version_id);
        Fault::new(StoreErrorKind::Corrupt, message)
    })?;
    Ok(Claimed {
        job: job.id,
        account: job.account_id,
        schedule: job.schedule_id,
        trigger: job.trigger,
        attempt: job.attempt_number,
        max_attempts: job.max_attempts,
        started_at: claim.now,
        definition,
    })
}
