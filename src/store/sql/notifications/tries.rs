//! Records the ends of tries.
//!
//! An end counts only while its claim holds. A failure may also pause its channel or take
//! `verified` away from it. Channels are locked before deliveries.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sqlx::AssertSqlSafe;

use super::channels::lose_verified;
use crate::domain::audit::Author;
use crate::domain::{AccountId, AuditId, ChannelId, DeliveryId, Timestamp};
use crate::store::sql;
use crate::store::sql::connection::Connection;
use crate::store::sql::encoding::batch_rows::{ColumnType, batch_row, json, json_ids};
use crate::store::sql::encoding::hex::Hex;
use crate::store::sql::error::SqlResult;
use crate::store::sql::jobs::response::without_nul;
use crate::store::{ExecutorId, TryEnd, TryOutcome, WriteContext};

/// Records the ends of tries whose claim still holds. Returns, for each end, `true` if it was
/// recorded.
pub(in crate::store) async fn complete_tries(
    connection: &mut Connection<'_>,
    now: Timestamp,
    ends: Arc<[TryEnd]>,
) -> SqlResult<Vec<bool>> {
    let revisions = lock_channels(connection, &ends).await?;
    let held = held(connection, &ends).await?;
    let applies = |end: &TryEnd| held.get(&end.delivery) == Some(&(end.attempt, end.notifier));
    let applied: Vec<bool> = ends.iter().map(applies).collect();
    let ends: Vec<&TryEnd> =
        ends.iter().zip(&applied).filter(|(_, yes)| **yes).map(|(end, _)| end).collect();
    if ends.is_empty() {
        return Ok(applied);
    }
    insert(connection, &ends).await?;
    update(connection, &ends).await?;
    // A provider's answer applies only to the configuration that the try used. If the channel has a
    // newer one, the answer must neither pause nor unverify the channel.
    let current = |end: &&&TryEnd| revisions.get(&end.channel) == Some(&end.revision);
    let of_current: Vec<&TryEnd> = ends.iter().filter(current).copied().collect();
    pause(connection, &of_current).await?;
    unverify(connection, now, &of_current).await?;
    Ok(applied)
}

/// Locks the channels that these ends pause or unverify, and returns their revisions.
async fn lock_channels(
    connection: &mut Connection<'_>,
    ends: &[TryEnd],
) -> SqlResult<HashMap<ChannelId, i64>> {
    let changes = |end: &&TryEnd| match &end.outcome {
        TryOutcome::Delivered => false,
        TryOutcome::Failed { gone, paused_until, .. } => *gone || paused_until.is_some(),
    };
    let channels: BTreeSet<ChannelId> =
        ends.iter().filter(changes).map(|end| end.channel).collect();
    if channels.is_empty() {
        return Ok(HashMap::new());
    }
    let in_turn = connection.dialect().exclusive_lock();
    let query = format!(
        "SELECT id, revision FROM notification_channels WHERE {} ORDER BY id {in_turn}",
        connection.dialect().among("id", ColumnType::Id, "$1")
    );
    let query = sql::query_as(AssertSqlSafe(query));
    let query = query.bind(json_ids(channels.iter().map(|id| id.to_bytes())));
    let revisions: Vec<(ChannelId, i64)> = query.fetch_all(connection).await?;
    Ok(revisions.into_iter().collect())
}

/// Locks the deliveries that are being tried. Returns the number of each try and the notifier that
/// holds the claim.
async fn held(
    connection: &mut Connection<'_>,
    ends: &[TryEnd],
) -> SqlResult<HashMap<DeliveryId, (u8, ExecutorId)>> {
    let in_turn = connection.dialect().exclusive_lock();
    let query = format!(
        "SELECT id, tries, claimed_by FROM notification_deliveries
         WHERE {} AND status = 2 ORDER BY id {in_turn}",
        connection.dialect().among("id", ColumnType::Id, "$1")
    );
    let query = sql::query_as(AssertSqlSafe(query));
    let query = query.bind(json_ids(ends.iter().map(|end| end.delivery.to_bytes())));
    let held: Vec<(DeliveryId, i16, ExecutorId)> = query.fetch_all(connection).await?;
    let held = held.into_iter().map(|(id, tries, by)| (id, (u8::try_from(tries).unwrap_or(0), by)));
    Ok(held.collect())
}

batch_row! {
    /// The end of a try, as a row to be written.
    TryRow {
        delivery_id: Hex, number: u8, account_id: Hex, started_at: i64, completed_at: i64,
        status_code: Option<u16>, error_code: Option<&'static str>, error_message: Option<String>,
        response: Option<String>, status: u8, wake_at: Option<i64>, final_at: Option<i64>,
    }
}

