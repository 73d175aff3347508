//! Entries of the audit log, of both adapters: each has this file as a module of its own, and beside
//! it says in `audit` how several are written at once.

use std::fmt::Display;

use sqlx::AssertSqlSafe;

use super::audit::{PRUNE, enter};
use super::error::Outcome;
use super::{Connection, Read, reservations};
use crate::domain::audit::Action;
use crate::domain::{AccountId, AuditId, Timestamp};
use crate::store::audit::{bounds, list_text};
use crate::store::{AuditEntry, AuditQuery, INSTALLATION, Write};

/// Enters that `action` was done to each of the objects. They are what the answer to the call is
/// about: its reservation, if it has one, keeps them.
pub(super) async fn record<T: Display>(
    connection: &mut Connection,
    write: Write,
    action: Action,
    objects: impl IntoIterator<Item = T>,
) -> Outcome<()> {
    let objects: Vec<String> = objects.into_iter().map(|object| object.to_string()).collect();
    enter(connection, write, action, &objects).await?;
    reservations::mark(connection, write, action, &objects).await
}

/// The same for what was done to one object and has made another one, which the answer is about.
pub(super) async fn record_making(
    connection: &mut Connection,
    write: Write,
    action: Action,
    object: impl Display,
    made: impl Display,
) -> Outcome<()> {
    enter(connection, write, action, &[object.to_string()]).await?;
    reservations::mark(connection, write, action, &[made.to_string()]).await
}

/// Reads the entries that `query` asks for, and one more.
pub(super) fn listed(account: AccountId, query: &AuditQuery) -> Read<AuditEntry> {
    let (lowest, latest) = bounds(query);
    let mut rows = sqlx::query_as(AssertSqlSafe(list_text(query)))
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
    rows
}

pub(super) async fn prune(
    connection: &mut Connection,
    before: Timestamp,
    limit: u32,
) -> Outcome<u64> {
    let query = sqlx::query(PRUNE).bind(AuditId::new(before, 0)).bind(i64::from(limit));
    Ok(query.execute(connection).await?.rows_affected())
}
