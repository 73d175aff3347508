//! Changes of a schedule.

use std::sync::Arc;

use sqlx::AssertSqlSafe;

use super::skips::{self, NewSkip};
use super::versions::{insert_versions, retire_version};
use crate::domain::schedule::{OverlapPolicy, SkipReason};
use crate::domain::shard::ShardId;
use crate::domain::ticket::Ticket;
use crate::domain::{JobId, ScheduleId, Timestamp, VersionId};
use crate::store::contract::schedules::next_tick;
use crate::store::sql::account_lock::admit;
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::error::SqlResult;
use crate::store::sql::jobs::overlap;
use crate::store::sql::{self, audit};
use crate::store::{ExpectedState, ScheduleChangeResult, ScheduleState, WriteContext};

/// Applies a change if the schedule has not changed since it was read.
pub(super) async fn change(
    connection: &mut Connection<'_>,
    write: WriteContext,
    id: ScheduleId,
    change: Arc<ScheduleState>,
) -> SqlResult<ScheduleChangeResult> {
    let dialect = connection.dialect();
    admit(connection, write.account, dialect.shared_lock()).await?;
    let lock = dialect.exclusive_lock();
    let stored = sql::query_as(AssertSqlSafe(format!(
        "SELECT shard, version_id, overlap_policy, revision FROM schedules
         WHERE id = $1 AND account_id = $2 {lock}"
    )));
    let stored = stored.bind(id).bind(write.account).fetch_optional(connection).await?;
    let Some(stored) = stored else {
        return Ok(ScheduleChangeResult::NotFound);
    };
    let (shard, version, policy, revision): (ShardId, VersionId, OverlapPolicy, i64) = stored;
    let state = sql::query_as(AssertSqlSafe(format!(
        "SELECT next_tick, held_job_id FROM schedule_state
         WHERE shard = $1 AND schedule_id = $2 {lock}"
    )));
    let (tick, held): (Option<Timestamp>, Option<JobId>) =
        state.bind(shard).bind(id).fetch_one(connection).await?;
    if change.expected != (ExpectedState { revision, next_tick: tick }) {
        return Ok(ScheduleChangeResult::Stale);
    }
    if let Some(new) = &change.version {
        insert_versions(dialect, write, [(id, new)]).execute(connection).await?;
        retire_version(write, version).execute(connection).await?;
    }
    update_schedule(write, id, &change, version).execute(connection).await?;
    update_state(dialect, (shard, id), &change).execute(connection).await?;
    if let Some(range) = change.superseded {
        let (account, reason) = (write.account, SkipReason::Superseded);
        skips::record(connection, NewSkip { account, shard, schedule: id, range, reason }).await?;
    }
    audit::record(connection, write, change.action, [id]).await?;
    let policies = (policy, change.overlap_policy);
    Ok(ScheduleChangeResult::Done(
        follow_policy(connection, write, (shard, id), policies, held).await?,
    ))
}

fn update_schedule(
    write: WriteContext,
    id: ScheduleId,
    change: &ScheduleState,
    version: VersionId,
) -> sql::Query {
    sql::query(
        "UPDATE schedules SET name = $3, description = $4, version_id = $5, is_enabled = $6,
             overlap_policy = $7, catch_up_policy = $8, revision = revision + 1, updated_at = $9,
             pause_note = $10, paused_by = $11, paused_at = $12
         WHERE id = $1 AND account_id = $2",
    )
    .bind(id)
    .bind(write.account)
    .bind(change.name.clone())
    .bind(change.description.clone())
    .bind(change.version.as_ref().map_or(version, |version| version.id))
    .bind(change.is_enabled)
    .bind(change.overlap_policy)
    .bind(change.catch_up_policy)
    .bind(write.now)
    .bind(change.pause.as_ref().map(|pause| pause.text.clone()))
    .bind(change.pause.as_ref().map(|pause| pause.author.clone()))
    .bind(change.pause.as_ref().map(|pause| pause.at))
}

fn update_state(
    dialect: Dialect,
    (shard, schedule): (ShardId, ScheduleId),
    change: &ScheduleState,
) -> sql::Query {
    let update = sql::query(match dialect {
        Dialect::Postgres => {
            "UPDATE schedule_state SET next_tick = $3, overlap_policy = $4,
                 version_id = coalesce($5, version_id), host_key = coalesce($6, host_key),
                 max_attempts = coalesce($7, max_attempts)
             WHERE shard = $1 AND schedule_id = $2"
        }
        Dialect::Sqlite => {
            "UPDATE schedule_state SET next_tick = $3 WHERE shard = $1 AND schedule_id = $2"
        }
    });
    let update =
        update.bind(shard).bind(schedule).bind(next_tick(change.is_enabled, change.next_tick));
    if dialect == Dialect::Sqlite {
        return update;
    }
    let version = change.version.as_ref();
    update
        .bind(change.overlap_policy)
        .bind(version.map(|version| version.id))
        .bind(version.map(|version| version.host))
        .bind(version.map(|version| i16::from(version.definition.max_retries)))
}

/// Updates the active and the held job after the overlap policy has changed from the first to the
/// second one.
async fn follow_policy(
    connection: &mut Connection<'_>,
    write: WriteContext,
    (shard, schedule): (ShardId, ScheduleId),
    policies: (OverlapPolicy, OverlapPolicy),
    held: Option<JobId>,
) -> SqlResult<Vec<Ticket>> {
    match policies {
        (OverlapPolicy::Allow, OverlapPolicy::Allow) => {}
        (OverlapPolicy::Allow, _) => {
            overlap::find_active(connection, write.account, shard, schedule).await?;
        }
        (_, OverlapPolicy::Allow) => {
            return overlap::allow(connection, write.now, shard, schedule, held).await;
        }
        _ => {}
    }
    Ok(Vec::new())
}
