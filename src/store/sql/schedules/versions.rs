//! The versions of schedules' definitions.

use sqlx::AssertSqlSafe;

use crate::domain::{ScheduleId, VersionId};
use crate::store::sql::batch_rows::{batch_row, json};
use crate::store::sql::connection::Dialect;
use crate::store::sql::hex::Hex;
use crate::store::{NewVersion, WriteContext, sql};

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
