//! Versions: their rows, as they are written and read back.

use sqlx::PgConnection;

use crate::domain::schedule::Definition;
use crate::domain::{ScheduleId, VersionId};
use crate::store::sql::fault::Outcome;
use crate::store::{NewVersion, Write};

/// Stores versions of schedules of one account.
pub(super) async fn insert_versions(
    connection: &mut PgConnection,
    write: Write,
    versions: &[(ScheduleId, &NewVersion)],
) -> Outcome<()> {
    fn column<'a, T>(
        versions: &[(ScheduleId, &'a NewVersion)],
        value: impl Fn(&'a Definition) -> T,
    ) -> Vec<T> {
        versions.iter().map(|(_, version)| value(&version.definition)).collect()
    }
    sqlx::query(
        "INSERT INTO schedule_versions
             (id, schedule_id, host_key, cron_expression, timezone, endpoint, http_method, body,
              headers, max_retries, timeout_seconds, expected_status_codes, sign_requests,
              account_id, created_at)
         SELECT v.*, $1, $2
         FROM unnest($3::uuid[], $4::uuid[], $5::bigint[], $6::text[], $7::text[], $8::text[],
                     $9::text[], $10::text[], $11::text[], $12::smallint[], $13::smallint[],
                     $14::text[], $15::boolean[]) AS v",
    )
    .bind(write.account)
    .bind(write.now)
    .bind(versions.iter().map(|(_, version)| version.id).collect::<Vec<_>>())
    .bind(versions.iter().map(|(schedule, _)| *schedule).collect::<Vec<_>>())
    .bind(versions.iter().map(|(_, version)| version.host).collect::<Vec<_>>())
    .bind(column(versions, |definition| definition.cron_expression.as_str()))
    .bind(column(versions, |definition| definition.timezone.as_str()))
    .bind(column(versions, |definition| definition.endpoint.as_str()))
    .bind(column(versions, |definition| definition.http_method))
    .bind(column(versions, |definition| definition.body.as_deref()))
    .bind(column(versions, |definition| definition.headers.as_deref()))
    .bind(column(versions, |definition| i16::from(definition.max_retries)))
    .bind(column(versions, |definition| definition.timeout_seconds.cast_signed()))
    .bind(column(versions, |definition| definition.expected_status_codes.as_deref()))
    .bind(column(versions, |definition| definition.sign_requests))
    .execute(connection)
    .await?;
    Ok(())
}

/// Notes since when no schedule uses a version; from then on it lives as long as jobs use it.
pub(super) async fn retire_version(
    connection: &mut PgConnection,
    write: Write,
    id: VersionId,
) -> Outcome<()> {
    sqlx::query("UPDATE schedule_versions SET retired_at = $3 WHERE id = $1 AND account_id = $2")
        .bind(id)
        .bind(write.account)
        .bind(write.now)
        .execute(connection)
        .await?;
    Ok(())
}
