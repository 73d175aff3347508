//! Claims due deliveries for a notifier.
//!
//! The transaction of the claim records the try before anything is sent. If the notifier dies, the
//! claim ends at its time limit, and the next claim records the try as lost.

use std::sync::Arc;

use sqlx::AssertSqlSafe;

use super::chosen_deliveries::{ChosenDeliveries, FoundDelivery};
use super::claimed::{DueDelivery, LOST, SealedDelivery};
use super::content::contents;
use crate::domain::alert::delivery::DeliveryError;
use crate::domain::{AccountId, ChannelId, DeliveryId, Timestamp};
use crate::store::DeliveryClaim;
use crate::store::corrupt_rows::{CorruptRows, ReadableRow};
use crate::store::sql;
use crate::store::sql::connection::query::write_rows;
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::encoding::batch_rows::{ColumnType, batch_row, json, json_ids};
use crate::store::sql::encoding::hex::Hex;
use crate::store::sql::error::SqlResult;

/// The maximum number of due deliveries that one query reads to find a few of each channel.
const LOOKED_AT: i64 = 2_000;
/// The maximum number of such queries for one claim. Each query leaves out the channels that the
/// previous ones have found.
const LOOKS: usize = 5;

/// Claims deliveries. Returns them with their secrets still encrypted, and the number of deliveries
/// that failed without a try.
pub(in crate::store) async fn claim_deliveries(
    connection: &mut Connection<'_>,
    claim: DeliveryClaim,
    corrupt_rows: Arc<CorruptRows>,
) -> SqlResult<(Vec<SealedDelivery>, u64)> {
    let picked = pick(connection, &claim).await?;
    if picked.is_empty() {
        return Ok((Vec::new(), 0));
    }
    close_digests(connection, &picked).await?;
    let due = lock(connection, &claim, &picked).await?;
    let due = corrupt_rows.leave_out("notification_deliveries", due);
    note_lost(connection, &due, claim.now).await?;
    let (failed, taken): (Vec<_>, Vec<_>) =
        due.into_iter().partition(|delivery| delivery.undeliverable_reason().is_some());
    fail(connection, &failed, claim.now).await?;
    take(connection, &taken, &claim).await?;
    Ok((contents(connection, taken, claim.now, &corrupt_rows).await?, failed.len() as u64))
}

/// Returns a few due deliveries of each channel that is not busy, without locking them. A channel,
/// an account or a channel type with a large backlog does not hide the others.
async fn pick(
    connection: &mut Connection<'_>,
    claim: &DeliveryClaim,
) -> SqlResult<Vec<DeliveryId>> {
    let mut shares = ChosenDeliveries::of(claim);
    for _ in 0..LOOKS {
        let full = shares.full_types();
        let query = due(connection.dialect(), !full.is_empty());
        let mut query = sql::query_as(AssertSqlSafe(query))
            .bind(claim.now)
            .bind(LOOKED_AT)
            .bind(i64::from(claim.per_channel))
            .bind(json_ids(shares.busy.iter().map(|id| id.to_bytes())))
            .bind(json_ids(shares.busy_accounts.iter().map(|id| id.to_bytes())));
        if !full.is_empty() {
            query = query.bind(json(&full));
        }
        let found: Vec<FoundDelivery> = query.fetch_all(&mut *connection).await?;
        let there_is_more = found.first().is_some_and(|(.., looked)| *looked >= LOOKED_AT);
        shares.take(found);
        if shares.left == 0 || !there_is_more {
            break;
        }
    }
    Ok(shares.picked)
}

