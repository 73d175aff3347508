//! The audit log.

use std::fmt::Display;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, PgConnection};

use super::error::Outcome;
use super::idempotency;
use super::{PostgresStore, Within};
use crate::domain::audit::Action;
use crate::domain::{AccountId, AuditId, Timestamp};
use crate::store::audit::{bounds, list_text, page};
use crate::store::{AuditEntry, AuditPage, AuditQuery, AuditStore, Result, Write};

/// Enters that `action` was done to each of the objects. They are what the answer to the call is
/// about: its reservation, if it has one, keeps them.
pub(super) async fn record<T: Display>(
    connection: &mut PgConnection,
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
    connection: &mut PgConnection,
    write: Write,
    action: Action,
    object: impl Display,
    made: impl Display,
) -> Outcome<()> {
    enter(connection, write, action, &[object.to_string()]).await?;
    idempotency::mark(connection, write, action, &[made.to_string()]).await
}

async fn enter(
    connection: &mut PgConnection,
    write: Write,
    action: Action,
    objects: &[String],
) -> Outcome<()> {
    let ids: Vec<AuditId> = (0..objects.len()).map(|n| write.entry.nth(n)).collect();
    sqlx::query(
        "INSERT INTO audit_log (id, account_id, actor, action, object, origin)
         SELECT e.id, $1, $2, $3, e.object, $4
         FROM unnest($5::uuid[], $6::text[]) AS e (id, object)",
    )
    .bind(write.account)
    .bind(write.author.actor.to_string())
    .bind(action)
    .bind(write.author.origin.to_string())
    .bind(ids)
    .bind(objects)
    .execute(connection)
    .await?;
    Ok(())
}

#[async_trait]
impl AuditStore for PostgresStore {
    async fn audit_log(&self, account: AccountId, query: &AuditQuery) -> Result<AuditPage> {
        let query = Arc::new(query.clone());
        self.api
            .run("audit_log", Within::Statement, move |connection| {
                Box::pin(list(connection, account, query.clone()))
            })
            .await
    }

    async fn prune_audit_log(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.scheduler
            .run("prune_audit_log", Within::Statement, move |connection| {
                Box::pin(async move {
                    let pruned = sqlx::query(PRUNE)
                        .bind(AuditId::new(before, 0))
                        .bind(i64::from(limit))
                        .execute(connection)
                        .await?;
                    Ok(pruned.rows_affected())
                })
            })
            .await
    }
}

async fn list(
    connection: &mut PgConnection,
    account: AccountId,
    query: Arc<AuditQuery>,
) -> Outcome<AuditPage> {
    let (lowest, latest) = bounds(&query);
    let mut rows = sqlx::query_as(AssertSqlSafe(list_text(&query)))
        .bind(account)
        .bind(lowest)
        .bind(latest)
        .bind(i64::from(query.limit) + 1);
    if let Some(actor) = &query.actor {
        rows = rows.bind(actor);
    }
    if let Some(action) = query.action {
        rows = rows.bind(action);
    }
    let entries: Vec<AuditEntry> = rows.fetch_all(connection).await?;
    Ok(page(entries, query.limit))
}

const PRUNE: &str = "
    DELETE FROM audit_log WHERE id IN
        (SELECT id FROM audit_log WHERE id < $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)";
