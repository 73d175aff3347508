//! The audit log.

use std::fmt::Display;

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, SqliteConnection};

use super::error::Outcome;
use super::idempotency;
use super::values::{hex, json_rows};
use super::{SqliteStore, failed_in};
use crate::domain::audit::Action;
use crate::domain::{AccountId, AuditId, Timestamp};
use crate::store::audit::{bounds, list_text, page};
use crate::store::{AuditEntry, AuditPage, AuditQuery, AuditStore, Result, Write};

/// Enters that `action` was done to each of the objects. They are what the answer to the call is
/// about: its reservation, if it has one, keeps them.
pub(super) async fn record<T: Display>(
    connection: &mut SqliteConnection,
    write: Write,
    action: Action,
    objects: impl IntoIterator<Item = T>,
) -> Outcome<()> {
    let objects: Vec<String> = objects.into_iter().map(|object| object.to_string()).collect();
    enter(connection, write, action, &objects).await?;
    idempotency::mark(connection, write, action, &objects).await
}

/// The same for what was done to one object and has made another one, which the answer is about.
pub(super) async fn record_making(
    connection: &mut SqliteConnection,
    write: Write,
    action: Action,
    object: impl Display,
    made: impl Display,
) -> Outcome<()> {
    enter(connection, write, action, &[object.to_string()]).await?;
    idempotency::mark(connection, write, action, &[made.to_string()]).await
}

async fn enter(
    connection: &mut SqliteConnection,
    write: Write,
    action: Action,
    objects: &[String],
) -> Outcome<()> {
    let row = |(n, object)| (hex(&write.entry.nth(n)), object);
    let rows = json_rows(&objects.iter().enumerate().map(row).collect::<Vec<_>>());
    sqlx::query(
        "INSERT INTO audit_log (id, account_id, actor, action, object, origin)
         SELECT unhex(value ->> 0), ?1, ?2, ?3, value ->> 1, ?4 FROM jsonb_each(?5)",
    )
    .bind(write.account)
    .bind(write.author.actor.to_string())
    .bind(action)
    .bind(write.author.origin.to_string())
    .bind(rows)
    .execute(connection)
    .await?;
    Ok(())
}

#[async_trait]
impl AuditStore for SqliteStore {
    async fn audit_log(&self, account: AccountId, query: &AuditQuery) -> Result<AuditPage> {
        let (lowest, latest) = bounds(query);
        let mut rows = sqlx::query_as(AssertSqlSafe(list_text(query)))
            .bind(account)
            .bind(lowest)
            .bind(latest)
            .bind(i64::from(query.limit) + 1);
        if let Some(actor) = &query.actor {
            rows = rows.bind(actor.clone());
        }
        if let Some(action) = query.action {
            rows = rows.bind(action);
        }
        let entries: Vec<AuditEntry> =
            self.readers.all(rows).await.map_err(failed_in("audit_log"))?;
        Ok(page(entries, query.limit))
    }

    async fn prune_audit_log(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.write_rows("prune_audit_log", limit as usize, move |connection| {
            Box::pin(async move {
                let pruned = sqlx::query(PRUNE)
                    .bind(AuditId::new(before, 0))
                    .bind(limit)
                    .execute(connection)
                    .await?;
                Ok(pruned.rows_affected())
            })
        })
        .await
    }
}

pub(super) const PRUNE: &str = "
    DELETE FROM audit_log WHERE id IN
        (SELECT id FROM audit_log WHERE id < ?1 ORDER BY id LIMIT ?2)";
