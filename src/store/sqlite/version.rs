//! Migrating a file, and whether it fits this binary.

use std::sync::atomic::Ordering;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{ConnectOptions, Connection, SqliteConnection};

use super::{SqliteStore, failed_in};
use crate::store::sql::fault::{Fault, Outcome};
use crate::store::version::{altered, breaks, fits, is_up_to_date, newest};
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
    /// `Incompatible` if the store needs a newer binary, or has been altered by hand, or if a
    /// server uses it that could not do so afterwards.
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
        let min_compatible = min_compatible(&mut transaction).await?;
        fits(min_compatible, newest(&migrator)).map_err(unfit)?;
        let breaks = match min_compatible {
            Some(_) => breaks(&migrator, applied(&mut transaction).await?).is_some(),
            None => false,
        };
        // A server of an older version is kept away, or is told about.
        let is_server = self.locked.load(Ordering::Relaxed);
        let alone = (breaks && !is_server).then(|| self.keep_others_away()).transpose()?;
        migrator.run_direct(None, &mut *transaction, false).await.map_err(fault_of)?;
        transaction.commit().await?;
        drop(alone);
        connection.close().await?;
        Ok(())
    }

    async fn compare(&self) -> Outcome<()> {
        let mut connection = self.options.connect().await?;
        let standing = standing(&mut connection).await?;
        connection.close().await?;
        standing.map_or(Ok(()), |lacks| Err(unfit(lacks)))
    }
}

/// What a store lacks that this binary needs, if it lacks anything.
///
/// # Errors
/// `Incompatible` if the store needs a newer binary.
pub(super) async fn standing(connection: &mut SqliteConnection) -> Outcome<Option<String>> {
    let known = newest(&known());
    let min_compatible = min_compatible(&mut *connection).await?;
    let applied = match min_compatible {
        Some(_) => applied(connection).await?,
        None => 0,
    };
    fits(min_compatible, known).map_err(unfit)?;
    Ok(is_up_to_date(min_compatible, applied, known).err())
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

/// The newest migration in a store that has been set up.
async fn applied(connection: &mut SqliteConnection) -> Outcome<i64> {
    let query = sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations");
    Ok(query.fetch_one(connection).await?)
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
