//! Versions: their rows, as they are written and read back.

use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;

use super::values::{Hex, hex, json_rows};
use crate::domain::schedule::Definition;
use crate::domain::{ScheduleId, VersionId};
use crate::store::sql::fault::Outcome;
use crate::store::{NewVersion, Write};

/// A definition in an answer in JSON, in the order of its fields.
#[derive(Deserialize)]
pub(super) struct DefinitionRow(
    String,
    String,
    String,
    String,
    Option<String>,
    Option<String>,
    u8,
    u16,
    Option<String>,
    u8,
);

impl DefinitionRow {
    /// The definition; none if its method is unknown.
    pub(super) fn definition(self) -> Option<Definition> {
        let Self(cron_expression, timezone, endpoint, method, body, headers, ..) = self;
        Some(Definition {
            cron_expression,
            timezone,
            endpoint,
            http_method: method.parse().ok()?,
            body,
            headers,
            max_retries: self.6,
            timeout_seconds: self.7,
            expected_status_codes: self.8,
            sign_requests: self.9 != 0,
        })
    }
}

/// A version's row in a JSON parameter.
#[derive(Serialize)]
struct VersionRow<'a>(
    Hex,
    Hex,
    i64,
    &'a str,
    &'a str,
    &'a str,
    &'a str,
    &'a Option<String>,
    &'a Option<String>,
    u8,
    u16,
    &'a Option<String>,
    bool,
);

impl<'a> VersionRow<'a> {
    fn new(schedule: ScheduleId, version: &'a NewVersion) -> Self {
        let definition = &version.definition;
        Self(
            hex(&version.id),
            hex(&schedule),
            version.host.0.cast_signed(),
            &definition.cron_expression,
            &definition.timezone,
            &definition.endpoint,
            definition.http_method.as_str(),
            &definition.body,
            &definition.headers,
            definition.max_retries,
            definition.timeout_seconds,
            &definition.expected_status_codes,
            definition.sign_requests,
        )
    }
}

/// The JSON parameter of [`insert_versions`].
pub(super) fn version_rows<'a>(
    versions: impl IntoIterator<Item = (ScheduleId, &'a NewVersion)>,
) -> String {
    let rows = versions.into_iter().map(|(schedule, version)| VersionRow::new(schedule, version));
    json_rows(&rows.collect::<Vec<_>>())
}

/// Stores versions of schedules of one account.
pub(super) async fn insert_versions(
    connection: &mut SqliteConnection,
    write: Write,
    rows: String,
) -> Outcome<()> {
    sqlx::query(
        "INSERT INTO schedule_versions
             (id, schedule_id, host_key, cron_expression, timezone, endpoint, http_method, body,
              headers, max_retries, timeout_seconds, expected_status_codes, sign_requests,
              account_id, created_at)
         SELECT unhex(value ->> 0), unhex(value ->> 1), value ->> 2, value ->> 3, value ->> 4,
                value ->> 5, value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10,
                value ->> 11, value ->> 12, ?1, ?2
         FROM jsonb_each(?3)",
    )
    .bind(write.account)
    .bind(write.now)
    .bind(rows)
    .execute(connection)
    .await?;
    Ok(())
}

/// Notes since when no schedule uses a version; from then on it lives as long as jobs use it.
pub(super) async fn retire_version(
    connection: &mut SqliteConnection,
    write: Write,
    id: VersionId,
) -> Outcome<()> {
    sqlx::query("UPDATE schedule_versions SET retired_at = ?3 WHERE id = ?1 AND account_id = ?2")
        .bind(id)
        .bind(write.account)
        .bind(write.now)
        .execute(connection)
        .await?;
    Ok(())
}
