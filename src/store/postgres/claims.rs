//! Claims: taken, renewed, found late or expired.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};

use super::commit;
use super::error::Outcome;
use super::values::{bounds, number};
use super::{PostgresStore, Within};
use crate::domain::schedule::Definition;
use crate::domain::ticket::Ticket;
use crate::domain::{JobId, Timestamp};
use crate::store::claims::FIRST;
use crate::store::{Claim, ClaimStore, Claimed, Committed, Completion, ExpiredClaim, Result};

impl FromRow<'_, PgRow> for ExpiredClaim {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            job: row.try_get("id")?,
            attempt: number::<i16, _>(row, "attempt_number")?,
            max_attempts: number::<i16, _>(row, "max_attempts")?,
            executor: row.try_get("claimed_by")?,
        })
    }
}

impl FromRow<'_, PgRow> for Claimed {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            job: row.try_get("id")?,
            account: row.try_get("account_id")?,
            schedule: row.try_get("schedule_id")?,
            trigger: row.try_get("trigger")?,
            attempt: number::<i16, _>(row, "attempt_number")?,
            max_attempts: number::<i16, _>(row, "max_attempts")?,
            started_at: row.try_get("attempt_started_at")?,
            definition: Definition::from_row(row)?,
        })
    }
}

/// The rows are locked in the order of their ids, and then written.
///
/// They are looked up by key, in the partitions between the ids' bounds. The status is compared as
/// another type, which keeps the planner from the index of unfinished jobs: it may take a long
/// queue for a short one.
const CLAIM: &str = "
    WITH free AS MATERIALIZED (
        SELECT id, version_id FROM jobs
        WHERE id = ANY ($4) AND id BETWEEN $5 AND $6 AND status::integer = 0
          AND wake_at <= $2 AND attempt_number < max_attempts
        ORDER BY id FOR NO KEY UPDATE)
    UPDATE jobs AS j
    SET status = 1, attempt_number = j.attempt_number + 1, claimed_by = $1, wake_at = $3,
        started_at = coalesce(j.started_at, $2), attempt_started_at = $2, updated_at = $2
    FROM free JOIN schedule_versions AS v ON v.id = free.version_id
    WHERE j.id = free.id AND j.id BETWEEN $5 AND $6
    RETURNING j.id, j.account_id, j.schedule_id, j.trigger, j.attempt_number, j.max_attempts,
              j.attempt_started_at, v.cron_expression, v.timezone, v.endpoint, v.http_method,
              v.body, v.headers, v.max_retries, v.timeout_seconds, v.expected_status_codes,
              v.sign_requests";

const RENEW: &str = "
    WITH held AS MATERIALIZED (
        SELECT j.id FROM unnest($3::uuid[], $4::smallint[]) AS h (job, attempt)
        JOIN jobs AS j ON j.id = h.job
        WHERE j.id = ANY ($3) AND j.id BETWEEN $5 AND $6 AND j.status::integer = 1
          AND j.attempt_number = h.attempt AND j.claimed_by = $1
        ORDER BY j.id FOR NO KEY UPDATE OF j)
    UPDATE jobs AS j SET wake_at = $2
    FROM held WHERE j.id = held.id AND j.id BETWEEN $5 AND $6
    RETURNING j.id";

/// Rows that somebody is just writing are passed over: they are not forgotten. The lock ends with
/// the statement. The index has no ids: jobs of one start, of which a round of firing makes some
/// hundreds, are sorted.
const LATE: &str = "
    SELECT j.id, j.shard, j.account_id, v.host_key, j.wake_at
    FROM jobs AS j JOIN schedule_versions AS v ON v.id = j.version_id
    WHERE j.status < 2 AND j.status = 0 AND j.wake_at < $1 AND (j.wake_at, j.id) > ($3, $4)
    ORDER BY j.wake_at, j.id LIMIT $2 FOR SHARE OF j SKIP LOCKED";

