//! The statements of a shard's leader: reads next ticks for the due index, reads the schedules that
//! are due, and fires batches of them.

pub(super) mod fire;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;

use super::claims::claimed;
use super::connection::bisect::Bisection;
use super::connection::values::{Hex, hex, json_rows, rows_of};
use super::{SqliteStore, failed_in};
use crate::domain::shard::ShardId;
use crate::domain::ticket::HostKey;
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp, VersionId};
use crate::store::contract::firing::check;
use crate::store::corrupt_rows::CorruptRows;
use crate::store::sql::connection::Connection;
use crate::store::sql::connection::access::{Access, call};
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::sql::signing::JobSecrets;
use crate::store::sql::{self, firing};
use crate::store::{
    Candidate, ClaimRequest, ClaimedJobs, DueEntry, Fence, Fired, Firing, FiringStore, Result,
    StoreErrorKind,
};
use fire::fire;

/// Reads a page of next ticks. Parameters: shard, schedule after which the page begins, number of
/// rows.
pub(super) const NEXT_TICKS: &str = "
    SELECT json_group_array(json_array(hex(schedule_id), hex(account_id), next_tick))
    FROM (SELECT st.schedule_id, s.account_id, st.next_tick
          FROM schedule_state AS st CROSS JOIN schedules AS s
          WHERE st.shard = ?1 AND st.schedule_id > ?2 AND st.next_tick IS NOT NULL
            AND s.id = st.schedule_id
          ORDER BY st.schedule_id LIMIT ?3)";

/// Reads what the leader needs to fire schedules. The first value of a row is the position of the
/// schedule in the request. Parameters: schedules with their shards, time before which a tick is
/// late.
pub(super) const CANDIDATES: &str = "
    SELECT json_group_array(json_array(
        e.key, hex(s.version_id), st.next_tick, v.cron_expression, v.timezone, s.overlap_policy,
        iif(st.next_tick < ?2, s.catch_up_policy, NULL), hex(s.account_id), nullif(a.plan, 'unlimited'),
        iif(a.suspended_at IS NULL, a.resumed_at, 9223372036854775807),
        coalesce((SELECT suspensions FROM shards WHERE shard = s.shard), 0), v.host_key))
    FROM json_each(?1) AS e CROSS JOIN schedules AS s CROSS JOIN schedule_state AS st
    CROSS JOIN schedule_versions AS v CROSS JOIN accounts AS a
    WHERE s.id = unhex(e.value ->> 1) AND s.shard = e.value ->> 0 AND s.is_enabled
      AND st.shard = e.value ->> 0 AND st.schedule_id = s.id AND st.next_tick IS NOT NULL
      AND v.id = s.version_id AND a.id = s.account_id";

/// A row of `CANDIDATES`.
#[derive(Deserialize)]
struct CandidateRow {
    position: usize,
    version: Hex,
    tick: i64,
    cron_expression: String,
    timezone: String,
    overlap: String,
    catch_up: Option<String>,
    account: Hex,
    plan: Option<String>,
    suspended_until: Option<i64>,
    suspensions: i64,
    host: i64,
}

impl CandidateRow {
    fn candidate(self, ids: &[(ShardId, ScheduleId)]) -> Option<Candidate> {
        let (shard, schedule) = *ids.get(self.position)?;
        Some(Candidate {
            schedule,
            shard,
            account: AccountId::from_bytes(self.account.0),
            host: HostKey(self.host.cast_unsigned()),
            plan: self.plan,
            suspended_until: self.suspended_until.map(Timestamp::from_millis),
            suspensions: self.suspensions,
            version: VersionId::from_bytes(self.version.0),
            tick: Timestamp::from_millis(self.tick),
            cron_expression: self.cron_expression,
            timezone: self.timezone,
            overlap_policy: self.overlap.parse().ok()?,
            catch_up_policy: self.catch_up.map(|text| text.parse()).transpose().ok()?,
        })
    }
}

#[async_trait]
impl FiringStore for SqliteStore {
    async fn unstarted(
        &self,
        schedules: &[ScheduleId],
        most: u32,
    ) -> Result<HashMap<ScheduleId, u32>> {
        firing::unstarted(self, schedules, most).await
    }

