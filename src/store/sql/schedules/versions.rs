//! The versions of schedules' definitions.

use sqlx::AssertSqlSafe;

use crate::domain::audit::Action;
use crate::domain::{AccountId, ScheduleId, VersionId};
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::encoding::batch_rows::{batch_row, json};
use crate::store::sql::encoding::hex::Hex;
use crate::store::sql::encoding::rows::read_rows;
use crate::store::sql::error::SqlResult;
use crate::store::{AuthoredVersion, NewVersion, VersionPage, WriteContext, sql};

batch_row! {
    /// A row of `schedule_versions`, in the order of the statement's columns.
    VersionRow<'v> {
        id: Hex,
        schedule_id: Hex,
        host_key: i64,
        cron_expression: &'v str,
        timezone: &'v str,
        endpoint: &'v str,
        http_method: &'v str,
        body: Option<&'v str>,
        headers: Option<&'v str>,
        max_retries: u8,
        timeout_seconds: u16,
        expected_status_codes: Option<&'v str>,
        sign_requests: bool,
    }
}

impl<'v> VersionRow<'v> {
    fn new((schedule, version): (ScheduleId, &'v NewVersion)) -> Self {
        let definition = &version.definition;
        Self {
            id: Hex(version.id.to_bytes()),
            schedule_id: Hex(schedule.to_bytes()),
            host_key: version.host.0.cast_signed(),
            cron_expression: &definition.cron_expression,
            timezone: &definition.timezone,
            endpoint: &definition.endpoint,
            http_method: definition.http_method.as_str(),
            body: definition.body.as_deref(),
            headers: definition.headers.as_deref(),
            max_retries: definition.max_retries,
            timeout_seconds: definition.timeout_seconds,
            expected_status_codes: definition.expected_status_codes.as_deref(),
            sign_requests: definition.sign_requests,
        }
    }
}

/// Returns the statement that stores versions of schedules of one account.
pub(super) fn insert_versions<'v>(
    dialect: Dialect,
    write: WriteContext,
    versions: impl IntoIterator<Item = (ScheduleId, &'v NewVersion)>,
) -> sql::Query {
    let insert = format!(
        "INSERT INTO schedule_versions
             (id, schedule_id, host_key, cron_expression, timezone, endpoint, http_method, body,
              headers, max_retries, timeout_seconds, expected_status_codes, sign_requests,
              account_id, created_at)
         SELECT r.*, $1, $2 FROM {}",
        dialect.rows::<VersionRow>("$3")
    );
    let rows = json(&versions.into_iter().map(VersionRow::new).collect::<Vec<_>>());
    sql::query(AssertSqlSafe(insert)).bind(write.account).bind(write.now).bind(rows)
}

/// Returns the statement that marks a version as no longer used by its schedule. Upkeep deletes the
/// version when no job uses it either.
pub(super) fn retire_version(write: WriteContext, id: VersionId) -> sql::Query {
    sql::query("UPDATE schedule_versions SET retired_at = $3 WHERE id = $1 AND account_id = $2")
        .bind(id)
        .bind(write.account)
        .bind(write.now)
}

read_rows! {
    AuthoredVersion { version: _, author }
}

/// The id after all versions.
const LAST_VERSION: VersionId = VersionId::from_bytes([u8::MAX; 16]);

/// Counts the stored versions of a schedule. Parameters: account, schedule.
pub(in crate::store) const COUNT: &str = "
    SELECT count(*) FROM schedule_versions WHERE schedule_id = $2 AND account_id = $1
        AND EXISTS (SELECT 1 FROM schedules WHERE id = $2 AND account_id = $1)
        AND EXISTS (SELECT 1 FROM accounts WHERE id = $1)";

/// Counts and reads the versions of a schedule on one snapshot.
pub(super) async fn of_schedule(
    connection: &mut Connection<'_>,
    account: AccountId,
    id: ScheduleId,
    from: Option<VersionId>,
    limit: u32,
) -> SqlResult<VersionPage> {
    let count = sql::query_scalar(COUNT).bind(account).bind(id);
    let total: i64 = count.fetch_one(&mut *connection).await?;
    let list = sql::query_as(AssertSqlSafe(list(connection.dialect())));
    let list = list.bind(account).bind(id).bind(from.unwrap_or(LAST_VERSION));
    let list = list.bind(i64::from(limit)).bind(id.to_string());
    let list = list.bind(Action::ScheduleCreated).bind(Action::ScheduleUpdated);
    Ok(VersionPage { versions: list.fetch_all(connection).await?, total: total.unsigned_abs() })
}

/// Returns the statement that reads the versions of a schedule, newest first. A version and the
/// entry of its change in the audit log were written by one transaction with the same time, which
/// is also the time in the id of the entry. Parameters: account, schedule, newest version, number
/// of rows, text of the schedule's id, the two actions that create versions.
pub(in crate::store) fn list(dialect: Dialect) -> String {
    let entry = |digit: char| match dialect {
        Dialect::Postgres => {
            format!("(lpad(to_hex(v.created_at), 12, '0') || repeat('{digit}', 20))::uuid")
        }
        Dialect::Sqlite => {
            let random = digit.to_string().repeat(20);
            format!("unhex(printf('%012x', v.created_at) || '{random}')")
        }
    };
    let (lowest, highest) = (entry('0'), entry('f'));
    format!(
        "SELECT v.id, v.schedule_id, v.cron_expression, v.timezone, v.endpoint, v.http_method,
                v.body, v.headers, v.max_retries, v.timeout_seconds, v.expected_status_codes,
                v.sign_requests, v.created_at, v.retired_at,
                (SELECT a.actor FROM audit_log AS a
                 WHERE a.account_id = $1 AND a.id BETWEEN {lowest} AND {highest}
                   AND a.object = $5 AND a.action IN ($6, $7)
                 LIMIT 1) AS author
         FROM schedule_versions AS v
         WHERE v.schedule_id = $2 AND v.account_id = $1 AND v.id <= $3
           AND EXISTS (SELECT 1 FROM schedules WHERE id = $2 AND account_id = $1)
           AND EXISTS (SELECT 1 FROM accounts WHERE id = $1)
         ORDER BY v.id DESC LIMIT $4"
    )
}