const EXPIRED: &str = "
    SELECT id, attempt_number, max_attempts, claimed_by FROM jobs
    WHERE status < 2 AND status = 1 AND wake_at < $1
    ORDER BY wake_at LIMIT $2 FOR SHARE SKIP LOCKED";

#[async_trait]
impl ClaimStore for PostgresStore {
    async fn claim(&self, claim: &Claim, jobs: &[JobId]) -> Result<Vec<Claimed>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let (claim, jobs): (_, Arc<[JobId]>) = (*claim, jobs.into());
        // A transaction, so that a row that cannot be read back is not claimed.
        self.executor
            .run("claim", Within::Transaction, move |connection| {
                Box::pin(take(connection, claim, jobs.clone()))
            })
            .await
    }

    async fn renew(&self, claim: &Claim, jobs: &[(JobId, u8)]) -> Result<Vec<JobId>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let (claim, jobs): (_, Arc<[(JobId, u8)]>) = (*claim, jobs.into());
        self.executor
            .run("renew", Within::Statement, move |connection| {
                Box::pin(renew(connection, claim, jobs.clone()))
            })
            .await
    }

    async fn cancelled(&self) -> Result<Vec<JobId>> {
        self.executor
            .run("cancelled", Within::Statement, |connection| {
                Box::pin(async move {
                    let query = "SELECT id FROM jobs WHERE stop = 2 AND status = 1";
                    Ok(sqlx::query_scalar(query).fetch_all(connection).await?)
                })
            })
            .await
    }

    async fn commit(&self, now: Timestamp, completions: &[Completion]) -> Result<Committed> {
        if completions.is_empty() {
            return Ok(Committed::default());
        }
        let completions: Arc<[Completion]> = completions.into();
        self.executor
            .run("commit", Within::Transaction, move |connection| {
                Box::pin(commit::commit(connection, now, completions.clone()))
            })
            .await
    }

    async fn late(
        &self,
        before: Timestamp,
        after: Option<(Timestamp, JobId)>,
        limit: u32,
    ) -> Result<Vec<Ticket>> {
        let (start, job) = after.unwrap_or(FIRST);
        self.executor
            .run("late", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query_as(LATE).bind(before).bind(i64::from(limit));
                    let query = query.bind(start).bind(job);
                    Ok(query.fetch_all(connection).await?)
                })
            })
            .await
    }

    async fn expired(&self, before: Timestamp, limit: u32) -> Result<Vec<ExpiredClaim>> {
        self.executor
            .run("expired", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query_as(EXPIRED).bind(before).bind(i64::from(limit));
                    Ok(query.fetch_all(connection).await?)
                })
            })
            .await
    }
}

async fn take(
    connection: &mut PgConnection,
    claim: Claim,
    jobs: Arc<[JobId]>,
) -> Outcome<Vec<Claimed>> {
    let (first, last) = bounds(jobs.iter().copied());
    let mut taken: Vec<Claimed> = sqlx::query_as(CLAIM)
        .bind(claim.executor)
        .bind(claim.now)
        .bind(claim.until)
        .bind(&*jobs)
        .bind(first)
        .bind(last)
        .fetch_all(connection)
        .await?;
    let places: HashMap<JobId, usize> = jobs.iter().copied().zip(0..).collect();
    taken.sort_unstable_by_key(|claimed| places.get(&claimed.job).copied());
    Ok(taken)
}

async fn renew(
    connection: &mut PgConnection,
    claim: Claim,
    jobs: Arc<[(JobId, u8)]>,
) -> Outcome<Vec<JobId>> {
    let (first, last) = bounds(jobs.iter().map(|(job, _)| *job));
    let renewed = sqlx::query_scalar(RENEW)
        .bind(claim.executor)
        .bind(claim.until)
        .bind(jobs.iter().map(|(job, _)| *job).collect::<Vec<_>>())
        .bind(jobs.iter().map(|(_, attempt)| i16::from(*attempt)).collect::<Vec<_>>())
        .bind(first)
        .bind(last)
        .fetch_all(connection)
        .await?;
    Ok(renewed)
}
