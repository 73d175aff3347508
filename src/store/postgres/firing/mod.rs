//! The statements of a shard's leader: reads next ticks for the due index, reads the schedules that
//! are due, and fires batches of them.

pub(super) mod fire;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::PostgresStore;
use crate::domain::shard::ShardId;
use crate::domain::{ScheduleId, Timestamp};
use crate::store::contract::firing::check;
use crate::store::corrupt_rows::ReadableRow;
use crate::store::sql::connection::access::{Access, WorkScope};
use crate::store::sql::encoding::rows::read_rows;
use crate::store::sql::{self, firing};
use crate::store::{
    Candidate, ClaimRequest, ClaimedJobs, DueEntry, Fence, Fired, Firing, FiringStore, Result,
};
use fire::{FiringOrder, fire, is_one_statement};

read_rows! {
    Candidate {
        schedule: "schedule_id", shard, account: "account_id", host: "host_key", plan,
        suspended_until, suspensions, version: "version_id", tick: "next_tick", cron_expression,
        timezone, overlap_policy, catch_up_policy,
    }
    DueEntry { tick: "next_tick", schedule: "schedule_id", account: "account_id" }
}

/// Reads a page of next ticks. Parameters: shard, schedule after which the page begins, number of
/// rows.
const NEXT_TICKS: &str = "
    SELECT schedule_id, account_id, next_tick FROM schedule_state
    WHERE shard = $1 AND schedule_id > $2 AND next_tick IS NOT NULL
    ORDER BY schedule_id LIMIT $3";

/// Reads what the leader needs to fire schedules. A disabled schedule has no next tick, so it is
/// left out. Parameters: shards, schedules, time before which a tick is late.
const CANDIDATES: &str = "
    SELECT st.schedule_id, st.shard, st.version_id, st.host_key, st.next_tick, v.cron_expression, v.timezone,
           st.overlap_policy, st.account_id, nullif(a.plan, 'unlimited') AS plan,
           CASE WHEN st.next_tick < $3 THEN
               (SELECT catch_up_policy FROM schedules AS s WHERE s.id = st.schedule_id)
           END AS catch_up_policy,
           CASE WHEN a.suspended_at IS NULL THEN a.resumed_at
                ELSE 9223372036854775807 END AS suspended_until,
           coalesce(h.suspensions, 0) AS suspensions
    FROM unnest($1::integer[], $2::uuid[]) AS w (shard, schedule)
    JOIN schedule_state AS st ON st.shard = w.shard AND st.schedule_id = w.schedule
    LEFT JOIN shards AS h ON h.shard = st.shard
    JOIN accounts AS a ON a.id = st.account_id
    JOIN schedule_versions AS v ON v.id = st.version_id
    WHERE st.next_tick IS NOT NULL";

#[async_trait]
impl FiringStore for PostgresStore {
    async fn next_ticks(
        &self,
        shard: ShardId,
        after: Option<ScheduleId>,
        limit: u32,
    ) -> Result<Vec<DueEntry>> {
        let after = after.unwrap_or(ScheduleId::from_bytes([0; 16]));
        let query = sql::query_as(NEXT_TICKS).bind(shard).bind(after).bind(i64::from(limit));
        self.scheduler.all("next_ticks", query).await
    }

    async fn candidates(
        &self,
        ids: &[(ShardId, ScheduleId)],
        late_before: Timestamp,
    ) -> Result<Vec<Candidate>> {
        let (shards, ids): (Vec<ShardId>, Vec<ScheduleId>) = ids.iter().copied().unzip();
        let wanted = Arc::new((shards, ids));
        let rows = self.scheduler.run("candidates", WorkScope::Statement, move |connection| {
            let wanted = wanted.clone();
            Box::pin(async move {
                let query = sqlx::query_as(CANDIDATES);
                let query = query.bind(&wanted.0).bind(&wanted.1).bind(late_before);
                Ok(query.fetch_all(connection).await?)
            })
        });
        let rows: Vec<ReadableRow<ScheduleId, _>> = rows.await?;
        Ok(self.shared.corrupt_rows.leave_out("schedules", rows))
    }

    async fn unstarted(
        &self,
        schedules: &[ScheduleId],
        most: u32,
    ) -> Result<HashMap<ScheduleId, u32>> {
        firing::unstarted(self, schedules, most).await
    }

    async fn fire(&self, fences: &[Fence], now: Timestamp, firings: &[Firing]) -> Result<Fired> {
        let (fences, definitions) = (fences.into(), Arc::default());
        let order = FiringOrder { fences, now, claim: None, firings: firings.into(), definitions };
        Ok(self.fire_order("fire", order).await?.0)
    }

    async fn fire_and_claim(
        &self,
        fences: &[Fence],
        claim: &ClaimRequest,
        firings: &[Firing],
    ) -> Result<(Fired, ClaimedJobs)> {
        let definitions =
            Arc::new(self.definitions.cached(firings.iter().map(|firing| firing.version)));
        let (now, claim, firings) = (claim.now, Some(*claim), firings.into());
        let order = FiringOrder { fences: fences.into(), now, claim, firings, definitions };
        self.fire_order("fire_and_claim", order).await
    }
}

impl PostgresStore {
    async fn fire_order(
        &self,
        operation: &'static str,
        order: FiringOrder,
    ) -> Result<(Fired, ClaimedJobs)> {
        let firings = &order.firings;
        check(&order.fences, order.now, firings)?;
        let within = match is_one_statement(firings) {
            true => WorkScope::Statement,
            false => WorkScope::Transaction,
        };
        let (corrupt_rows, definitions) =
            (self.shared.corrupt_rows.clone(), order.definitions.clone());
        let fired = self.scheduler.run(operation, within, move |connection| {
            Box::pin(fire(connection, order.clone(), corrupt_rows.clone()))
        });
        let (fired, claims, secrets) = fired.await?;
        let new = definitions.new_of(&claims.taken);
        let claims = self.shared.encrypted_fields.open_claims(claims, secrets);
        self.definitions.keep(new, &claims.unreadable);
        Ok((fired, claims))
    }
}
