//! Firing a batch, in one statement for each kind of firing.
//!
//! The fences' rows are shared-locked and each state's row locked before anything is written. Rows
//! that somebody else holds are passed over, so that the others fire on time; a second statement
//! tells them from those that have changed, and of shards from those that have a newer leader. A row that was written after the statement
//! began is taken as it is now, if it still fits; all else is seen as it was at the beginning. So
//! what decides is in the locked rows: epoch, suspensions, tick, version, switch (a disabled schedule has no
//! tick), the last tick that was fired, policy, active and held job, the range of skips that may be
//! extended. Only the open range of skips is asked elsewhere: one that was begun in that time is not
//! seen, one that somebody holds is passed over, and a new one begins.
//!
//! Most firings need less: [`statements::PLAIN`]. A batch of both kinds is one transaction.

mod batch;
mod statements;

use std::collections::HashSet;
use std::sync::Arc;

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{FromRow, PgConnection, Postgres};

use super::claims::{Secrets, Taken, sort};
use super::definitions::Known;
use super::error::Outcome;
use super::skips::counted;
use crate::domain::schedule::SKIP_COUNT_CAP;
use crate::domain::shard::ShardId;
use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp, VersionId};
use crate::store::damage::Damage;
use crate::store::{Claim, Claims, Fence, Fired, Firing};
use batch::Batch;
use statements::{ANY, PLAIN, Statement};

/// What is fired, and for whom its jobs are claimed.
#[derive(Clone)]
pub(super) struct Order {
    pub(super) fences: Arc<[Fence]>,
    pub(super) now: Timestamp,
    pub(super) claim: Option<Claim>,
    pub(super) firings: Arc<[Firing]>,
    /// The definitions that need not be read.
    pub(super) known: Arc<Known>,
}

/// A row of the answer: a firing that took place, and one of its jobs; or a shard in which none did.
#[derive(FromRow)]
struct Row {
    shard: ShardId,
    place: Option<i64>,
    #[sqlx(rename = "id")]
    job: Option<JobId>,
    /// Whether it may start.
    starts: bool,
    account_id: Option<AccountId>,
    host_key: Option<HostKey>,
    /// How many jobs of the whole batch became skips: the same in each row.
    overlapped: i64,
}

/// How many statements fire these: if more than one, they need a transaction.
pub(super) fn statements(firings: &[Firing]) -> usize {
    let plain = firings.iter().filter(|firing| firing.is_plain()).count();
    usize::from(plain > 0) + usize::from(plain < firings.len())
}

/// Fires a batch. Claimed are the jobs of the shorter statement, of the others there are tickets.
pub(super) async fn fire(
    connection: &mut PgConnection,
    order: Order,
    damage: Arc<Damage>,
) -> Outcome<(Fired, Claims, Secrets)> {
    let Order { ref fences, now, claim, ref firings, ref known } = order;
    let (plain, others): (Vec<_>, Vec<_>) =
        (0..).zip(&**firings).partition(|(_, firing)| firing.is_plain());
    let (mut rows, mut claimed) = (Vec::with_capacity(firings.len()), Vec::new());
    let (mut overlapped, mut missing) = (0, Vec::new());
    for (firings, statement, claim) in [(plain, &PLAIN, claim), (others, &ANY, None)] {
        if firings.is_empty() {
            continue;
        }
        let batch = Batch::new(&firings);
        let asked: HashSet<ShardId> = batch.shards.iter().copied().collect();
        let fences = fences.iter().filter(|fence| asked.contains(&fence.shard));
        let fences: Vec<Fence> = fences.copied().collect();
        let order = Order { claim, ..order.clone() };
        let fired = query(statement, &order, &fences, &batch).fetch_all(&mut *connection).await?;
        let first = rows.len();
        for row in fired {
            let row_of = Row::from_row(&row)?;
            overlapped = row_of.overlapped.unsigned_abs().max(overlapped);
            if claim.is_some() && row_of.job.is_some() {
                claimed.push(Taken::read(&row, known)?);
            }
            rows.push(row_of);
        }
        // A shard without a row is held by somebody, or has a newer leader.
        let found: HashSet<ShardId> = rows[first..].iter().map(|row| row.shard).collect();
        missing.extend(fences.into_iter().filter(|fence| !found.contains(&fence.shard)));
        missing.sort_unstable_by_key(|fence: &Fence| fence.shard);
        missing.dedup();
    }
    rows.sort_unstable_by_key(|row| (row.place, row.job));
    let fenced = fenced(connection, &missing).await?;
    let Done { mut tickets, held, advanced, stale } = done(now, firings, &rows, &fenced);
    let of_claims: HashSet<JobId> = claimed.iter().map(|taken| taken.job).collect();
    tickets.retain(|ticket| !of_claims.contains(&ticket.job));
    let passed = still_due(connection, now, firings, &stale).await?;
    let (busy, stale) = stale.into_iter().partition(|id| passed.contains(id));
    let (claims, secrets) = sort(claimed, &damage);
    let fired = Fired { tickets, held, overlapped, advanced, stale, busy, fenced };
    Ok((fired, claims, secrets))
}

