//! Reads and replaces the notification preferences of schedules.

use std::collections::HashMap;

use sqlx::AssertSqlSafe;

use crate::domain::alert::policy::AlertPolicy;
use crate::domain::audit::Action;
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, ChannelId, ScheduleId};
use crate::store::contract::preferences::{PreferenceRow, policy_columns};
use crate::store::sql;
use crate::store::sql::account_lock::admit;
use crate::store::sql::audit;
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::encoding::batch_rows::{ColumnType, batch_row, json, json_ids};
use crate::store::sql::encoding::hex::Hex;
use crate::store::sql::encoding::rows::read_rows;
use crate::store::sql::error::SqlResult;
use crate::store::{
    AttachedChannel, ChannelUses, NewPreference, PreferenceSet, StoredPreference, WriteContext,
};

/// Returns the preference of a schedule; `None` if the account has no such schedule.
pub(in crate::store) async fn preference(
    connection: &mut Connection<'_>,
    account: AccountId,
    schedule: ScheduleId,
) -> SqlResult<Option<StoredPreference>> {
    let known: bool = sql::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM schedules WHERE id = $2 AND account_id = $1
             AND EXISTS (SELECT 1 FROM accounts WHERE id = $1))",
    )
    .bind(account)
    .bind(schedule)
    .fetch_one(&mut *connection)
    .await?;
    if !known {
        return Ok(None);
    }
    let stored: Option<PreferenceRow> = sql::query_as(
        "SELECT notify_on, failure_threshold, notify_on_recovery, repeat_every_minutes, detached
         FROM notification_preferences WHERE schedule_id = $2 AND account_id = $1",
    )
    .bind(account)
    .bind(schedule)
    .fetch_optional(&mut *connection)
    .await?;
    let Some(PreferenceRow { policy, detached }) = stored else {
        return Ok(Some(StoredPreference::default()));
    };
    let channels: Vec<AttachedChannel> = sql::query_as(
        "SELECT c.id, c.type, c.label, c.verified, c.created_at, c.updated_at, c.trouble
         FROM preference_channels AS p JOIN notification_channels AS c ON c.id = p.channel_id
         WHERE p.account_id = $1 AND p.schedule_id = $2 AND c.account_id = $1 ORDER BY p.number",
    )
    .bind(account)
    .bind(schedule)
    .fetch_all(connection)
    .await?;
    Ok(Some(StoredPreference { policy, channels, detached }))
}

/// Replaces the preference of a schedule, and copies its policy to the state of the schedule, where
/// commits read it.
pub(in crate::store) async fn set_preference(
    connection: &mut Connection<'_>,
    write: WriteContext,
    schedule: ScheduleId,
    new: NewPreference,
) -> SqlResult<PreferenceSet> {
    admit(connection, write.account, connection.dialect().shared_lock()).await?;
    let in_turn = connection.dialect().exclusive_lock();
    let held = format!("SELECT shard FROM schedules WHERE id = $1 AND account_id = $2 {in_turn}");
    let held = sql::query_scalar(AssertSqlSafe(held)).bind(schedule).bind(write.account);
    let shard: Option<ShardId> = held.fetch_optional(&mut *connection).await?;
    let Some(shard) = shard else { return Ok(PreferenceSet::NoSuchSchedule) };
    if let Some(refused) = refused(connection, write.account, &new.channels).await? {
        return Ok(refused);
    }
    let (alert_on, threshold, repeat) = policy_columns(new.policy);
    sql::query(
        "UPDATE schedule_state SET alert_on = $3, alert_threshold = $4, alert_repeat_minutes = $5,
             alerted_at = CASE WHEN CAST($3 AS smallint) IS NULL THEN NULL ELSE alerted_at END
         WHERE shard = $1 AND schedule_id = $2",
    )
    .bind(shard)
    .bind(schedule)
    .bind(alert_on)
    .bind(threshold)
    .bind(repeat)
    .execute(&mut *connection)
    .await?;
    clear_preferences(connection, write.account, &[schedule]).await?;
    insert(connection, write, schedule, &new).await?;
    audit::record(connection, write, Action::PreferenceSet, [schedule]).await?;
    Ok(PreferenceSet::Done)
}

/// Returns the first channel that cannot be attached, with the reason. Locks the channels, so that
/// none is deleted before the transaction ends.
async fn refused(
    connection: &mut Connection<'_>,
    account: AccountId,
    channels: &[ChannelId],
) -> SqlResult<Option<PreferenceSet>> {
    if channels.is_empty() {
        return Ok(None);
    }
    let beside = connection.dialect().shared_lock();
    let query = format!(
        "SELECT id, verified FROM notification_channels WHERE account_id = $1 AND {}
         ORDER BY id {beside}",
        connection.dialect().among("id", ColumnType::Id, "$2")
    );
    let query = sql::query_as(AssertSqlSafe(query)).bind(account);
    let query = query.bind(json_ids(channels.iter().map(|id| id.to_bytes())));
    let found: Vec<(ChannelId, bool)> = query.fetch_all(connection).await?;
    let found: HashMap<ChannelId, bool> = found.into_iter().collect();
    Ok(channels.iter().find_map(|id| match found.get(id) {
        None => Some(PreferenceSet::NoSuchChannel(*id)),
        Some(false) => Some(PreferenceSet::Unverified(*id)),
        Some(true) => None,
    }))
}

