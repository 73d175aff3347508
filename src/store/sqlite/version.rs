//! Migrating a file, and whether it fits this binary.

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{ConnectOptions, Connection, SqliteConnection};

use super::error::{Fault, Outcome};
use super::{SqliteStore, failed_in};
use crate::store::version::{altered, fits, is_up_to_date, newest};
use crate::store::{Result, StoreErrorKind};

fn known() -> Migrator {
    let mut migrator = sqlx::migrate!("migrations/sqlite");
    migrator.set_ignore_missing(true);
    migrator
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
        fits(min_compatible(&mut transaction).await?, newest(&migrator)).map_err(unfit)?;
        migrator.run_direct(None, &mut *transaction, false).await.map_err(fault_of)?;
        transaction.commit().await?;
        connection.close().await?;
        Ok(())
    }

    async fn compare(&self) -> Outcome<()> {
        let known = newest(&known());
        let mut connection = self.options.connect().await?;
        let min_compatible = min_compatible(&mut connection).await?;
        let applied = match min_compatible {
            Some(_) => {
                sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations")
                    .fetch_one(&mut connection)
                    .await?
            }
            None => 0,
        };
        connection.close().await?;
        is_up_to_date(min_compatible, applied, known).map_err(unfit)
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

fn fault_of(error: MigrateError) -> Fault {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
        MigrateError::VersionMismatch(version) => unfit(altered(version)),
        other => unfit(other.to_string()),
    }
}

fn unfit(why: String) -> Fault {
    Fault::new(StoreErrorKind::Incompatible, why)
}
