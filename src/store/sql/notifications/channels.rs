//! Creates, changes, verifies and deletes the notification channels of accounts.

use sqlx::AssertSqlSafe;

use crate::domain::audit::Action;
use crate::domain::channel::Channel;
use crate::domain::{AccountId, ChannelId, Timestamp};
use crate::store::encryption::encrypted_fields::EncryptedFields;

use crate::store::sql;
use crate::store::sql::account_lock::{admit, admit_more, lock};
use crate::store::sql::audit;
use crate::store::sql::connection::Connection;
use crate::store::sql::encoding::rows::read_rows;
use crate::store::sql::error::SqlResult;
use crate::store::{
    ChannelChanged, ChannelCreated, StoredChannel, TESTS_PER_HOUR, TestAllowance, WriteContext,
};

/// The window in which test notifications of a channel are counted, in milliseconds.
const HOUR_MS: i64 = 3_600_000;

/// A change of a channel, with its configuration encrypted.
#[derive(Clone, Debug)]
pub(in crate::store) struct SealedChange {
    pub(in crate::store) label: Option<String>,
    pub(in crate::store) config: Option<String>,
    pub(in crate::store) keeps_verified: bool,
}

/// Stores a channel whose configuration is encrypted.
pub(in crate::store) async fn create_channel(
    connection: &mut Connection<'_>,
    write: WriteContext,
    channel: Channel,
    config: String,
    most: Option<u64>,
) -> SqlResult<ChannelCreated> {
    let refused = admit_more(connection, write.account, "notification_channels", 1, most).await?;
    if let Some(current) = refused {
        return Ok(ChannelCreated::TooMany { current });
    }
    sql::query(
        "INSERT INTO notification_channels
             (id, account_id, type, label, config, revision, verified, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, 1, $6, $7, $7)",
    )
    .bind(channel.id)
    .bind(write.account)
    .bind(channel.kind)
    .bind(channel.label)
    .bind(config)
    .bind(false)
    .bind(write.now)
    .execute(&mut *connection)
    .await?;
    audit::record(connection, write, Action::ChannelCreated, [channel.id]).await?;
    Ok(ChannelCreated::Done)
}

/// Returns all channels of an account, newest first.
pub(in crate::store) async fn channels(
    connection: &mut Connection<'_>,
    account: AccountId,
) -> SqlResult<Vec<Channel>> {
    let query = "SELECT id, type, label, verified, created_at, updated_at
         FROM notification_channels
         WHERE account_id = $1 AND EXISTS (SELECT 1 FROM accounts WHERE id = $1)
         ORDER BY id DESC";
    sql::query_as(query).bind(account).fetch_all(connection).await
}

/// Returns one channel, with its configuration encrypted.
pub(in crate::store) async fn channel(
    connection: &mut Connection<'_>,
    account: AccountId,
    id: ChannelId,
) -> SqlResult<Option<ChannelRow>> {
    let query = "SELECT id, type, label, verified, created_at, updated_at, config, revision
         FROM notification_channels
         WHERE id = $2 AND account_id = $1 AND EXISTS (SELECT 1 FROM accounts WHERE id = $1)";
    sql::query_as(query).bind(account).bind(id).fetch_optional(connection).await
}

/// The columns that a change of a locked channel needs.
struct LockedChannel {
    label: String,
    revision: i64,
    verified: bool,
    tries_since: Timestamp,
    tries: i32,
}

read_rows! {
    LockedChannel { label, revision, verified, tries_since, tries }
}

/// Locks a channel and reads the columns that a change needs.
async fn lock_channel(
    connection: &mut Connection<'_>,
    account: AccountId,
    id: ChannelId,
) -> SqlResult<Option<LockedChannel>> {
    let in_turn = connection.dialect().exclusive_lock();
    let query = format!(
        "SELECT label, revision, verified, tries_since, tries FROM notification_channels
         WHERE id = $1 AND account_id = $2 {in_turn}"
    );
    let query = sql::query_as(AssertSqlSafe(query)).bind(id).bind(account);
    query.fetch_optional(connection).await
}