fn query<'q>(
    statement: &'static Statement,
    order: &Order,
    fences: &[Fence],
    batch: &'q Batch,
) -> Query<'q, Postgres, PgArguments> {
    let Order { now, claim, known, .. } = order;
    let query = sqlx::query(statement.text())
        .bind(fences.iter().map(|fence| fence.shard).collect::<Vec<_>>())
        .bind(fences.iter().map(|fence| fence.epoch.0).collect::<Vec<_>>())
        .bind(*now)
        .bind(&batch.places)
        .bind(&batch.schedules)
        .bind(&batch.versions)
        .bind(&batch.ticks)
        .bind(&batch.next_ticks)
        .bind(&batch.job_places)
        .bind(&batch.jobs)
        .bind(&batch.triggers)
        .bind(&batch.suspensions)
        .bind(&batch.up_to)
        .bind(&batch.job_ticks);
    if !statement.places {
        let is_asked = |id: &VersionId| claim.is_some() && known.of(*id).is_none();
        let asked = batch.versions.iter().map(|id| Some(*id).filter(is_asked));
        return query
            .bind(claim.map(|claim| claim.executor))
            .bind(asked.collect::<Vec<_>>())
            .bind(&batch.shards);
    }
    query
        .bind(&batch.skip_places)
        .bind(&batch.skips_from)
        .bind(&batch.skips_to)
        .bind(&batch.skip_counts)
        .bind(&batch.reasons)
        .bind(counted(SKIP_COUNT_CAP))
        .bind(&batch.shards)
}

/// Those of the shards that have a newer leader.
async fn fenced(connection: &mut PgConnection, missing: &[Fence]) -> Outcome<Vec<ShardId>> {
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

/// Those of the schedules that are as they were read: after firing, those that were passed over.
async fn still_due(
    connection: &mut PgConnection,
    now: Timestamp,
    firings: &[Firing],
    stale: &[ScheduleId],
) -> Outcome<HashSet<ScheduleId>> {
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

/// What a batch has done, before it is known why some of it was not.
struct Done {
    tickets: Vec<Ticket>,
    held: Vec<JobId>,
    advanced: Vec<(ScheduleId, Option<Timestamp>)>,
    stale: Vec<ScheduleId>,
}

/// What the rows say.
fn done(now: Timestamp, firings: &[Firing], rows: &[Row], fenced: &[ShardId]) -> Done {
    let (mut tickets, mut held) = (Vec::new(), Vec::new());
    let mut took_place = vec![false; firings.len()];
    for row in rows {
        let place = row.place.and_then(|place| usize::try_from(place).ok());
        if let Some(took_place) = place.and_then(|place| took_place.get_mut(place)) {
            *took_place = true;
        }
        match (row.job, row.account_id, row.host_key) {
            (Some(job), Some(account), Some(host)) if row.starts => {
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
    Done { tickets, held, advanced, stale }
}
