//! Which binary fits which store.
//!
//! Migrations are numbered. The store knows which were applied and keeps `min_compatible`, the
//! number of the last one that a binary must know. Most migrations only add; a binary that does
//! not know them goes on working. One that takes something away raises `min_compatible`: binaries
//! that do not know it refuse the store from then on, and as long as one of them works with the
//! store, it is not applied.

use sqlx::migrate::Migrator;

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
pub(in crate::store) fn is_up_to_date(
    min_compatible: Option<i64>,
    applied: i64,
    known: i64,
) -> Result<(), String> {
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

/// What is wrong with a store whose migration of that number is another one.
pub(in crate::store) fn altered(version: i64) -> String {
    format!("migration {version} is not the one that was applied to it")
}