/// Changes a channel if its configuration still has this revision.
pub(in crate::store) async fn change_channel(
    connection: &mut Connection<'_>,
    write: WriteContext,
    id: ChannelId,
    revision: i64,
    change: SealedChange,
) -> SqlResult<ChannelChanged> {
    admit(connection, write.account, connection.dialect().shared_lock()).await?;
    let Some(held) = lock_channel(connection, write.account, id).await? else {
        return Ok(ChannelChanged::NotFound);
    };
    if change.config.is_some() && held.revision != revision {
        return Ok(ChannelChanged::Stale);
    }
    let loses = change.config.is_some() && !change.keeps_verified;
    sql::query(
        "UPDATE notification_channels SET
             label = $3, config = coalesce($4, config),
             revision = CASE WHEN CAST($4 AS text) IS NULL THEN revision ELSE revision + 1 END,
             trouble = CASE WHEN $5 THEN NULL ELSE trouble END,
             verified = $6, updated_at = $7
         WHERE id = $1 AND account_id = $2",
    )
    .bind(id)
    .bind(write.account)
    .bind(change.label.unwrap_or(held.label))
    .bind(change.config)
    .bind(loses)
    .bind(held.verified && !loses)
    .bind(write.now)
    .execute(&mut *connection)
    .await?;
    if loses {
        wake(connection, write.account, id, write.now).await?;
    }
    let action =
        if change.keeps_verified { Action::ChannelSecretRotated } else { Action::ChannelUpdated };
    audit::record(connection, write, action, [id]).await?;
    Ok(ChannelChanged::Done)
}

