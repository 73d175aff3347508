//! Migrates a database, and checks that it fits this binary.

use std::time::Duration;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, Connection as _, Executor, PgConnection, SqlSafeStr};

use crate::runtime::Clock;
use crate::runtime::faults::later_migration;
use crate::store::postgres::{PostgresStore, failed_in};
use crate::store::sql::connection::Connection;
use crate::store::sql::connection::version::{
    self, applied, breaks, fits, migration_error, min_compatible, newest, unfit,
};
use crate::store::sql::error::{Remedy, SqlError, SqlResult};
use crate::store::{Result, StoreErrorKind};

/// The oldest supported version of the server, PostgreSQL 13, in the server's own numbering.
pub(in crate::store::postgres) const OLDEST_SERVER: u32 = 130_000;
/// The time limit of all migrations together, including the waits for locks.
const MIGRATION: Duration = Duration::from_secs(3_600);
/// The settings of a migration. It waits at most 1 s for a locked table, because other transactions
/// queue behind it. Notices, for example about tables that exist already, are suppressed.
const WHILE_MIGRATING: &str =
    "SET LOCAL lock_timeout = '1s'; SET LOCAL client_min_messages = warning";
/// The pause before the next try, in which the transactions that queued behind it continue.
const PAUSE: Duration = Duration::from_secs(2);
/// The time limit of the version check.
const TIMEOUT: Duration = Duration::from_secs(8);

/// The number of the migration that a test adds.
const LATER: i64 = 9_999;

fn known() -> Migrator {
    let mut migrator = crate::store::migrations::postgres();
    if let Some(later) = later_migration() {
        let later = AssertSqlSafe(later).into_sql_str();
        let later = Migration::new(LATER, "later".into(), MigrationType::Simple, later, false);
        let migrations = migrator.iter().cloned().chain([later]);
        migrator = Migrator::with_migrations(migrations.collect());
    }
    migrator.set_ignore_missing(true).set_locking(false);
    migrator
}

impl PostgresStore {
    /// Applies the missing migrations, all or none. Replicas that migrate at the same time wait for
    /// each other. Most migrations only add, so other replicas may use the store meanwhile. While
    /// another transaction locks a table for long, the migrations are tried again and again.
    ///
    /// # Errors
    /// `Incompatible` if the store needs a newer binary or was altered by hand, or if the server is
    /// too old; `Unavailable` if the server does not answer, or if replicas are connected that
    /// could not use the store afterwards.
    pub async fn migrate(&self) -> Result<()> {
        let migration = async {
            loop {
                match self.apply_missing().await {
                    Err(error) if error.remedy == Remedy::PassOver => {
                        tracing::warn!(
                            %error,
                            "cannot migrate yet, trying again: end the other transaction"
                        );
                    }
                    migrated => return migrated,
                }
                Clock::system().sleep(PAUSE).await;
            }
        };
        let migrated = tokio::time::timeout(MIGRATION, migration).await;
        migrated.unwrap_or_else(|_| Err(SqlError::no_answer())).map_err(failed_in("migrate"))
    }

    /// Checks that this binary can use the store as it is. For processes that must not migrate the
    /// store.
    ///
    /// # Errors
    /// `Incompatible` if the store needs a newer binary or migrations that are missing;
    /// `Unavailable` if the server does not answer.
    pub async fn check_version(&self) -> Result<()> {
        let compared = tokio::time::timeout(TIMEOUT, self.compare()).await;
        compared.unwrap_or_else(|_| Err(SqlError::no_answer())).map_err(failed_in("check_version"))
    }

    async fn apply_missing(&self) -> SqlResult<()> {
        let migrator = known();
        let mut connection = self.connect().await?;
        check_server(&connection)?;
        let mut transaction = connection.begin().await?;
        // Replicas that migrate at the same time wait here.
        sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('punctual migrate', 0))")
            .execute(&mut *transaction)
            .await?;
        transaction.execute(WHILE_MIGRATING).await?;
        let shared = &mut Connection::from(&mut *transaction);
        let min_compatible = min_compatible(shared).await?;
        fits(min_compatible, newest(&migrator)).map_err(unfit)?;
        if min_compatible.is_some() {
            let applied = applied(shared).await?;
            if let Some(version) = breaks(&migrator, applied) {
                no_replica_works(&mut transaction, version).await?;
            }
        }
        migrator.run_direct(None, &mut *transaction, false).await.map_err(migration_error)?;
        transaction.commit().await?;
        connection.close().await?;
        Ok(())
    }

    async fn compare(&self) -> SqlResult<()> {
        let mut connection = self.connect().await?;
        check_server(&connection)?;
        let incompatibility = incompatibility(&mut connection).await?;
        connection.close().await?;
        incompatibility.map_or(Ok(()), |lacks| Err(unfit(lacks)))
    }
}

/// Returns what the store lacks for this binary; `None` if it lacks nothing.
///
/// # Errors
/// `Incompatible` if the store needs a newer binary.
pub(in crate::store::postgres) async fn incompatibility(
    connection: &mut PgConnection,
) -> SqlResult<Option<String>> {
    version::incompatibility(&mut Connection::from(connection), newest(&known())).await
}

fn check_server(connection: &PgConnection) -> SqlResult<()> {
    match connection.server_version_num() {
        Some(version) if version < OLDEST_SERVER => {
            Err(unfit(format!("the server is too old ({version}): use PostgreSQL 13 or later")))
        }
        _ => Ok(()),
    }
}

/// Fails if a replica is connected. Before the migration, all connected replicas are of an older
/// version.
async fn no_replica_works(connection: &mut PgConnection, version: i64) -> SqlResult<()> {
    let from: Option<String> = sqlx::query_scalar(
        "SELECT string_agg(DISTINCT coalesce(host(client_addr), 'its own machine'), ', ')
         FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'punctual %'",
    )
    .fetch_one(connection)
    .await?;
    match from {
        None => Ok(()),
        Some(from) => Err(SqlError::new(
            StoreErrorKind::Unavailable,
            format!(
                "replicas of an older version use it and cannot read the data of version \
                 {version}: stop all of them first; they are connected from {from}"
            ),
        )),
    }
}
