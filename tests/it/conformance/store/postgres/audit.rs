//! The audit log.

use super::super::audit;
use super::world;
use crate::harness::database::Database;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_stays_as_it_was_written() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let tamper = async |sql: &'static str| {
        let changed = sqlx::query(sql).execute(&mut database.second_connection().await).await;
        changed.err().map(|error| error.to_string())
    };
    audit::an_entry_stays_as_it_was_written(&w, tamper).await;
}