    async fn next_ticks(
        &self,
        shard: ShardId,
        after: Option<ScheduleId>,
        limit: u32,
    ) -> Result<Vec<DueEntry>> {
        // An empty key sorts before all ids.
        let query = sql::query_as(NEXT_TICKS)
            .bind(shard)
            .bind(after.map_or_else(Vec::new, |id| id.to_bytes().to_vec()))
            .bind(i64::from(limit));
        let (rows,): (String,) = self.connections.one("next_ticks", query).await?;
        let rows = rows_of::<(Hex, Hex, i64)>(&rows).map_err(failed_in("next_ticks"))?;
        let mut entries: Vec<DueEntry> = rows
            .into_iter()
            .map(|(schedule, account, tick)| DueEntry {
                tick: Timestamp::from_millis(tick),
                schedule: ScheduleId::from_bytes(schedule.0),
                account: AccountId::from_bytes(account.0),
            })
            .collect();
        entries.sort_unstable_by_key(|entry| entry.schedule);
        Ok(entries)
    }

    async fn candidates(
        &self,
        ids: &[(ShardId, ScheduleId)],
        late_before: Timestamp,
    ) -> Result<Vec<Candidate>> {
        let mut candidates = Vec::with_capacity(ids.len());
        let mut parts = Bisection::of(ids, ids.len().max(1));
        while let Some(part) = parts.next() {
            match self.read_candidates(part, late_before).await {
                Ok(mut read) => candidates.append(&mut read),
                Err(error) => {
                    let damaged = parts.halve(part, error).map_err(failed_in("candidates"))?;
                    if let Some(((_, id), why)) = damaged {
                        self.shared.corrupt_rows.log("schedules", id, &why);
                    }
                }
            }
        }
        Ok(candidates)
    }

    async fn fire(&self, fences: &[Fence], now: Timestamp, firings: &[Firing]) -> Result<Fired> {
        check(fences, now, firings)?;
        let corrupt_rows = self.shared.corrupt_rows.clone();
        let fire = call(fire, (Arc::from(fences), now, Arc::from(firings), None, corrupt_rows));
        self.connections.batch("fire", firings.len(), fire).await
    }

    async fn fire_and_claim(
        &self,
        fences: &[Fence],
        claim: &ClaimRequest,
        firings: &[Firing],
    ) -> Result<(Fired, ClaimedJobs)> {
        check(fences, claim.now, firings)?;
        let corrupt_rows = self.shared.corrupt_rows.clone();
        let order = (Arc::from(fences), *claim, Arc::from(firings), corrupt_rows);
        let fired =
            self.connections.batch("fire_and_claim", firings.len(), call(fire_and_claim, order));
        let (fired, claims, secrets) = fired.await?;
        Ok((fired, self.shared.encrypted_fields.open_claims(claims, secrets)))
    }
}

impl SqliteStore {
    async fn read_candidates(
        &self,
        ids: &[(ShardId, ScheduleId)],
        late_before: Timestamp,
    ) -> SqlResult<Vec<Candidate>> {
        let wanted: Vec<_> = ids.iter().map(|(shard, id)| (shard.0, hex(id))).collect();
        let query = sqlx::query_as(CANDIDATES).bind(json_rows(&wanted)).bind(late_before);
        let (rows,): (String,) = self.connections.readers.one(query).await?;
        let damaged = || SqlError::new(StoreErrorKind::Corrupt, "a schedule cannot be read back");
        let candidates = rows_of::<CandidateRow>(&rows)?.into_iter();
        candidates.map(|row| row.candidate(ids).ok_or_else(damaged)).collect()
    }
}

async fn fire_and_claim(
    connection: &mut Connection<'_>,
    fences: Arc<[Fence]>,
    claim: ClaimRequest,
    firings: Arc<[Firing]>,
    corrupt_rows: Arc<CorruptRows>,
) -> SqlResult<(Fired, ClaimedJobs, JobSecrets)> {
    // An executor without a lease claims nothing. The jobs get tickets instead.
    let leased = sql::query_scalar("SELECT EXISTS (SELECT 1 FROM executors WHERE id = ?1)");
    if !leased.bind(claim.executor).fetch_one(connection).await? {
        let fired = fire(connection, fences, claim.now, firings, None, corrupt_rows).await?;
        return Ok((fired, ClaimedJobs::default(), JobSecrets::new()));
    }
    let executor = Some(claim.executor);
    let mut fired =
        fire(connection, fences, claim.now, firings, executor, corrupt_rows.clone()).await?;
    // The jobs that may start are claimed already, so they need no tickets.
    let tickets = std::mem::take(&mut fired.tickets);
    let jobs: Vec<JobId> = tickets.into_iter().map(|ticket| ticket.job).collect();
    let (claims, secrets) = claimed(connection, claim, jobs, corrupt_rows).await?;
    Ok((fired, claims, secrets))
}