/// Deletes the preferences of schedules of an account.
pub(in crate::store) async fn clear_preferences(
    connection: &mut Connection<'_>,
    account: AccountId,
    schedules: &[ScheduleId],
) -> SqlResult<()> {
    let ids = json_ids(schedules.iter().map(|id| id.to_bytes()));
    // The deletion of a channel changes the tables in the same order, which avoids deadlocks.
    for table in ["notification_preferences", "preference_channels"] {
        let among = connection.dialect().among("schedule_id", ColumnType::Id, "$2");
        let statement = format!("DELETE FROM {table} WHERE account_id = $1 AND {among}");
        let query = sql::query(AssertSqlSafe(statement)).bind(account).bind(ids.clone());
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

batch_row! {
    /// A channel of a preference, as a row to be written.
    AttachedRow { channel: Hex, number: u16 }
}

/// Inserts a preference with its channels.
async fn insert(
    connection: &mut Connection<'_>,
    write: WriteContext,
    schedule: ScheduleId,
    new: &NewPreference,
) -> SqlResult<()> {
    let policy = new.policy;
    sql::query(
        "INSERT INTO notification_preferences
             (schedule_id, account_id, notify_on, failure_threshold, notify_on_recovery,
              repeat_every_minutes)
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(schedule)
    .bind(write.account)
    .bind(policy.notify_on)
    .bind(policy.failure_threshold.cast_signed())
    .bind(policy.notify_on_recovery)
    .bind(policy.repeat_every_minutes.map(u32::cast_signed))
    .execute(&mut *connection)
    .await?;
    let attached = new.channels.iter().zip(0..);
    let attached: Vec<_> =
        attached.map(|(id, number)| AttachedRow { channel: Hex(id.to_bytes()), number }).collect();
    let statement = format!(
        "INSERT INTO preference_channels (schedule_id, number, account_id, channel_id)
         SELECT $1, r.number, $2, r.channel FROM {}",
        connection.dialect().rows::<AttachedRow>("$3")
    );
    sql::query(AssertSqlSafe(statement))
        .bind(schedule)
        .bind(write.account)
        .bind(json(&attached))
        .run(connection)
        .await
}

/// The index that finds the schedules of a channel.
const BY_CHANNEL: &str = "preference_channels_channel";

/// Returns the statement that counts the schedules of an account that name a channel. Parameters:
/// account, channel.
pub(in crate::store) fn count_uses(dialect: Dialect) -> String {
    let index = dialect.indexed_by(BY_CHANNEL);
    format!(
        "SELECT count(*) FROM preference_channels AS p {index}
         WHERE p.channel_id = $2 AND p.account_id = $1
           AND EXISTS (SELECT 1 FROM accounts WHERE id = $1)"
    )
}

/// Returns the statement that reads the schedules of an account that name a channel. Parameters:
/// account, channel, number of rows.
pub(in crate::store) fn uses(dialect: Dialect) -> String {
    let (index, join) = (dialect.indexed_by(BY_CHANNEL), dialect.ordered_join());
    format!(
        "SELECT s.id, s.name FROM preference_channels AS p {index}
             {join} schedules AS s ON s.id = p.schedule_id
         WHERE p.channel_id = $2 AND p.account_id = $1 AND s.account_id = $1
           AND EXISTS (SELECT 1 FROM accounts WHERE id = $1)
         ORDER BY p.schedule_id DESC LIMIT $3"
    )
}

/// Counts and reads the schedules whose preferences name a channel, on one snapshot.
pub(in crate::store) async fn channel_uses(
    connection: &mut Connection<'_>,
    account: AccountId,
    channel: ChannelId,
    limit: u32,
) -> SqlResult<ChannelUses> {
    let count = sql::query_scalar(AssertSqlSafe(count_uses(connection.dialect())));
    let count = count.bind(account).bind(channel);
    let total: i64 = count.fetch_one(&mut *connection).await?;
    let uses = sql::query_as(AssertSqlSafe(uses(connection.dialect())));
    let uses = uses.bind(account).bind(channel).bind(i64::from(limit));
    Ok(ChannelUses { schedules: uses.fetch_all(connection).await?, total: total.unsigned_abs() })
}

read_rows! {
    AlertPolicy {
        notify_on, failure_threshold as i32, notify_on_recovery,
        repeat_every_minutes as Option<i32>,
    }
    AttachedChannel { channel: _, trouble }
    PreferenceRow { policy: _, detached }
}