impl TryRow {
    fn new(end: &TryEnd) -> Self {
        let completed_at = end.completed_at.as_millis();
        let (status, wake_at, error_code, error_message) = match &end.outcome {
            TryOutcome::Delivered => (3, None, None, None),
            TryOutcome::Failed { code, message, retry_at, .. } => {
                let status = if retry_at.is_some() { 1 } else { 4 };
                let wake_at = retry_at.map(Timestamp::as_millis);
                (status, wake_at, Some(code.as_str()), Some(without_nul(message)))
            }
        };
        Self {
            delivery_id: Hex(end.delivery.to_bytes()),
            number: end.attempt,
            account_id: Hex(end.account.to_bytes()),
            started_at: end.started_at.as_millis(),
            completed_at,
            status_code: end.status_code,
            error_code,
            error_message,
            response: end.response.as_deref().map(without_nul),
            status,
            wake_at,
            final_at: (status > 2).then_some(completed_at),
        }
    }
}

fn parameter(ends: &[&TryEnd]) -> String {
    json(&ends.iter().map(|end| TryRow::new(end)).collect::<Vec<_>>())
}

/// Inserts the tries.
async fn insert(connection: &mut Connection<'_>, ends: &[&TryEnd]) -> SqlResult<()> {
    let statement = format!(
        "INSERT INTO delivery_tries (delivery_id, number, account_id, started_at, completed_at,
                                     status_code, error_code, error_message, response)
         SELECT r.delivery_id, r.number, r.account_id, r.started_at, r.completed_at,
                r.status_code, r.error_code, r.error_message, r.response
         FROM {} WHERE true ON CONFLICT (delivery_id, number) DO NOTHING",
        connection.dialect().rows::<TryRow>("$1")
    );
    sql::query(AssertSqlSafe(statement)).bind(parameter(ends)).run(connection).await
}

/// Updates the deliveries, and ends their claims.
async fn update(connection: &mut Connection<'_>, ends: &[&TryEnd]) -> SqlResult<()> {
    let statement = format!(
        "UPDATE notification_deliveries SET status = r.status, wake_at = r.wake_at,
             claimed_by = NULL, completed_at = r.final_at, status_code = r.status_code,
             error_code = r.error_code, error_message = r.error_message
         FROM {} WHERE notification_deliveries.id = r.delivery_id",
        connection.dialect().rows::<TryRow>("$1")
    );
    sql::query(AssertSqlSafe(statement)).bind(parameter(ends)).run(connection).await
}

/// Pauses the channels that asked for a pause, and postpones the deliveries that wait for them.
async fn pause(connection: &mut Connection<'_>, ends: &[&TryEnd]) -> SqlResult<()> {
    let mut paused: BTreeMap<ChannelId, (AccountId, Timestamp)> = BTreeMap::new();
    for end in ends {
        if let TryOutcome::Failed { paused_until: Some(until), .. } = end.outcome {
            let (_, known) = paused.entry(end.channel).or_insert((end.account, until));
            *known = until.max(*known);
        }
    }
    for (channel, (account, until)) in paused {
        for statement in [
            "UPDATE notification_channels SET paused_until = $3
             WHERE id = $2 AND account_id = $1 AND paused_until < $3",
            "UPDATE notification_deliveries SET wake_at = $3
             WHERE account_id = $1 AND channel_id = $2 AND status < 3 AND status = 1
               AND wake_at < $3",
        ] {
            let query = sql::query(statement).bind(account).bind(channel).bind(until);
            query.execute(&mut *connection).await?;
        }
    }
    Ok(())
}

/// Takes `verified` away from the channels that their provider reports as gone.
async fn unverify(
    connection: &mut Connection<'_>,
    now: Timestamp,
    ends: &[&TryEnd],
) -> SqlResult<()> {
    let mut gone: BTreeMap<ChannelId, (&TryEnd, &str)> = BTreeMap::new();
    for end in ends {
        if let TryOutcome::Failed { gone: true, message, .. } = &end.outcome {
            gone.entry(end.channel).or_insert((end, message));
        }
    }
    for (channel, (end, message)) in gone {
        let query = "SELECT verified FROM notification_channels WHERE id = $1 AND account_id = $2";
        let query = sql::query_scalar(query).bind(channel).bind(end.account);
        let verified: Option<bool> = query.fetch_optional(&mut *connection).await?;
        if verified == Some(true) {
            let random = u128::from_be_bytes(end.delivery.to_bytes());
            let entry = AuditId::new(now, random);
            let write = WriteContext {
                account: end.account,
                now,
                author: Author::SERVICE,
                entry,
                idempotency: None,
            };
            lose_verified(connection, write, channel, &without_nul(message)).await?;
        }
    }
    Ok(())
}
