//! Which binary fits which store.
//!
//! Migrations are numbered. The store knows which were applied and keeps `min_compatible`, the
//! number of the last one that a binary must know. Most migrations only add; a binary that does
//! not know them goes on working. One that takes something away raises `min_compatible`, and from
//! then on binaries that do not know it refuse the store.

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{ConnectOptions, Connection, SqliteConnection};

use super::error::{Fault, Outcome};
use super::{SqliteStore, failed_in};
use crate::store::{Result, StoreErrorKind};

fn known() -> Migrator {
    let mut migrator = sqlx::migrate!("migrations/sqlite");
    migrator.set_ignore_missing(true);
    migrator
}

/// The number of the newest migration in this binary.
fn newest(migrator: &Migrator) -> i64 {
    migrator.iter().map(|migration| migration.version).max().unwrap_or(0)
}

impl SqliteStore {
    /// Applies the migrations that are missing, all or none. Processes that do it at the same
    /// time wait for each other.
    ///
    /// # Errors
    /// `Incompatible` if the store needs a newer binary, or has been altered by hand.
    pub async fn migrate(&self) -> Result<()> {
        self.apply_missing().await.map_err(failed_in("migrate"))
    }

    /// Whether this binary can use the store as it is, for those that must not migrate.
    ///
    /// # Errors
    /// `Incompatible` if the store needs a newer binary or migrations that are missing.
    pub async fn check_version(&self) -> Result<()> {
        self.compare().await.map_err(failed_in("check_version"))
    }

    async fn apply_missing(&self) -> Outcome<()> {
        let migrator = known();
        let mut connection = self.options.connect().await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        refuse_newer(min_compatible(&mut transaction).await?, newest(&migrator))?;
        migrator.run_direct(None, &mut *transaction, false).await.map_err(fault_of)?;
        transaction.commit().await?;
        connection.close().await?;
        Ok(())
    }

    async fn compare(&self) -> Outcome<()> {
        let known = newest(&known());
        let mut connection = self.options.connect().await?;
        let Some(min_compatible) = min_compatible(&mut connection).await? else {
            let message = "it has not been set up: run `punctual migrate`";
            return Err(Fault::new(StoreErrorKind::Incompatible, message));
        };
        refuse_newer(Some(min_compatible), known)?;
        let applied: i64 =
            sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations")
                .fetch_one(&mut connection)
                .await?;
        connection.close().await?;
        if applied < known {
            let message = format!(
                "it is at version {applied}, this binary needs {known}: run `punctual migrate`"
            );
            return Err(Fault::new(StoreErrorKind::Incompatible, message));
        }
        Ok(())
    }
}

/// What the store demands of a binary; nothing before the first migration.
async fn min_compatible(connection: &mut SqliteConnection) -> Outcome<Option<i64>> {
    let tables: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'meta'",
    )
    .fetch_one(&mut *connection)
    .await?;
    if tables == 0 {
        return Ok(None);
    }
    let demanded = sqlx::query_scalar("SELECT value FROM meta WHERE name = 'min_compatible'")
        .fetch_optional(connection)
        .await?;
    Ok(demanded)
}

fn refuse_newer(min_compatible: Option<i64>, known: i64) -> Outcome<()> {
    match min_compatible {
        Some(demanded) if demanded > known => Err(Fault::new(
            StoreErrorKind::Incompatible,
            format!(
                "it can only be used by binaries that know version {demanded}, this one knows \
                 {known}: use a newer punctual"
            ),
        )),
        _ => Ok(()),
    }
}

fn fault_of(error: MigrateError) -> Fault {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
        MigrateError::VersionMismatch(version) => Fault::new(
            StoreErrorKind::Incompatible,
            format!("migration {version} is not the one that was applied to it"),
        ),
        other => Fault::new(StoreErrorKind::Incompatible, other.to_string()),
    }
}