/// Returns the statement that reads the first due deliveries of each channel, and the number of
/// deliveries that it looked at.
///
/// Each status has its own subquery, which reads the index in order; one subquery for both would
/// have to sort. The condition on channel types costs a lookup per delivery, so it is added only
/// if types are full.
pub(in crate::store) fn due(dialect: Dialect, types_are_full: bool) -> String {
    let of_full = format!(
        "AND NOT EXISTS (SELECT 1 FROM notification_channels AS f WHERE f.id = channel_id AND {})",
        dialect.among("f.type", ColumnType::Text, "$6")
    );
    let of_full = if types_are_full { of_full.as_str() } else { "" };
    let due = |status| {
        format!(
            "SELECT * FROM
                 (SELECT id, account_id, channel_id, wake_at FROM notification_deliveries
                  WHERE status < 3 AND status = {status} AND wake_at <= $1 AND NOT ({})
                    AND NOT ({}) {of_full}
                    AND account_id NOT IN (SELECT id FROM deleted_accounts WHERE gone_at IS NULL)
                  ORDER BY wake_at LIMIT $2) AS status_{status}",
            dialect.among("channel_id", ColumnType::Id, "$4"),
            dialect.among("account_id", ColumnType::Id, "$5")
        )
    };
    format!(
        "SELECT placed.id, placed.account_id, placed.channel_id, c.type, looked FROM
             (SELECT id, account_id, channel_id, wake_at, count(*) OVER () AS looked,
                     row_number() OVER (PARTITION BY channel_id ORDER BY wake_at, id) AS position
              FROM ({} UNION ALL {}) AS due) AS placed
         LEFT JOIN notification_channels AS c ON c.id = placed.channel_id
         WHERE position <= $3 ORDER BY placed.wake_at, placed.id",
        due(1),
        due(2)
    )
}

