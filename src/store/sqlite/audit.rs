//! The audit log.

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::error::Outcome;
use super::values::{hex, json_rows};
use super::{SqliteStore, audit_entries, failed_in};
use crate::domain::audit::Action;
use crate::domain::{AccountId, Timestamp};
use crate::store::audit::page;
use crate::store::{Act, AuditPage, AuditQuery, AuditStore, INSTALLATION, Result, Write};

pub(super) use super::audit_entries::{record, record_making};

/// Writes an entry for each of the objects.
pub(super) async fn enter(
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
    async fn enter_rotation(&self, act: &Act) -> Result<()> {
        let (write, key) = (act.on(INSTALLATION), self.vault.sealer.first().to_owned());
        self.write("enter_rotation", move |connection| {
            Box::pin(record(connection, write, Action::SecretsRotated, [key]))
        })
        .await
    }

    async fn enter_restoration(&self, act: &Act) -> Result<()> {
        let (write, until) = (act.on(INSTALLATION), act.now);
        self.write("enter_restoration", move |connection| {
            Box::pin(record(connection, write, Action::StoreRestored, [until]))
        })
        .await
    }

    async fn enter_reading(&self, write: &Write, how: Action) -> Result<()> {
        let write = *write;
        self.write("enter_reading", move |connection| {
            Box::pin(record(connection, write, how, [write.account]))
        })
        .await
    }

    async fn audit_log(&self, account: AccountId, query: &AuditQuery) -> Result<AuditPage> {
        let entries = self.readers.all(audit_entries::listed(account, query)).await;
        Ok(page(entries.map_err(failed_in("audit_log"))?, query.limit))
    }

    async fn prune_audit_log(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.write_rows("prune_audit_log", limit as usize, move |connection| {
            Box::pin(audit_entries::prune(connection, before, limit))
        })
        .await
    }
}

pub(super) const PRUNE: &str = "
    DELETE FROM audit_log WHERE id IN
        (SELECT id FROM audit_log WHERE id < ?1 ORDER BY id LIMIT ?2)";
