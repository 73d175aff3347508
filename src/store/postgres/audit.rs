//! The audit log.

use async_trait::async_trait;
use sqlx::PgConnection;

use super::error::Outcome;
use super::{PostgresStore, Within, audit_entries};
use crate::domain::audit::Action;
use crate::domain::{AccountId, AuditId, Timestamp};
use crate::store::audit::page;
use crate::store::{Act, AuditPage, AuditQuery, AuditStore, INSTALLATION, Result, Write};

pub(super) use super::audit_entries::{record, record_making};

/// Writes an entry for each of the objects.
pub(super) async fn enter(
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
    async fn enter_rotation(&self, act: &Act) -> Result<()> {
        let (write, key) = (act.on(INSTALLATION), self.vault.sealer.first().to_owned());
        self.api
            .run("enter_rotation", Within::Statement, move |connection| {
                Box::pin(record(connection, write, Action::SecretsRotated, [key.clone()]))
            })
            .await
    }

    async fn enter_restoration(&self, act: &Act) -> Result<()> {
        let (write, until) = (act.on(INSTALLATION), act.now);
        self.api
            .run("enter_restoration", Within::Statement, move |connection| {
                Box::pin(record(connection, write, Action::StoreRestored, [until]))
            })
            .await
    }

    async fn enter_reading(&self, write: &Write, how: Action) -> Result<()> {
        let write = *write;
        self.api
            .run("enter_reading", Within::Statement, move |connection| {
                Box::pin(record(connection, write, how, [write.account]))
            })
            .await
    }

    async fn audit_log(&self, account: AccountId, query: &AuditQuery) -> Result<AuditPage> {
        let (asked, limit) = (query.clone(), query.limit);
        let entries = self.api.run("audit_log", Within::Statement, move |connection| {
            let query = audit_entries::listed(account, &asked);
            Box::pin(async move { Ok(query.fetch_all(connection).await?) })
        });
        Ok(page(entries.await?, limit))
    }

    async fn prune_audit_log(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.scheduler
            .run("prune_audit_log", Within::Statement, move |connection| {
                Box::pin(audit_entries::prune(connection, before, limit))
            })
            .await
    }
}

pub(super) const PRUNE: &str = "
    DELETE FROM audit_log WHERE id IN
        (SELECT id FROM audit_log WHERE id < $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)";
