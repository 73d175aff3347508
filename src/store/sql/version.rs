//! Which binary fits which store.
//!
//! Migrations are numbered. The store knows which were applied and keeps `min_compatible`, the
//! number of the last one that a binary must know. Most migrations only add; a binary that does
//! not know them goes on working. One that takes something away raises `min_compatible`: binaries
//! that do not know it refuse the store from then on, and as long as one of them works with the
//! store, it is not applied.

use sqlx::migrate::{MigrateError, Migrator};

use super::connection::{Connection, Dialect};
use super::fault::{Fault, Outcome};
use super::query_scalar;
use crate::store::StoreErrorKind;

/// The number of the newest migration in this binary.
pub(in crate::store) fn newest(migrator: &Migrator) -> i64 {
    migrator.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// Whether a binary that knows the migrations up to `known` may use a store that demands
/// `min_compatible`, nothing before the first migration; or why not.
pub(in crate::store) fn fits(min_compatible: Option<i64>, known: i64) -> Result<(), String> {
    match min_compatible {
        Some(demanded) if demanded > known => Err(format!(
            "it can only be used by binaries that know version {demanded}, this one knows \
             {known}: use a newer punctual"
        )),
        _ => Ok(()),
    }
}

/// The newest of the migrations behind `applied` that raise `min_compatible`.
pub(in crate::store) fn breaks(migrator: &Migrator, applied: i64) -> Option<i64> {
    let raises = |sql: &str| sql.contains("'min_compatible'");
    let missing = migrator.iter().filter(|migration| migration.version > applied);
    missing.filter(|one| raises(one.sql.as_str())).map(|one| one.version).max()
}

/// Whether such a binary may use the store without migrating it, `applied` being the newest
/// migration in it; or why not.
fn is_up_to_date(min_compatible: Option<i64>, applied: i64, known: i64) -> Result<(), String> {
    if min_compatible.is_none() {
        return Err("it has not been set up: run `punctual migrate`".to_owned());
    }
    fits(min_compatible, known)?;
    if applied < known {
        return Err(format!(
            "it is at version {applied}, this binary needs {known}: run `punctual migrate`"
        ));
    }
    Ok(())
}

/// Returns what a store lacks for a binary that knows the migrations up to `known`, if it lacks
/// anything.
///
/// # Errors
/// `Incompatible` if the store needs a newer binary.
pub(in crate::store) async fn standing(
    connection: &mut Connection<'_>,
    known: i64,
) -> Outcome<Option<String>> {
    let min_compatible = min_compatible(connection).await?;
    let applied = match min_compatible {
        Some(_) => applied(connection).await?,
        None => 0,
    };
    fits(min_compatible, known).map_err(unfit)?;
    Ok(is_up_to_date(min_compatible, applied, known).err())
}

/// What the store demands of a binary; nothing before the first migration.
pub(in crate::store) async fn min_compatible(
    connection: &mut Connection<'_>,
) -> Outcome<Option<i64>> {
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

/// The newest migration in a store that has been set up.
pub(in crate::store) async fn applied(connection: &mut Connection<'_>) -> Outcome<i64> {
    let query = query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations");
    query.fetch_one(connection).await
}

/// The failure of a migration.
pub(in crate::store) fn fault_of(error: MigrateError) -> Fault {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
        MigrateError::VersionMismatch(version) => {
            unfit(format!("migration {version} is not the one that was applied to it"))
        }
        other => unfit(other.to_string()),
    }
}

/// A store and a binary do not fit each other.
pub(in crate::store) fn unfit(why: String) -> Fault {
    Fault::new(StoreErrorKind::Incompatible, why)
}
