//! The statements that export and remove all data of accounts.

use crate::domain::{AccountId, Timestamp, VersionId};
use crate::store::sql::connection::Connection;
use crate::store::sql::error::SqlResult;
use crate::store::sql::query_scalar;
use crate::store::{DeletedPosition, JobsToAbort, SkipPosition};

/// The maximum to which the remaining rows of a deleted account are counted in each table.
pub(in crate::store) const ROWS_COUNTED: i64 = 1_000_000;

/// The tables with rows of an account other than schedules and jobs, and the column that selects
/// the rows of a batch, in the order in which they are cleared. The versions follow after the jobs,
/// which need them.
pub(in crate::store) const CLEARED: [(&str, &str); 18] = [
    ("notification_events", "id"),
    ("delivery_tries", "delivery_id"),
    ("notification_deliveries", "id"),
    ("incident_schedules", "id"),
    ("notification_incidents", "id"),
    ("preference_channels", "schedule_id"),
    ("notification_preferences", "schedule_id"),
    ("notification_channels", "id"),
    ("schedule_versions", "id"),
    ("skips", "id"),
    ("account_months", "month"),
    ("account_hours", "slot"),
    ("api_keys", "id"),
    ("signing_secrets", "id"),
    ("memberships", "id"),
    ("invitations", "id"),
    ("idempotency_keys", "id"),
    ("audit_log", "id"),
];

/// Returns the statement that deletes some of an account's rows in one of these tables. `passing`
/// is the clause that skips locked rows. Parameters: account, number of rows.
pub(in crate::store) fn clear((table, key): (&str, &str), passing: &str) -> String {
    format!(
        "DELETE FROM {table} WHERE account_id = $1 AND {key} IN
             (SELECT {key} FROM {table} WHERE account_id = $1 LIMIT $2 {passing})"
    )
}

/// Returns the condition beside that on the account with which PostgreSQL uses the table's index by
/// account. That of `runs` is partial.
pub(in crate::store) fn indexed(table: &str) -> &'static str {
    if table == "runs" { "AND status < 2" } else { "" }
}

/// Returns the statement that reads `true` if an account has rows in a table. Parameter: account.
pub(in crate::store) fn has_rows(table: &str) -> String {
    format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE account_id = $1 {})", indexed(table))
}

/// Returns the statement that counts an account's rows in all tables, up to a maximum in each.
/// Parameters: account, maximum.
pub(in crate::store) fn count_rows() -> String {
    let tables = ["schedules", "runs", "jobs"].into_iter().chain(CLEARED.map(|(table, _)| table));
    let count = |table| {
        format!(
            "(SELECT count(*) FROM
                 (SELECT 1 FROM {table} WHERE account_id = $1 {} LIMIT $2) AS {table}_left)",
            indexed(table)
        )
    };
    let counts: Vec<String> = tables.map(count).collect();
    format!("SELECT {}", counts.join(" + "))
}

/// Reads the versions of an account. Parameters: account, version before the page, number of rows.
pub(in crate::store) const VERSIONS: &str = "
    SELECT id, schedule_id, cron_expression, timezone, endpoint, http_method, body, headers,
           max_retries, timeout_seconds, expected_status_codes, sign_requests, created_at, retired_at
    FROM schedule_versions WHERE account_id = $1 AND id > $2 ORDER BY id LIMIT $3";
/// Reads the skips of an account. Parameters: account, first tick and number of the skip before the
/// page, number of rows.
pub(in crate::store) const SKIPS: &str = "
    SELECT id, schedule_id, first_tick, last_tick, count, reason FROM skips
    WHERE account_id = $1 AND (first_tick, id) > ($2, $3) ORDER BY first_tick, id LIMIT $4";
/// Reads the counters of an account. Negative months hold the values from before a change of its
/// plan. Parameter: account.
pub(in crate::store) const MONTHS: &str = "
    SELECT month, reserved, exhausted_at FROM account_months
    WHERE account_id = $1 AND month > 0 ORDER BY month";
/// The position before all skips.
pub(in crate::store) const FIRST_SKIP: SkipPosition = (Timestamp::from_millis(i64::MIN), i64::MIN);
/// The id before all versions.
pub(in crate::store) const FIRST_VERSION: VersionId = VersionId::from_bytes([0; 16]);

/// Records that no rows of an account are left. Parameters: account, present instant.
pub(in crate::store) const GONE: &str =
    "UPDATE deleted_accounts SET gone_at = $2 WHERE id = $1 AND gone_at IS NULL";
/// Reads deleted accounts that may have rows left. Parameters: deletion time and id of the account
/// before the page, number of rows.
pub(in crate::store) const GOING_ACCOUNTS: &str = "
    SELECT * FROM deleted_accounts WHERE gone_at IS NULL AND (deleted_at, id) > ($1, $2)
    ORDER BY deleted_at, id LIMIT $3";
/// The position before all deleted accounts.
pub(in crate::store) const FIRST_DELETED: DeletedPosition =
    (Timestamp::from_millis(i64::MIN), AccountId::from_bytes([0; 16]));
/// Reads the ids of the deleted accounts that may have rows left.
pub(in crate::store) const TO_ERASE: &str = "SELECT id FROM deleted_accounts WHERE gone_at IS NULL";

/// Returns the work to be aborted: the jobs that `cancelled` finds, and the deleted accounts.
pub(in crate::store) async fn aborts(
    connection: &mut Connection<'_>,
    cancelled: &'static str,
) -> SqlResult<JobsToAbort> {
    let jobs = query_scalar(cancelled).fetch_all(connection).await?;
    let accounts = query_scalar(TO_ERASE).fetch_all(connection).await?;
    Ok(JobsToAbort { jobs, accounts })
}
/// Reads when an account was deleted, if it may have rows left. Parameter: account.
pub(in crate::store) const DELETED_AT: &str =
    "SELECT deleted_at FROM deleted_accounts WHERE id = $1 AND gone_at IS NULL";
/// Deletes the row of an account and returns its name. Parameter: account.
pub(in crate::store) const DELETE: &str = "DELETE FROM accounts WHERE id = $1 RETURNING name";
/// Records a deletion. Parameters: account, name, instant, actor, origin.
pub(in crate::store) const NOTE: &str = "
    INSERT INTO deleted_accounts (id, name, deleted_at, actor, origin)
    VALUES ($1, $2, $3, $4, $5)";
/// Reads all deleted accounts, oldest deletion first.
pub(in crate::store) const DELETED: &str = "SELECT * FROM deleted_accounts ORDER BY deleted_at, id";
