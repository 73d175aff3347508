//! Lists, redelivers and prunes the deliveries of accounts.

use std::collections::HashMap;

use sqlx::AssertSqlSafe;

use super::planned::remove;
use super::rows::{TryOf, status_codes};
use crate::domain::audit::Action;
use crate::domain::{AccountId, ChannelId, DeliveryId, Timestamp};
use crate::store::sql;
use crate::store::sql::account_lock::admit;
use crate::store::sql::audit;
use crate::store::sql::connection::Connection;
use crate::store::sql::encoding::batch_rows::{ColumnType, json_ids};
use crate::store::sql::error::SqlResult;
use crate::store::sql::paging::shown_total;
use crate::store::{Delivery, DeliveryPage, DeliveryQuery, Redelivered, WriteContext};

/// The number of tries above which a redelivery numbers them from 1 again, because the number of a
/// try is a byte.
const MAX_TRIES: i16 = 200;

/// The maximum to which the deliveries that pass a query's filters are counted.
const COUNTED: i64 = 10_000;

const COLUMNS: &str = "
    d.id, d.event_id, d.type, d.channel_id, c.type AS channel_type, c.label AS channel_label,
    d.schedule_id, d.job_id, d.status, d.merged_into, d.tries, d.wake_at, d.completed_at,
    d.error_code, d.error_message, d.status_code, d.at, d.created_at";

/// Returns the conditions of a query's filters, and the ids in them. The ids are the parameters
/// from the third on; the first two are the account and the position in the list.
fn condition(query: &DeliveryQuery) -> (String, Vec<ChannelId>) {
    let mut text = String::new();
    let channel = query.channel.map(|id| ("channel_id", id));
    // A parameter is 16 bytes for each kind of id, so a schedule's id can be bound as a channel's.
    let schedule = query.schedule.map(|id| ("schedule_id", ChannelId::from_bytes(id.to_bytes())));
    let (columns, ids): (Vec<_>, Vec<_>) = channel.into_iter().chain(schedule).unzip();
    for (column, position) in columns.into_iter().zip(3..) {
        text.push_str(&format!(" AND d.{column} = ${position}"));
    }
    if let Some(status) = query.status {
        // With `= 4` instead of `IN (4)`, the partial index of failed deliveries applies.
        match status_codes(status) {
            [code] => text.push_str(&format!(" AND d.status = {code}")),
            codes => {
                let codes: Vec<String> = codes.iter().map(u8::to_string).collect();
                text.push_str(&format!(" AND d.status IN ({})", codes.join(", ")));
            }
        }
    }
    (text, ids)
}

/// The statements that count and list deliveries.
pub(in crate::store) struct DeliveryStatements {
    pub(in crate::store) count: String,
    pub(in crate::store) list: String,
}

impl DeliveryStatements {
    /// Returns the statements of a query, and the ids in its filters, which are the parameters from
    /// the third on.
    pub(in crate::store) fn of(query: &DeliveryQuery) -> (Self, Vec<ChannelId>) {
        let (condition, ids) = condition(query);
        let next = ids.len() + 3;
        let count = format!(
            "SELECT count(*) FROM (SELECT 1 AS one FROM notification_deliveries AS d
                 WHERE d.account_id = $1 AND d.id < $2
                   AND EXISTS (SELECT 1 FROM accounts WHERE id = $1) {condition}
                 LIMIT ${next}) AS counted"
        );
        let list = format!(
            "SELECT {COLUMNS} FROM notification_deliveries AS d
             LEFT JOIN notification_channels AS c ON c.id = d.channel_id AND c.account_id = $1
             WHERE d.account_id = $1 AND d.id < $2
               AND EXISTS (SELECT 1 FROM accounts WHERE id = $1) {condition}
             ORDER BY d.id DESC LIMIT ${next} OFFSET ${}",
            next + 1
        );
        (Self { count, list }, ids)
    }
}

/// The largest id: a list without a starting point begins below it.
const LAST: DeliveryId = DeliveryId::from_bytes([u8::MAX; 16]);

/// Returns a page of an account's deliveries, newest first.
pub(in crate::store) async fn deliveries(
    connection: &mut Connection<'_>,
    account: AccountId,
    query: DeliveryQuery,
) -> SqlResult<DeliveryPage> {
    let (DeliveryStatements { count, list }, ids) = DeliveryStatements::of(&query);
    let list = sql::query_as(AssertSqlSafe(list)).bind(account);
    let list = list.bind(query.after.unwrap_or(LAST));
    let list = ids.iter().fold(list, |list, id| list.bind(*id));
    let offset = i64::try_from(query.offset).unwrap_or(i64::MAX);
    let list = list.bind(i64::from(query.limit) + 1).bind(offset);
    let mut deliveries: Vec<Delivery> = list.fetch_all(&mut *connection).await?;
    let found = deliveries.len();
    let total = match shown_total(query.after.is_some(), query.offset, query.limit, found) {
        Some(total) => total.min(COUNTED.unsigned_abs()),
        None => {
            let count = sql::query_scalar(AssertSqlSafe(count)).bind(account).bind(LAST);
            let count = ids.iter().fold(count, |count, id| count.bind(*id));
            let total: i64 = count.bind(COUNTED).fetch_one(&mut *connection).await?;
            total.unsigned_abs()
        }
    };
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let has_more = deliveries.len() > limit;
    deliveries.truncate(limit);
    add_tries(connection, account, &mut deliveries).await?;
    Ok(DeliveryPage { deliveries, total, has_more })
}

