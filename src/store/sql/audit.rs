//! Writes, lists and prunes the audit log.

use std::fmt::Display;

use async_trait::async_trait;
use sqlx::AssertSqlSafe;

use crate::domain::audit::Action;
use crate::domain::{AccountId, AuditId, Timestamp};
use crate::store::sql;
use crate::store::sql::connection::Connection;
use crate::store::sql::connection::access::{Access, Database, call};
use crate::store::sql::encoding::batch_rows::{batch_row, json};
use crate::store::sql::encoding::hex::Hex;
use crate::store::sql::error::SqlResult;
use crate::store::sql::history::old_rows::{OldRows, prune};
use crate::store::sql::idempotency;
use crate::store::{
    AuditContext, AuditEntry, AuditPage, AuditQuery, AuditStore, INSTALLATION, Result, WriteContext,
};

/// Records `action` on each of the objects. Also stores the objects with the call's idempotency
/// key, if it has one, because the answer to the call describes them.
pub(in crate::store) async fn record<T: Display>(
    connection: &mut Connection<'_>,
    write: WriteContext,
    action: Action,
    objects: impl IntoIterator<Item = T>,
) -> SqlResult<()> {
    let objects: Vec<String> = objects.into_iter().map(|object| object.to_string()).collect();
    insert(connection, write, action, &objects).await?;
    idempotency::mark(connection, write, action, &objects).await
}

/// Records an action on an object that created another object. The answer to the call describes the
/// created one.
pub(in crate::store) async fn record_making(
    connection: &mut Connection<'_>,
    write: WriteContext,
    action: Action,
    object: impl Display,
    made: impl Display,
) -> SqlResult<()> {
    insert(connection, write, action, &[object.to_string()]).await?;
    idempotency::mark(connection, write, action, &[made.to_string()]).await
}

batch_row! {
    NewEntry<'o> { id: Hex, object: &'o str }
}

async fn insert(
    connection: &mut Connection<'_>,
    write: WriteContext,
    action: Action,
    objects: &[String],
) -> SqlResult<()> {
    let entry = |(n, object)| NewEntry { id: Hex(write.entry.nth(n).to_bytes()), object };
    let entries: Vec<NewEntry> =
        objects.iter().map(String::as_str).enumerate().map(entry).collect();
    let statement = format!(
        "INSERT INTO audit_log (id, account_id, actor, action, object, origin)
         SELECT r.id, $1, $2, $3, r.object, $4 FROM {}",
        connection.dialect().rows::<NewEntry>("$5")
    );
    sql::query(AssertSqlSafe(statement))
        .bind(write.account)
        .bind(write.author.actor.to_string())
        .bind(action)
        .bind(write.author.origin.to_string())
        .bind(json(&entries))
        .run(connection)
        .await
}

#[async_trait]
impl<D: Database> AuditStore for D {
    async fn enter_rotation(&self, audit_context: &AuditContext) -> Result<()> {
        let key = self.encrypted_fields().cipher.first().to_owned();
        let entry = (audit_context.on(INSTALLATION), Action::SecretsRotated, [key]);
        self.api().transaction("enter_rotation", call(record, entry)).await
    }

    async fn enter_restoration(&self, audit_context: &AuditContext) -> Result<()> {
        let until = audit_context.now;
        let entry = (audit_context.on(INSTALLATION), Action::StoreRestored, [until]);
        self.api().transaction("enter_restoration", call(record, entry)).await
    }

    async fn enter_reading(&self, write: &WriteContext, how: Action) -> Result<()> {
        let entry = (*write, how, [write.account]);
        self.api().transaction("enter_reading", call(record, entry)).await
    }

    async fn audit_log(&self, account: AccountId, query: &AuditQuery) -> Result<AuditPage> {
        let (lowest, latest) = bounds(query);
        let mut rows = sql::query_as(AssertSqlSafe(list_text(query)))
            .bind(account)
            .bind(lowest)
            .bind(latest)
            .bind(i64::from(query.limit) + 1)
            .bind(INSTALLATION);
        if let Some(actor) = &query.actor {
            rows = rows.bind(actor.clone());
        }
        if let Some(action) = query.action {
            rows = rows.bind(action);
        }
        Ok(page(self.api().all("audit_log", rows).await?, query.limit))
    }

    async fn prune_audit_log(&self, before: Timestamp, limit: u32) -> Result<u64> {
        prune(self, "prune_audit_log", AuditId::new(before, 0), limit, OLD_ENTRIES).await
    }
}

pub(in crate::store) const OLD_ENTRIES: OldRows =
    OldRows { table: "audit_log", condition: "id < $1", order: "id" };

/// Returns the statement that reads the entries of a query. Parameters: account, lowest and highest
/// id, limit, [`INSTALLATION`]; then the actor and the action, if the query names them. There is an
/// index for each filter.
pub(in crate::store) fn list_text(query: &AuditQuery) -> String {
    let mut text = "SELECT id, actor, action, object, origin FROM audit_log
         WHERE account_id = $1 AND id BETWEEN $2 AND $3
           AND ($1 = $5 OR EXISTS (SELECT 1 FROM accounts WHERE id = $1))"
        .to_owned();
    let filters = [("actor", query.actor.is_some()), ("action", query.action.is_some())];
    for ((column, _), position) in filters.iter().filter(|(_, named)| *named).zip(6..) {
        text.push_str(&format!(" AND {column} = ${position}"));
    }
    text.push_str(" ORDER BY id DESC LIMIT $4");
    text
}

/// Returns the lowest and the highest id that pass the filters of a query.
fn bounds(query: &AuditQuery) -> (AuditId, AuditId) {
    let lowest = AuditId::new(query.from.unwrap_or_default(), 0);
    let latest =
        query.to.map_or(AuditId::from_bytes([u8::MAX; 16]), |to| AuditId::new(to, u128::MAX));
    let before = |id: AuditId| u128::from_be_bytes(id.to_bytes()).saturating_sub(1);
    let after = query.after.map(|after| AuditId::from_bytes(before(after).to_be_bytes()));
    (lowest, after.map_or(latest, |after| after.min(latest)))
}

/// Returns the page of the first `limit` entries. The list has one entry more if there are more.
fn page(mut entries: Vec<AuditEntry>, limit: u32) -> AuditPage {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    AuditPage { entries, has_more }
}
