//! Decides if a binary and a store fit each other.
//!
//! Migrations are numbered. The store records the applied ones, and `min_compatible`, the number of
//! the newest one that a binary must know. Most migrations only add, so a binary that does not know
//! them continues to work. A migration that removes something raises `min_compatible`. From then
//! on, binaries that do not know it refuse the store. It is not applied while one of them uses the
//! store.

use sqlx::migrate::{MigrateError, Migrator};

use super::{Connection, Dialect};
use crate::store::StoreErrorKind;
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::sql::query_scalar;

/// Returns the number of the newest migration in this binary.
pub(in crate::store) fn newest(migrator: &Migrator) -> i64 {
    migrator.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// Checks that a binary that knows the migrations up to `supported` may use a store that demands
/// `min_compatible`, which is absent before the first migration. The error is the reason why not.
pub(in crate::store) fn fits(min_compatible: Option<i64>, supported: i64) -> Result<(), String> {
    match min_compatible {
        Some(demanded) if demanded > supported => Err(format!(
            "it can only be used by binaries that know version {demanded}, but this one knows only \
             {supported}: use a newer punctual"
        )),
        _ => Ok(()),
    }
}

/// Returns the newest of the migrations after `applied` that raise `min_compatible`.
pub(in crate::store) fn breaks(migrator: &Migrator, applied: i64) -> Option<i64> {
    let raises = |sql: &str| sql.contains("'min_compatible'");
    let missing = migrator.iter().filter(|migration| migration.version > applied);
    missing.filter(|one| raises(one.sql.as_str())).map(|one| one.version).max()
}

/// Checks that such a binary may use the store without migrating it. `applied` is the newest
/// migration in the store. The error is the reason why not.
fn is_up_to_date(min_compatible: Option<i64>, applied: i64, supported: i64) -> Result<(), String> {
    if min_compatible.is_none() {
        return Err("it has not been set up: run `punctual migrate`".to_owned());
    }
    fits(min_compatible, supported)?;
    if applied < supported {
        return Err(format!(
            "it is at version {applied}, but this binary needs {supported}: run `punctual migrate`"
        ));
    }
    Ok(())
}

/// Returns what a store lacks for a binary that knows the migrations up to `supported`; `None` if
/// it lacks nothing.
///
/// # Errors
/// `Incompatible` if the store needs a newer binary.
pub(in crate::store) async fn incompatibility(
    connection: &mut Connection<'_>,
    supported: i64,
) -> SqlResult<Option<String>> {
    let min_compatible = min_compatible(connection).await?;
    let applied = match min_compatible {
        Some(_) => applied(connection).await?,
        None => 0,
    };
    fits(min_compatible, supported).map_err(unfit)?;
    Ok(is_up_to_date(min_compatible, applied, supported).err())
}

/// Reads the migration that the store demands of a binary; `None` before the first migration.
pub(in crate::store) async fn min_compatible(
    connection: &mut Connection<'_>,
) -> SqlResult<Option<i64>> {
    let is_set_up = match connection.dialect() {
        Dialect::Postgres => "SELECT to_regclass('meta') IS NOT NULL",
        Dialect::Sqlite => {
            "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'meta')"
        }
    };
    let is_set_up: bool = query_scalar(is_set_up).fetch_one(connection).await?;
    if !is_set_up {
        return Ok(None);
    }
    let demanded = query_scalar("SELECT value FROM meta WHERE name = 'min_compatible'");
    demanded.fetch_optional(connection).await
}

/// Reads the newest migration in a store that has been set up.
pub(in crate::store) async fn applied(connection: &mut Connection<'_>) -> SqlResult<i64> {
    let query = query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations");
    query.fetch_one(connection).await
}

/// Returns the failure of a migration.
pub(in crate::store) fn migration_error(error: MigrateError) -> SqlError {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
        MigrateError::VersionMismatch(version) => {
            unfit(format!("migration {version} differs from the one that was applied to it"))
        }
        other => unfit(other.to_string()),
    }
}

/// Returns the failure of a store and a binary that do not fit each other.
pub(in crate::store) fn unfit(why: String) -> SqlError {
    SqlError::new(StoreErrorKind::Incompatible, why)
}