/// Returns one delivery of an account, with its tries.
pub(in crate::store) async fn delivery(
    connection: &mut Connection<'_>,
    account: AccountId,
    id: DeliveryId,
) -> SqlResult<Option<Delivery>> {
    let query = format!(
        "SELECT {COLUMNS} FROM notification_deliveries AS d
         LEFT JOIN notification_channels AS c ON c.id = d.channel_id AND c.account_id = $1
         WHERE d.account_id = $1 AND d.id = $2 AND EXISTS (SELECT 1 FROM accounts WHERE id = $1)"
    );
    let query = sql::query_as(AssertSqlSafe(query)).bind(account).bind(id);
    let mut found: Vec<Delivery> = query.fetch_all(&mut *connection).await?;
    add_tries(connection, account, &mut found).await?;
    Ok(found.pop())
}

async fn add_tries(
    connection: &mut Connection<'_>,
    account: AccountId,
    deliveries: &mut [Delivery],
) -> SqlResult<()> {
    if deliveries.is_empty() {
        return Ok(());
    }
    let query = format!(
        "SELECT delivery_id, number, started_at, completed_at, status_code, error_code,
                error_message, response
         FROM delivery_tries WHERE account_id = $1 AND {} ORDER BY delivery_id, number",
        connection.dialect().among("delivery_id", ColumnType::Id, "$2")
    );
    let ids = json_ids(deliveries.iter().map(|delivery| delivery.id.to_bytes()));
    let query = sql::query_as(AssertSqlSafe(query)).bind(account).bind(ids);
    let tries: Vec<TryOf> = query.fetch_all(connection).await?;
    let mut of: HashMap<DeliveryId, Vec<_>> = HashMap::new();
    for TryOf { delivery, one } in tries {
        of.entry(delivery).or_default().push(one);
    }
    for delivery in deliveries {
        delivery.tries = of.remove(&delivery.id).unwrap_or_default();
    }
    Ok(())
}

/// Makes a failed delivery due again, at once.
pub(in crate::store) async fn redeliver(
    connection: &mut Connection<'_>,
    write: WriteContext,
    id: DeliveryId,
) -> SqlResult<Redelivered> {
    admit(connection, write.account, connection.dialect().shared_lock()).await?;
    let query = "SELECT c.verified FROM notification_deliveries AS d
         JOIN notification_channels AS c ON c.id = d.channel_id
         WHERE d.id = $1 AND d.account_id = $2 AND c.account_id = $2";
    let query = sql::query_scalar(query).bind(id).bind(write.account);
    let verified: Option<bool> = query.fetch_optional(&mut *connection).await?;
    let in_turn = connection.dialect().exclusive_lock();
    let query = format!(
        "SELECT status, tries FROM notification_deliveries
         WHERE id = $1 AND account_id = $2 {in_turn}"
    );
    let query = sql::query_as(AssertSqlSafe(query)).bind(id).bind(write.account);
    let found: Option<(i16, i16)> = query.fetch_optional(&mut *connection).await?;
    let tries = match (found, verified) {
        (None, _) => return Ok(Redelivered::NotFound),
        (Some((4, _)), None) => return Ok(Redelivered::NoChannel),
        (Some((4, _)), Some(false)) => return Ok(Redelivered::Unverified),
        (Some((4, tries)), Some(true)) => tries,
        (Some(_), _) => return Ok(Redelivered::NotFailed),
    };
    let tries = number_anew(connection, write.account, id, tries).await?;
    sql::query(
        "UPDATE notification_deliveries SET status = 1, wake_at = $3, tries = $4, round = $4,
             round_began = NULL, completed_at = NULL, error_code = NULL, error_message = NULL
         WHERE id = $1 AND account_id = $2",
    )
    .bind(id)
    .bind(write.account)
    .bind(write.now)
    .bind(tries)
    .execute(&mut *connection)
    .await?;
    audit::record(connection, write, Action::AlertRedelivered, [id]).await?;
    Ok(Redelivered::Done)
}

/// Deletes the tries of a delivery that has more than [`MAX_TRIES`], so that repeated redelivery
/// never makes the number of a try too large. Returns the number of tries that remain.
async fn number_anew(
    connection: &mut Connection<'_>,
    account: AccountId,
    id: DeliveryId,
    tries: i16,
) -> SqlResult<i16> {
    if tries <= MAX_TRIES {
        return Ok(tries);
    }
    sql::query("DELETE FROM delivery_tries WHERE delivery_id = $1 AND account_id = $2")
        .bind(id)
        .bind(account)
        .execute(connection)
        .await?;
    Ok(0)
}

/// Reads the ids of final deliveries, oldest first. Parameters: the id that they are below, number
/// of rows.
pub(in crate::store) const OLD: &str =
    "SELECT id FROM notification_deliveries WHERE id < $1 AND status > 2 ORDER BY id LIMIT $2";

/// Deletes final deliveries that were planned before `before`, with their tries. Returns their
/// number.
pub(in crate::store) async fn prune_deliveries(
    connection: &mut Connection<'_>,
    before: Timestamp,
    limit: u32,
) -> SqlResult<u64> {
    let skip_locked = connection.dialect().skip_locked();
    let query = format!("{OLD} {skip_locked}");
    let query = sql::query_scalar(AssertSqlSafe(query));
    let query = query.bind(DeliveryId::new(before, 0)).bind(i64::from(limit));
    let old: Vec<DeliveryId> = query.fetch_all(&mut *connection).await?;
    for (table, column) in [("delivery_tries", "delivery_id"), ("notification_deliveries", "id")] {
        remove(connection, table, column, old.iter().map(|id| id.to_bytes())).await?;
    }
    Ok(old.len() as u64)
}
