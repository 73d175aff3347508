//! Migrating a database, and whether it fits this binary.

use std::time::Duration;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, Connection as _, Executor, PgConnection, SqlSafeStr};

use crate::runtime::Clock;
use crate::runtime::faults::later_migration;
use crate::store::postgres::{PostgresStore, failed_in};
use crate::store::sql::connection::Connection;
use crate::store::sql::fault::{Fault, Outcome, Remedy};
use crate::store::sql::version::{
    self, applied, breaks, fault_of, fits, min_compatible, newest, unfit,
};
use crate::store::{Result, StoreErrorKind};

/// The oldest server, as it numbers itself.
pub(in super::super) const OLDEST_SERVER: u32 = 130_000;
/// How long migrations may take.
const MIGRATION: Duration = Duration::from_secs(3_600);
/// How long a migration waits for tables that somebody uses: everybody else waits behind it. What is
/// there already is not told.
const WHILE_MIGRATING: &str =
    "SET LOCAL lock_timeout = '1s'; SET LOCAL client_min_messages = warning";
/// How long everybody else goes on before it is tried again.
const PAUSE: Duration = Duration::from_secs(2);
/// How long asking for the version may take.
const PATIENCE: Duration = Duration::from_secs(8);

/// The number of a test's own migration.
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
    /// Applies the migrations that are missing, all or none. Replicas that do it at the same time
    /// wait for each other. Most migrations only add, so that others may go on meanwhile; while
    /// somebody uses a table for long, it is tried again and again.
    ///
    /// # Errors
    /// `Incompatible` if the store needs a newer binary, or has been altered by hand, or the
    /// server is too old; `Unavailable` if it does not answer, or if replicas work with it that
    /// could not do so afterwards.
    pub async fn migrate(&self) -> Result<()> {
        let patiently = async {
            loop {
                match self.apply_missing().await {
                    Err(fault) if fault.remedy == Remedy::PassOver => {
                        tracing::warn!(%fault, "cannot migrate yet, trying again: end that transaction");
                    }
                    migrated => return migrated,
                }
                Clock::system().sleep(PAUSE).await;
            }
        };
        let migrated = tokio::time::timeout(MIGRATION, patiently).await;
        migrated.unwrap_or_else(|_| Err(Fault::no_answer())).map_err(failed_in("migrate"))
    }

    /// Whether this binary can use the store as it is, for those that must not migrate.
    ///
    /// # Errors
    /// `Incompatible` if the store needs a newer binary or migrations that are missing;
    /// `Unavailable` if the server does not answer.
    pub async fn check_version(&self) -> Result<()> {
        let compared = tokio::time::timeout(PATIENCE, self.compare()).await;
        compared.unwrap_or_else(|_| Err(Fault::no_answer())).map_err(failed_in("check_version"))
    }

    async fn apply_missing(&self) -> Outcome<()> {
        let migrator = known();
        let mut connection = self.connect().await?;
        check_server(&connection)?;
        let mut transaction = connection.begin().await?;
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
                nobody_works(&mut transaction, version).await?;
            }
        }
        migrator.run_direct(None, &mut *transaction, false).await.map_err(fault_of)?;
        transaction.commit().await?;
        connection.close().await?;
        Ok(())
    }

    async fn compare(&self) -> Outcome<()> {
        let mut connection = self.connect().await?;
        check_server(&connection)?;
        let standing = standing(&mut connection).await?;
        connection.close().await?;
        standing.map_or(Ok(()), |lacks| Err(unfit(lacks)))
    }
}

/// What a store lacks that this binary needs, if it lacks anything.
///
/// # Errors
/// `Incompatible` if the store needs a newer binary.
pub(in super::super) async fn standing(connection: &mut PgConnection) -> Outcome<Option<String>> {
    version::standing(&mut Connection::from(connection), newest(&known())).await
}

fn check_server(connection: &PgConnection) -> Outcome<()> {
    match connection.server_version_num() {
        Some(version) if version < OLDEST_SERVER => {
            Err(unfit(format!("the server is too old ({version}): use PostgreSQL 13 or later")))
        }
        _ => Ok(()),
    }
}

/// Makes sure that no replica is connected: before the migration all are of an older version.
async fn nobody_works(connection: &mut PgConnection, version: i64) -> Outcome<()> {
    let from: Option<String> = sqlx::query_scalar(
        "SELECT string_agg(DISTINCT coalesce(host(client_addr), 'its own machine'), ', ')
         FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'punctual %'",
    )
    .fetch_one(connection)
    .await?;
    match from {
        None => Ok(()),
        Some(from) => Err(Fault::new(
            StoreErrorKind::Unavailable,
            format!(
                "replicas of an older version work with it and cannot read what version {version} \
                 writes: stop all of them first; they are connected from {from}"
            ),
        )),
    }
}
