//! Who else works with a database.

use std::time::Duration;

use sqlx::{Connection, PgConnection};

use super::{PostgresStore, failed_in};
use crate::store::sql::fault::{Fault, Outcome};
use crate::store::{Result, StoreErrorKind};

/// How long asking may take.
const PATIENCE: Duration = Duration::from_secs(8);

impl PostgresStore {
    /// Makes sure that nobody else works with this store. To be called before this process has used
    /// it: it would find itself.
    ///
    /// # Errors
    /// `Unavailable` if somebody does, or if the server does not answer.
    pub async fn check_unused(&self) -> Result<()> {
        let asked = tokio::time::timeout(PATIENCE, async {
            let mut connection = self.connect().await?;
            nobody_else(&mut connection).await?;
            connection.close().await?;
            Ok(())
        });
        asked.await.unwrap_or_else(|_| Err(Fault::no_answer())).map_err(failed_in("check_unused"))
    }
}

/// Makes sure that there is no other connection of a replica or a command to the database.
pub(super) async fn nobody_else(connection: &mut PgConnection) -> Outcome<()> {
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
    let why = "another punctual works with it: stop its replicas first";
    Err(Fault::new(StoreErrorKind::Unavailable, why))
}