/// Closes the digests that are about to be sent, so that no further alert is merged into them.
/// Relaying locks the channel before it merges, so it sees that the digest is closed.
async fn close_digests(connection: &mut Connection<'_>, picked: &[DeliveryId]) -> SqlResult<()> {
    let query = format!(
        "SELECT DISTINCT channel_id, account_id FROM notification_deliveries
         WHERE {} AND type = 'digest' AND tries = 0 ORDER BY channel_id",
        connection.dialect().among("id", ColumnType::Id, "$1")
    );
    let query = sql::query_as(AssertSqlSafe(query));
    let query = query.bind(json_ids(picked.iter().map(|id| id.to_bytes())));
    let channels: Vec<(ChannelId, AccountId)> = query.fetch_all(&mut *connection).await?;
    // One statement per channel, in the order of the ids: all transactions lock channels in this
    // order, which avoids deadlocks.
    for (channel, account) in channels {
        let statement = format!(
            "UPDATE notification_channels SET digest_id = NULL
             WHERE id = $1 AND account_id = $2 AND {}",
            connection.dialect().among("digest_id", ColumnType::Id, "$3")
        );
        sql::query(AssertSqlSafe(statement))
            .bind(channel)
            .bind(account)
            .bind(json_ids(picked.iter().map(|id| id.to_bytes())))
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Locks and returns the picked deliveries that are still due and that no other transaction has
/// locked.
async fn lock(
    connection: &mut Connection<'_>,
    claim: &DeliveryClaim,
    picked: &[DeliveryId],
) -> SqlResult<Vec<ReadableRow<DeliveryId, DueDelivery>>> {
    let skip_locked = connection.dialect().skip_locked();
    let locked = format!(
        "SELECT id FROM notification_deliveries
         WHERE {} AND status IN (1, 2) AND wake_at <= $2 ORDER BY id {skip_locked}",
        connection.dialect().among("id", ColumnType::Id, "$1")
    );
    let locked = sql::query_scalar(AssertSqlSafe(locked))
        .bind(json_ids(picked.iter().map(|id| id.to_bytes())))
        .bind(claim.now);
    let locked: Vec<DeliveryId> = locked.fetch_all(&mut *connection).await?;
    let query = format!(
        "SELECT d.id, d.account_id, d.channel_id, d.event_id, d.type, d.job_id, d.at, d.status,
                d.tries, d.round, d.round_began, d.started_at, d.failures, d.schedule_name,
                d.content, c.type AS channel_type, c.config, c.verified, c.revision
         FROM notification_deliveries AS d
         LEFT JOIN notification_channels AS c ON c.id = d.channel_id
         WHERE {} ORDER BY d.at, d.id",
        connection.dialect().among("d.id", ColumnType::Id, "$1")
    );
    let query = sql::query_as(AssertSqlSafe(query));
    let query = query.bind(json_ids(locked.iter().map(|id| id.to_bytes())));
    query.fetch_all(connection).await
}

/// Records the tries whose claim has ended without a result, because the notifier was lost.
async fn note_lost(
    connection: &mut Connection<'_>,
    due: &[DueDelivery],
    now: Timestamp,
) -> SqlResult<()> {
    for delivery in due {
        let Some(since) = delivery.lost_since else { continue };
        sql::query(
            "INSERT INTO delivery_tries (delivery_id, number, account_id, started_at, completed_at,
                                         error_code, error_message)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (delivery_id, number) DO NOTHING",
        )
        .bind(delivery.id)
        .bind(i16::from(delivery.tries))
        .bind(delivery.account)
        .bind(since)
        .bind(now)
        .bind(DeliveryError::NotifierLost.as_str())
        .bind(LOST)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

batch_row! {
    /// A delivery that fails without a try, as a row to be written.
    FailedRow { id: Hex, error_code: &'static str, error_message: &'static str }
}

/// Marks the deliveries that cannot be tried as failed.
async fn fail(
    connection: &mut Connection<'_>,
    failed: &[DueDelivery],
    now: Timestamp,
) -> SqlResult<()> {
    let row = |delivery: &DueDelivery| {
        let (code, message) = delivery.undeliverable_reason()?;
        let id = Hex(delivery.id.to_bytes());
        Some(FailedRow { id, error_code: code.as_str(), error_message: message })
    };
    let failed: Vec<_> = failed.iter().filter_map(row).collect();
    let statement = |rows: &str| {
        format!(
            "UPDATE notification_deliveries SET status = 4, wake_at = NULL, claimed_by = NULL,
                 completed_at = $2, error_code = r.error_code, error_message = r.error_message
             FROM {rows} WHERE notification_deliveries.id = r.id"
        )
    };
    write_rows(connection, &failed, Some(now), statement).await
}

/// Claims the deliveries until `claim.until`, and counts the try of each.
async fn take(
    connection: &mut Connection<'_>,
    taken: &[DueDelivery],
    claim: &DeliveryClaim,
) -> SqlResult<()> {
    if taken.is_empty() {
        return Ok(());
    }
    let statement = format!(
        "UPDATE notification_deliveries SET status = 2, tries = tries + 1, claimed_by = $2,
             started_at = $3, round_began = coalesce(round_began, $3), wake_at = $4,
             error_code = CASE WHEN status = 2 THEN $5 ELSE error_code END,
             error_message = CASE WHEN status = 2 THEN $6 ELSE error_message END
         WHERE {}",
        connection.dialect().among("id", ColumnType::Id, "$1")
    );
    sql::query(AssertSqlSafe(statement))
        .bind(json_ids(taken.iter().map(|delivery| delivery.id.to_bytes())))
        .bind(claim.notifier)
        .bind(claim.now)
        .bind(claim.until)
        .bind(DeliveryError::NotifierLost.as_str())
        .bind(LOST)
        .run(connection)
        .await
}

/// Ends all claims at `now`. Returns the number of claims.
pub(in crate::store) async fn release_deliveries(
    connection: &mut Connection<'_>,
    now: Timestamp,
) -> SqlResult<u64> {
    let statement = "UPDATE notification_deliveries SET wake_at = $1
         WHERE status < 3 AND status = 2 AND wake_at > $1";
    sql::query(statement).bind(now).execute(connection).await
}
