//! Migrating a file, and whether it fits this binary.

use std::sync::atomic::Ordering;

use sqlx::migrate::Migrator;
use sqlx::{ConnectOptions, Connection as _, SqliteConnection};

use crate::store::Result;
use crate::store::sql::connection::Connection;
use crate::store::sql::fault::Outcome;
use crate::store::sql::version::{
    self, applied, breaks, fault_of, fits, min_compatible, newest, unfit,
};
use crate::store::sqlite::{SqliteStore, failed_in};

fn known() -> Migrator {
    let mut migrator = crate::store::migrations::sqlite();
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
        let shared = &mut Connection::from(&mut *transaction);
        let min_compatible = min_compatible(shared).await?;
        fits(min_compatible, newest(&migrator)).map_err(unfit)?;
        let breaks = match min_compatible {
            Some(_) => breaks(&migrator, applied(shared).await?).is_some(),
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
pub(in super::super) async fn standing(
    connection: &mut SqliteConnection,
) -> Outcome<Option<String>> {
    version::standing(&mut Connection::from(connection), newest(&known())).await
}
