//! The check that no other process uses a database.

use std::time::Duration;

use sqlx::{Connection, PgConnection};

use crate::store::postgres::{PostgresStore, failed_in};
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::{Result, StoreErrorKind};

/// The time limit of the check.
const TIMEOUT: Duration = Duration::from_secs(8);

impl PostgresStore {
    /// Fails if another process uses this store. Must be called before this process has used it,
    /// because it would find its own connections.
    ///
    /// # Errors
    /// `Unavailable` if another process does, or if the server does not answer.
    pub async fn check_unused(&self) -> Result<()> {
        let asked = tokio::time::timeout(TIMEOUT, async {
            let mut connection = self.connect().await?;
            no_other_session(&mut connection).await?;
            connection.close().await?;
            Ok(())
        });
        asked
            .await
            .unwrap_or_else(|_| Err(SqlError::no_answer()))
            .map_err(failed_in("check_unused"))
    }
}

/// Fails if there is another connection of a replica or a command to the database.
pub(in crate::store::postgres) async fn no_other_session(
    connection: &mut PgConnection,
) -> SqlResult<()> {
    let others: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'punctual %'
           AND pid <> pg_backend_pid()",
    )
    .fetch_one(connection)
    .await?;
    if others == 0 {
        return Ok(());
    }
    let why = "another punctual process uses the store: stop its replicas first";
    Err(SqlError::new(StoreErrorKind::Unavailable, why))
}
