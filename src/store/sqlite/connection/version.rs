//! Migrates a file, and checks that it fits this binary.

use std::sync::atomic::Ordering;

use sqlx::migrate::Migrator;
use sqlx::{ConnectOptions, Connection as _, SqliteConnection};

use crate::store::Result;
use crate::store::sql::connection::Connection;
use crate::store::sql::connection::version::{
    self, applied, breaks, fits, migration_error, min_compatible, newest, unfit,
};
use crate::store::sql::error::SqlResult;
use crate::store::sqlite::{SqliteStore, failed_in};

fn known() -> Migrator {
    let mut migrator = crate::store::migrations::sqlite();
    migrator.set_ignore_missing(true);
    migrator
}

impl SqliteStore {
    /// Applies the missing migrations, all or none. Processes that migrate at the same time wait
    /// for each other.
    ///
    /// # Errors
    /// `Incompatible` if the store needs a newer binary or was altered by hand, or if it is used by
    /// a server that could not use it afterwards.
    pub async fn migrate(&self) -> Result<()> {
        self.apply_missing().await.map_err(failed_in("migrate"))
    }

    /// Checks that this binary can use the store as it is. For processes that must not migrate the
    /// store.
    ///
    /// # Errors
    /// `Incompatible` if the store needs a newer binary or migrations that are missing.
    pub async fn check_version(&self) -> Result<()> {
        self.compare().await.map_err(failed_in("check_version"))
    }

    async fn apply_missing(&self) -> SqlResult<()> {
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
        // No server of an older version may use the file during and after such a migration. If one
        // runs, taking its lock fails. If this process is the server, it has the lock already.
        let is_server = self.locked.load(Ordering::Relaxed);
        let alone = (breaks && !is_server).then(|| self.keep_others_away()).transpose()?;
        migrator.run_direct(None, &mut *transaction, false).await.map_err(migration_error)?;
        transaction.commit().await?;
        drop(alone);
        connection.close().await?;
        Ok(())
    }

    async fn compare(&self) -> SqlResult<()> {
        let mut connection = self.options.connect().await?;
        let incompatibility = incompatibility(&mut connection).await?;
        connection.close().await?;
        incompatibility.map_or(Ok(()), |lacks| Err(unfit(lacks)))
    }
}

/// Returns what the store lacks for this binary; `None` if it lacks nothing.
///
/// # Errors
/// `Incompatible` if the store needs a newer binary.
pub(in crate::store::sqlite) async fn incompatibility(
    connection: &mut SqliteConnection,
) -> SqlResult<Option<String>> {
    version::incompatibility(&mut Connection::from(connection), newest(&known())).await
}
