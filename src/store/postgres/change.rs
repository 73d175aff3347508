//! Changing a schedule.

use std::sync::Arc;

use sqlx::{FromRow, PgConnection};

use super::definition::{insert_versions, retire_version};
use super::overlap;
use super::skips;
use crate::domain::schedule::{OverlapPolicy, SkipReason};
use crate::domain::shard::ShardId;
use crate::domain::ticket::Ticket;
use crate::domain::{JobId, ScheduleId, Timestamp, VersionId};
use crate::store::schedules::next_tick;
use crate::store::sql::account_lock::admit;
use crate::store::sql::audit;
use crate::store::sql::connection::Connection;
use crate::store::sql::fault::Outcome;
use crate::store::{Change, Changed, Expected, Write};

/// What a change has to know of the schedule's row.
#[derive(FromRow)]
struct Stored {
    shard: ShardId,
    version_id: VersionId,
    overlap_policy: OverlapPolicy,
    revision: i64,
}

/// Applies a change if the schedule is still as it was read.
pub(super) async fn change(
    connection: &mut PgConnection,
    write: Write,
    id: ScheduleId,
    change: Arc<Change>,
) -> Outcome<Changed> {
    admit(&mut Connection::from(&mut *connection), write.account, "FOR KEY SHARE").await?;
    let stored: Option<Stored> = sqlx::query_as(
        "SELECT shard, version_id, overlap_policy, revision FROM schedules
         WHERE id = $1 AND account_id = $2 FOR NO KEY UPDATE",
    )
    .bind(id)
    .bind(write.account)
    .fetch_optional(&mut *connection)
    .await?;
    let Some(stored) = stored else {
        return Ok(Changed::NotFound);
    };
    let (tick, held): (Option<Timestamp>, Option<JobId>) = sqlx::query_as(
        "SELECT next_tick, held_job_id FROM schedule_state
         WHERE shard = $1 AND schedule_id = $2 FOR NO KEY UPDATE",
    )
    .bind(stored.shard)
    .bind(id)
    .fetch_one(&mut *connection)
    .await?;
    if change.expected != (Expected { revision: stored.revision, next_tick: tick }) {
        return Ok(Changed::Stale);
    }
    if let Some(version) = &change.version {
        insert_versions(connection, write, &[(id, version)]).await?;
        retire_version(connection, write, stored.version_id).await?;
    }
    update_rows(connection, write, id, &change, &stored).await?;
    if let Some(range) = change.superseded {
        let key = (stored.shard, id);
        skips::record(connection, write.account, key, range, SkipReason::Superseded).await?;
    }
    audit::record(&mut Connection::from(&mut *connection), write, change.action, [id]).await?;
    Ok(Changed::Done(follow_policy(connection, write, id, &change, &stored, held).await?))
}

async fn update_rows(
    connection: &mut PgConnection,
    write: Write,
    id: ScheduleId,
    change: &Change,
    stored: &Stored,
) -> Outcome<()> {
    let version = change.version.as_ref();
    sqlx::query(
        "UPDATE schedules SET name = $3, description = $4, version_id = $5, is_enabled = $6,
             overlap_policy = $7, catch_up_policy = $8, revision = revision + 1, updated_at = $9
         WHERE id = $1 AND account_id = $2",
    )
    .bind(id)
    .bind(write.account)
    .bind(&change.name)
    .bind(&change.description)
    .bind(version.map_or(stored.version_id, |version| version.id))
    .bind(change.is_enabled)
    .bind(change.overlap_policy)
    .bind(change.catch_up_policy)
    .bind(write.now)
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "UPDATE schedule_state SET next_tick = $3, overlap_policy = $4,
             version_id = coalesce($5, version_id), host_key = coalesce($6, host_key),
             max_attempts = coalesce($7, max_attempts)
         WHERE shard = $1 AND schedule_id = $2",
    )
    .bind(stored.shard)
    .bind(id)
    .bind(next_tick(change.is_enabled, change.next_tick))
    .bind(change.overlap_policy)
    .bind(version.map(|version| version.id))
    .bind(version.map(|version| version.host))
    .bind(version.map(|version| i16::from(version.definition.max_retries)))
    .execute(connection)
    .await?;
    Ok(())
}

/// What a change of the overlap policy means for the active and the held job.
async fn follow_policy(
    connection: &mut PgConnection,
    write: Write,
    id: ScheduleId,
    change: &Change,
    stored: &Stored,
    held: Option<JobId>,
) -> Outcome<Vec<Ticket>> {
    let allowed = stored.overlap_policy == OverlapPolicy::Allow;
    let allows = change.overlap_policy == OverlapPolicy::Allow;
    if allowed && !allows {
        overlap::find_active(connection, write.account, stored.shard, id).await?;
    }
    if !allowed && allows {
        return overlap::allow(connection, write.now, stored.shard, id, held).await;
    }
    Ok(Vec::new())
}