/// Makes all held and waiting deliveries of a channel due now and ends the channel's incidents. The
/// channel is deleted or not verified, so the next claim fails the deliveries with this reason.
pub(in crate::store) async fn wake(
    connection: &mut Connection<'_>,
    account: AccountId,
    id: ChannelId,
    now: Timestamp,
) -> SqlResult<()> {
    sql::query(
        "UPDATE notification_deliveries SET status = 1, wake_at = $3
         WHERE account_id = $1 AND channel_id = $2 AND status < 2",
    )
    .bind(account)
    .bind(id)
    .bind(now)
    .execute(&mut *connection)
    .await?;
    for statement in [
        "DELETE FROM incident_schedules WHERE account_id = $1 AND incident_id IN
             (SELECT id FROM notification_incidents WHERE account_id = $1 AND channel_id = $2)",
        "DELETE FROM notification_incidents WHERE account_id = $1 AND channel_id = $2",
    ] {
        sql::query(statement).bind(account).bind(id).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Deletes a channel and detaches it from all preferences.
pub(in crate::store) async fn delete_channel(
    connection: &mut Connection<'_>,
    write: WriteContext,
    id: ChannelId,
) -> SqlResult<bool> {
    admit(connection, write.account, connection.dialect().shared_lock()).await?;
    let query = "DELETE FROM notification_channels WHERE id = $1 AND account_id = $2
         RETURNING label";
    let query = sql::query_scalar(query).bind(id).bind(write.account);
    let label: Option<String> = query.fetch_optional(&mut *connection).await?;
    let Some(label) = label else { return Ok(false) };
    sql::query(
        "UPDATE notification_preferences SET detached = $3
         WHERE account_id = $1 AND schedule_id IN
             (SELECT schedule_id FROM preference_channels
              WHERE account_id = $1 AND channel_id = $2)",
    )
    .bind(write.account)
    .bind(id)
    .bind(label)
    .execute(&mut *connection)
    .await?;
    sql::query("DELETE FROM preference_channels WHERE account_id = $1 AND channel_id = $2")
        .bind(write.account)
        .bind(id)
        .execute(&mut *connection)
        .await?;
    wake(connection, write.account, id, write.now).await?;
    audit::record(connection, write, Action::ChannelDeleted, [id]).await?;
    Ok(true)
}

/// Counts a test notification, unless the channel has reached [`TESTS_PER_HOUR`].
pub(in crate::store) async fn count_test(
    connection: &mut Connection<'_>,
    account: AccountId,
    id: ChannelId,
    now: Timestamp,
) -> SqlResult<TestAllowance> {
    admit(connection, account, connection.dialect().shared_lock()).await?;
    let Some(held) = lock_channel(connection, account, id).await? else {
        return Ok(TestAllowance::NotFound);
    };
    let over = Timestamp::from_millis(held.tries_since.as_millis().saturating_add(HOUR_MS));
    let (since, tries) = if now >= over { (now, 0) } else { (held.tries_since, held.tries) };
    if tries.unsigned_abs() >= TESTS_PER_HOUR {
        return Ok(TestAllowance::No { reset_at: over });
    }
    sql::query(
        "UPDATE notification_channels SET tries_since = $3, tries = $4
         WHERE id = $1 AND account_id = $2",
    )
    .bind(id)
    .bind(account)
    .bind(since)
    .bind(tries + 1)
    .execute(connection)
    .await?;
    Ok(TestAllowance::Yes)
}

/// Marks a channel as verified if its configuration still has this revision.
pub(in crate::store) async fn verify_channel(
    connection: &mut Connection<'_>,
    write: WriteContext,
    id: ChannelId,
    revision: i64,
    config: Option<String>,
) -> SqlResult<ChannelChanged> {
    admit(connection, write.account, connection.dialect().shared_lock()).await?;
    let Some(held) = lock_channel(connection, write.account, id).await? else {
        return Ok(ChannelChanged::NotFound);
    };
    if held.revision != revision {
        return Ok(ChannelChanged::Stale);
    }
    sql::query(
        "UPDATE notification_channels SET verified = $4, trouble = NULL,
             config = coalesce($5, config),
             revision = CASE WHEN CAST($5 AS text) IS NULL THEN revision ELSE revision + 1 END,
             paused_until = 0, updated_at = $3
         WHERE id = $1 AND account_id = $2",
    )
    .bind(id)
    .bind(write.account)
    .bind(write.now)
    .bind(true)
    .bind(config)
    .execute(&mut *connection)
    .await?;
    audit::record(connection, write, Action::ChannelVerified, [id]).await?;
    Ok(ChannelChanged::Done)
}

/// Takes `verified` away from a channel. This also works for a suspended account, because a
/// recipient must be able to unsubscribe at any time.
pub(in crate::store) async fn unverify_channel(
    connection: &mut Connection<'_>,
    write: WriteContext,
    id: ChannelId,
    trouble: String,
) -> SqlResult<bool> {
    if !lock(connection, write.account).await? {
        return Ok(false);
    }
    let Some(held) = lock_channel(connection, write.account, id).await? else { return Ok(false) };
    if held.verified {
        lose_verified(connection, write, id, &trouble).await?;
    }
    Ok(true)
}

/// Takes `verified` away from a channel that the transaction has locked.
pub(in crate::store) async fn lose_verified(
    connection: &mut Connection<'_>,
    write: WriteContext,
    id: ChannelId,
    trouble: &str,
) -> SqlResult<()> {
    sql::query(
        "UPDATE notification_channels SET verified = $4, trouble = $5, updated_at = $3
         WHERE id = $1 AND account_id = $2",
    )
    .bind(id)
    .bind(write.account)
    .bind(write.now)
    .bind(false)
    .bind(trouble.to_owned())
    .execute(&mut *connection)
    .await?;
    wake(connection, write.account, id, write.now).await?;
    audit::record(connection, write, Action::ChannelUnverified, [id]).await
}

/// A stored channel with its encrypted configuration.
pub(in crate::store) struct ChannelRow {
    pub(in crate::store) channel: Channel,
    pub(in crate::store) config: String,
    pub(in crate::store) revision: i64,
}

read_rows! {
    Channel { id, kind: "type", label, verified, created_at, updated_at }
    ChannelRow { channel: _, config, revision }
}

impl ChannelRow {
    /// Decrypts the configuration and returns the channel with it.
    pub(in crate::store) fn open(
        self,
        account: AccountId,
        encrypted_fields: &EncryptedFields,
    ) -> StoredChannel {
        let Self { channel, config, revision } = self;
        let config = encrypted_fields.open_config(account, channel.id, &config);
        StoredChannel { channel, config, revision }
    }
}
