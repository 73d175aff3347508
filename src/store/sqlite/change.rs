//! Changing a schedule.

use sqlx::{FromRow, SqliteConnection};

use super::definition::{insert_versions, retire_version, version_rows};
use super::overlap;
use super::skips::{self, NewSkip};
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

/// What a change has to know of the stored schedule.
#[derive(FromRow)]
struct Stored {
    shard: ShardId,
    version_id: VersionId,
    overlap_policy: OverlapPolicy,
    revision: i64,
    next_tick: Option<Timestamp>,
    held_job_id: Option<JobId>,
}

/// Applies a change if the schedule is still as it was read.
pub(super) async fn change(
    connection: &mut SqliteConnection,
    write: Write,
    id: ScheduleId,
    change: Change,
) -> Outcome<Changed> {
    admit(&mut Connection::from(&mut *connection), write.account, "").await?;
    let stored: Option<Stored> = sqlx::query_as(
        "SELECT s.shard, s.version_id, s.overlap_policy, s.revision, st.next_tick, st.held_job_id
         FROM schedules AS s
         JOIN schedule_state AS st ON st.shard = s.shard AND st.schedule_id = s.id
         WHERE s.id = ?1 AND s.account_id = ?2",
    )
    .bind(id)
    .bind(write.account)
    .fetch_optional(&mut *connection)
    .await?;
    let Some(stored) = stored else {
        return Ok(Changed::NotFound);
    };
    if change.expected != (Expected { revision: stored.revision, next_tick: stored.next_tick }) {
        return Ok(Changed::Stale);
    }
    if let Some(version) = &change.version {
        insert_versions(connection, write, version_rows([(id, version)])).await?;
        retire_version(connection, write, stored.version_id).await?;
    }
    update_rows(connection, write, id, &change, &stored).await?;
    if let Some(range) = change.superseded {
        let reason = SkipReason::Superseded;
        let skip = NewSkip { account: write.account, schedule: id, range, reason };
        skips::record(connection, skip).await?;
    }
    audit::record(&mut Connection::from(&mut *connection), write, change.action, [id]).await?;
    Ok(Changed::Done(follow_policy(connection, write, id, &change, &stored).await?))
}

async fn update_rows(
    connection: &mut SqliteConnection,
    write: Write,
    id: ScheduleId,
    change: &Change,
    stored: &Stored,
) -> Outcome<()> {
    sqlx::query(
        "UPDATE schedules SET name = ?3, description = ?4, version_id = ?5, is_enabled = ?6,
             overlap_policy = ?7, catch_up_policy = ?8, revision = revision + 1, updated_at = ?9
         WHERE id = ?1 AND account_id = ?2",
    )
    .bind(id)
    .bind(write.account)
    .bind(&change.name)
    .bind(&change.description)
    .bind(change.version.as_ref().map_or(stored.version_id, |version| version.id))
    .bind(change.is_enabled)
    .bind(change.overlap_policy)
    .bind(change.catch_up_policy)
    .bind(write.now)
    .execute(&mut *connection)
    .await?;
    sqlx::query("UPDATE schedule_state SET next_tick = ?3 WHERE shard = ?1 AND schedule_id = ?2")
        .bind(stored.shard)
        .bind(id)
        .bind(next_tick(change.is_enabled, change.next_tick))
        .execute(connection)
        .await?;
    Ok(())
}

/// What a change of the overlap policy means for the active and the held job.
async fn follow_policy(
    connection: &mut SqliteConnection,
    write: Write,
    id: ScheduleId,
    change: &Change,
    stored: &Stored,
) -> Outcome<Vec<Ticket>> {
    let allowed = stored.overlap_policy == OverlapPolicy::Allow;
    let allows = change.overlap_policy == OverlapPolicy::Allow;
    if allowed && !allows {
        overlap::find_active(connection, write.account, stored.shard, id).await?;
    }
    if !allowed && allows {
        return overlap::allow(connection, write.now, stored.shard, id, stored.held_job_id).await;
    }
    Ok(Vec::new())
}
