//! Fires a batch.
//!
//! Nearly all firings are plain. One statement, [`statements::FIRE_PLAIN`], fires them all. The
//! other schedules are locked, and this process decides what their ticks become and writes it
//! (`placed`). A batch of both kinds is one transaction.
//!
//! Rules:
//! - The rows of the fences are locked in share mode, then the rows of the states, before anything
//!   is written.
//! - Rows that another transaction has locked are passed over, so that the other schedules fire on
//!   time. Further statements then tell these schedules from changed ones, and these shards from
//!   those with a newer leader.
//! - A row that was changed after the statement began is locked in its new form, if it still meets
//!   the conditions. All other rows are seen as they were when the statement began. So every
//!   decision is based on the locked rows: epoch, suspensions, tick, version, switch (a disabled
//!   schedule has no tick), the last fired tick, policy, active and held job, and the open range of
//!   skips.
//! - Only the content of the open range is read from another table. A range that began after the
//!   statement did is not seen, and a new range begins.

mod batch;
mod placed;
mod ranges;
mod statements;

use std::collections::HashSet;
use std::sync::Arc;

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{FromRow, PgConnection, Postgres};

use crate::domain::shard::ShardId;
use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp, VersionId};
use crate::runtime::faults;
use crate::store::corrupt_rows::CorruptRows;
use crate::store::postgres::claims::definition_cache::CachedDefinitions;
use crate::store::postgres::claims::{ClaimedRow, split_readable};
use crate::store::sql::encoding::rows::{StoreRow, read_rows};
use crate::store::sql::error::SqlResult;
use crate::store::sql::signing::JobSecrets;
use crate::store::{ClaimRequest, ClaimedJobs, Fence, Fired, Firing};
use batch::FiringColumns;
use statements::FIRE_PLAIN;

/// The arguments of a firing: the batch, its fences, and the claim of its jobs, if there is one.
#[derive(Clone)]
pub(in crate::store::postgres) struct FiringOrder {
    pub(in crate::store::postgres) fences: Arc<[Fence]>,
    pub(in crate::store::postgres) now: Timestamp,
    pub(in crate::store::postgres) claim: Option<ClaimRequest>,
    pub(in crate::store::postgres) firings: Arc<[Firing]>,
    /// The cached definitions, which need not be read.
    pub(in crate::store::postgres) definitions: Arc<CachedDefinitions>,
}

/// A row of the result: a firing that took place, with one of its jobs, if it made any; or a shard
/// in which no firing took place.
struct FiredRow {
    shard: ShardId,
    position: Option<i64>,
    job: Option<JobId>,
    /// `true` if the job may start now.
    starts: bool,
    /// The account and the host of the job's ticket.
    ticket: Option<(AccountId, HostKey)>,
}

read_rows! {
    FiredRow { shard, position, job: "id", starts, ticket by ticket }
}

fn ticket(row: &impl StoreRow) -> sqlx::Result<Option<(AccountId, HostKey)>> {
    let account: Option<AccountId> = row.read("account_id")?;
    Ok(account.zip(row.read("host_key")?))
}

/// Returns `true` if one statement fires the batch. Otherwise it needs a transaction.
pub(in crate::store::postgres) fn is_one_statement(firings: &[Firing]) -> bool {
    firings.iter().all(Firing::is_plain)
}

/// Fires a batch. If the order has a claim, it takes the jobs of plain firings. The other jobs that
/// may start get tickets.
pub(in crate::store::postgres) async fn fire(
    connection: &mut PgConnection,
    order: FiringOrder,
    corrupt_rows: Arc<CorruptRows>,
) -> SqlResult<(Fired, ClaimedJobs, JobSecrets)> {
    let FiringOrder { ref fences, now, claim, ref firings, ref definitions } = order;
    let (plain, others): (Vec<_>, Vec<_>) =
        (0..).zip(&**firings).partition(|(_, firing)| firing.is_plain());
    let (mut rows, mut claimed) = (Vec::with_capacity(firings.len()), Vec::new());
    let (mut overlapped, mut missing) = (0, Vec::new());
    if !plain.is_empty() {
        let fences = of_shards(fences, &plain);
        let batch = FiringColumns::new(&plain);
        for row in query(&order, &fences, &batch).fetch_all(&mut *connection).await? {
            let row_of = FiredRow::from_row(&row)?;
            if claim.is_some() && row_of.job.is_some() {
                claimed.push(ClaimedRow::read(&row, definitions)?);
            }
            rows.push(row_of);
        }
        missing.extend(without_a_row(&fences, &rows));
    }
    if !others.is_empty() {
        let fences = of_shards(fences, &others);
        let (mut placed, skipped) = placed::fire(connection, &order, &fences, &others).await?;
        missing.extend(without_a_row(&fences, &placed));
        rows.append(&mut placed);
        overlapped = skipped;
    }
    // A shard that has both kinds of firings can be missing twice.
    missing.sort_unstable_by_key(|fence: &Fence| fence.shard);
    missing.dedup();
    rows.sort_unstable_by_key(|row| (row.position, row.job));
    let fenced = fenced(connection, &missing).await?;
    let FiredRows { mut tickets, held, advanced, stale } = done(now, firings, &rows, &fenced);
    // A claimed job needs no ticket.
    let of_claims: HashSet<JobId> = claimed.iter().map(|taken| taken.job).collect();
    tickets.retain(|ticket| !of_claims.contains(&ticket.job));
    let passed = still_due(connection, now, firings, &stale).await?;
    let (busy, stale) = stale.into_iter().partition(|id| passed.contains(id));
    let (claims, secrets) = split_readable(claimed, &corrupt_rows);
    let fired = Fired { tickets, held, overlapped, advanced, stale, busy, fenced };
    Ok((fired, claims, secrets))
}

