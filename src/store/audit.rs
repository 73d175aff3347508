//! The audit log: who did what to which object, from where, for every change that somebody made.
//!
//! Entries are written by the changing methods themselves, each in the transaction of its change;
//! none is ever changed. A change of a user is entered for each account that the user belongs to.
//! What the stages do (firing, claiming, committing, pruning) is no change that somebody made: the
//! jobs and skips are its record.
//!
//! An entry holds names and ids, never a value that was written: there are no secrets in it.

use super::{Act, Result, Write};
use crate::domain::audit::Action;
use crate::domain::{AccountId, AuditId, Timestamp};
use crate::runtime::measured;

/// Of whom what is done to no account's data is: of no account, so that nobody but an operator reads
/// it.
pub const INSTALLATION: AccountId = AccountId::from_bytes([0; 16]);

/// A change, as the log keeps it. When it was made is in its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its id.
    pub id: AuditId,
    /// Who: the text of an [`Actor`](crate::domain::audit::Actor).
    pub actor: String,
    /// What was done: the text of an [`Action`], or of one that only newer releases know.
    pub action: String,
    /// The id of the object that it was done to.
    pub object: String,
    /// From where: the text of an [`Origin`](crate::domain::audit::Origin).
    pub origin: String,
}

/// Which entries to list: newest first.
#[derive(Clone, Debug)]
pub struct AuditQuery {
    /// Not those made before.
    pub from: Option<Timestamp>,
    /// Not those made after.
    pub to: Option<Timestamp>,
    /// Only those by this actor.
    pub actor: Option<String>,
    /// Only those that say this.
    pub action: Option<Action>,
    /// Only after this one in the order.
    pub after: Option<AuditId>,
    /// How many at most.
    pub limit: u32,
}

/// Some of the entries that a query asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditPage {
    /// Newest first.
    pub entries: Vec<AuditEntry>,
    /// Whether there are more after the last one.
    pub has_more: bool,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// The audit log, to be read and, when its time is over, cleared.
    pub trait AuditStore: Send + Sync {
        /// Enters, for [`INSTALLATION`], that somebody begins to seal all secrets with the first key: many
        /// transactions follow, and no account sees its data change.
        async fn enter_rotation(&self, act: &Act) -> Result<()>;

        /// Enters, for [`INSTALLATION`], that somebody begins to pass over what was due before the act in a
        /// restored backup: many transactions follow, and each schedule shows what was skipped.
        async fn enter_restoration(&self, act: &Act) -> Result<()>;

        /// Enters for an account that somebody read its secrets in clear, and how: that is no change, but
        /// has to be answered for as one.
        async fn enter_reading(&self, write: &Write, how: Action) -> Result<()>;

        /// Lists the changes of an account's data, or those of [`INSTALLATION`]. An account that was
        /// deleted has none.
        async fn audit_log(&self, account: AccountId, query: &AuditQuery) -> Result<AuditPage>;

        /// Removes entries made before `before`, oldest first, at most `limit`. Returns how many.
        async fn prune_audit_log(&self, before: Timestamp, limit: u32) -> Result<u64>;
    }
}

/// The entries that a query asks for: account, lowest and highest id, how many, [`INSTALLATION`];
/// then the actor and the action, those of them that it names. There is an index for each.
pub(in crate::store) fn list_text(query: &AuditQuery) -> String {
    let mut text = "SELECT id, actor, action, object, origin FROM audit_log
         WHERE account_id = $1 AND id BETWEEN $2 AND $3
           AND ($1 = $5 OR EXISTS (SELECT 1 FROM accounts WHERE id = $1))"
        .to_owned();
    let filters = [("actor", query.actor.is_some()), ("action", query.action.is_some())];
    for ((column, _), place) in filters.iter().filter(|(_, named)| *named).zip(6..) {
        text.push_str(&format!(" AND {column} = ${place}"));
    }
    text.push_str(" ORDER BY id DESC LIMIT $4");
    text
}

/// The lowest and the highest id that a query lets through.
pub(in crate::store) fn bounds(query: &AuditQuery) -> (AuditId, AuditId) {
    let lowest = AuditId::new(query.from.unwrap_or_default(), 0);
    let latest =
        query.to.map_or(AuditId::from_bytes([u8::MAX; 16]), |to| AuditId::new(to, u128::MAX));
    let before = |id: AuditId| u128::from_be_bytes(id.to_bytes()).saturating_sub(1);
    let after = query.after.map(|after| AuditId::from_bytes(before(after).to_be_bytes()));
    (lowest, after.map_or(latest, |after| after.min(latest)))
}

/// The first `limit` of these entries, of which one more was read if there is one.
pub(in crate::store) fn page(mut entries: Vec<AuditEntry>, limit: u32) -> AuditPage {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    AuditPage { entries, has_more }
}