/// Returns the fences of the firings' shards.
fn of_shards(fences: &[Fence], firings: &[(i64, &Firing)]) -> Vec<Fence> {
    let asked: HashSet<ShardId> = firings.iter().map(|(_, firing)| firing.shard).collect();
    fences.iter().filter(|fence| asked.contains(&fence.shard)).copied().collect()
}

/// Returns the fences of the shards that are missing in the result: their rows are locked by
/// another transaction, or they have newer leaders.
fn without_a_row(fences: &[Fence], rows: &[FiredRow]) -> Vec<Fence> {
    let found: HashSet<ShardId> = rows.iter().map(|row| row.shard).collect();
    fences.iter().filter(|fence| !found.contains(&fence.shard)).copied().collect()
}

fn query<'q>(
    order: &FiringOrder,
    fences: &[Fence],
    batch: &'q FiringColumns,
) -> Query<'q, Postgres, PgArguments> {
    let FiringOrder { now, claim, definitions, .. } = order;
    let is_asked = |id: &VersionId| claim.is_some() && definitions.of(*id).is_none();
    let asked = batch.versions.iter().map(|id| Some(*id).filter(is_asked));
    sqlx::query(faults::statement("fire", FIRE_PLAIN))
        .bind(fences.iter().map(|fence| fence.shard).collect::<Vec<_>>())
        .bind(fences.iter().map(|fence| fence.epoch.0).collect::<Vec<_>>())
        .bind(*now)
        .bind(&batch.positions)
        .bind(&batch.schedules)
        .bind(&batch.versions)
        .bind(&batch.ticks)
        .bind(&batch.next_ticks)
        .bind(&batch.job_positions)
        .bind(&batch.jobs)
        .bind(&batch.triggers)
        .bind(&batch.suspensions)
        .bind(&batch.up_to)
        .bind(&batch.job_ticks)
        .bind(claim.map(|claim| claim.executor))
        .bind(asked.collect::<Vec<_>>())
        .bind(&batch.shards)
}

/// Returns those of the shards that have a newer leader.
async fn fenced(connection: &mut PgConnection, missing: &[Fence]) -> SqlResult<Vec<ShardId>> {
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let fenced = sqlx::query_scalar(
        "SELECT l.shard FROM unnest($1::integer[], $2::bigint[]) AS l (shard, epoch)
         WHERE NOT EXISTS (SELECT FROM shards AS s WHERE s.shard = l.shard AND s.epoch = l.epoch)",
    )
    .bind(missing.iter().map(|fence| fence.shard).collect::<Vec<_>>())
    .bind(missing.iter().map(|fence| fence.epoch.0).collect::<Vec<_>>());
    Ok(fenced.fetch_all(connection).await?)
}

/// Returns those of the schedules that are still due and as they were read. After the firing, these
/// are the ones that were passed over.
async fn still_due(
    connection: &mut PgConnection,
    now: Timestamp,
    firings: &[Firing],
    stale: &[ScheduleId],
) -> SqlResult<HashSet<ScheduleId>> {
    if stale.is_empty() {
        return Ok(HashSet::new());
    }
    let due = sqlx::query_scalar(
        "SELECT st.schedule_id
         FROM unnest($1::integer[], $2::uuid[], $3::uuid[], $4::bigint[])
              AS w (shard, schedule, version, tick)
         JOIN schedule_state AS st ON st.shard = w.shard AND st.schedule_id = w.schedule
         WHERE st.schedule_id = ANY ($6) AND st.next_tick = w.tick
           AND st.version_id = w.version AND st.next_tick <= $5",
    )
    .bind(firings.iter().map(|firing| firing.shard).collect::<Vec<_>>())
    .bind(firings.iter().map(|firing| firing.schedule).collect::<Vec<_>>())
    .bind(firings.iter().map(|firing| firing.version).collect::<Vec<_>>())
    .bind(firings.iter().map(|firing| firing.tick).collect::<Vec<_>>())
    .bind(now)
    .bind(stale)
    .fetch_all(connection)
    .await?;
    Ok(due.into_iter().collect())
}

/// The result of a batch. `stale` still contains the busy schedules, which are separated later.
struct FiredRows {
    tickets: Vec<Ticket>,
    held: Vec<JobId>,
    advanced: Vec<(ScheduleId, Option<Timestamp>)>,
    stale: Vec<ScheduleId>,
}

/// Evaluates the rows of the result. Firings in fenced shards are left out of `stale`.
fn done(now: Timestamp, firings: &[Firing], rows: &[FiredRow], fenced: &[ShardId]) -> FiredRows {
    let (mut tickets, mut held) = (Vec::new(), Vec::new());
    let mut took_place = vec![false; firings.len()];
    for row in rows {
        let position = row.position.and_then(|position| usize::try_from(position).ok());
        if let Some(took_place) = position.and_then(|position| took_place.get_mut(position)) {
            *took_place = true;
        }
        match (row.job, row.ticket) {
            (Some(job), Some((account, host))) if row.starts => {
                tickets.push(Ticket { job, shard: row.shard, account, host, start: now });
            }
            (job, ..) => held.extend(job),
        }
    }
    let (mut advanced, mut stale) = (Vec::new(), Vec::new());
    for (firing, took_place) in firings.iter().zip(took_place) {
        if took_place {
            advanced.push((firing.schedule, firing.next_tick));
        } else if !fenced.contains(&firing.shard) {
            stale.push(firing.schedule);
        }
    }
    FiredRows { tickets, held, advanced, stale }
}
