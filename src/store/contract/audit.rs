//! The audit log: for every change by an actor, its action, its object and its origin.
//!
//! The methods that change something write the entries, each in the transaction of its change. An
//! entry is never changed. A change of a user gets an entry in each account that the user belongs
//! to. The work of the stages (firing, claiming, committing, pruning) is not recorded here: the
//! jobs and skips are its record.
//!
//! An entry contains names and ids, never a value that was written, so the log contains no secrets.

use crate::domain::audit::Action;
use crate::domain::{AccountId, AuditId, Timestamp};
use crate::runtime::measured;
use crate::store::{AuditContext, Result, WriteContext};

/// The account id of entries that concern no account's data. No account has this id, so only an
/// operator can read these entries.
pub const INSTALLATION: AccountId = AccountId::from_bytes([0; 16]);

/// An entry of the log. The time of the change is part of its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// The id of the entry.
    pub id: AuditId,
    /// The actor: the text of an [`Actor`](crate::domain::audit::Actor).
    pub actor: String,
    /// The action: the text of an [`Action`], or of one that only newer releases know.
    pub action: String,
    /// The id of the changed object.
    pub object: String,
    /// The origin of the call: the text of an [`Origin`](crate::domain::audit::Origin).
    pub origin: String,
}

/// The filters and the page of a list of entries, newest first.
#[derive(Clone, Debug)]
pub struct AuditQuery {
    /// Only entries made at this time or later.
    pub from: Option<Timestamp>,
    /// Only entries made at this time or earlier.
    pub to: Option<Timestamp>,
    /// Only entries of this actor.
    pub actor: Option<String>,
    /// Only entries with this action.
    pub action: Option<Action>,
    /// Only entries after this one in the order of the list.
    pub after: Option<AuditId>,
    /// The maximum number of entries.
    pub limit: u32,
}

/// A page of a list of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditPage {
    /// The entries, newest first.
    pub entries: Vec<AuditEntry>,
    /// `true` if more entries follow.
    pub has_more: bool,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// The audit log: reading it and deleting its old entries.
    pub trait AuditStore: Send + Sync {
        /// Records, for [`INSTALLATION`], that an actor starts to encrypt all secrets with the
        /// first key. Many transactions follow, and no account's data changes visibly.
        async fn enter_rotation(&self, audit_context: &AuditContext) -> Result<()>;

        /// Records, for [`INSTALLATION`], that an actor starts to skip the ticks of a restored
        /// backup that were due before the act. Many transactions follow, and each schedule shows
        /// its skips.
        async fn enter_restoration(&self, audit_context: &AuditContext) -> Result<()>;

        /// Records that an actor read the secrets of an account in clear, and by which action. This
        /// changes nothing, but is as sensitive as a change.
        async fn enter_reading(&self, write: &WriteContext, how: Action) -> Result<()>;

        /// Lists the entries of an account, or those of [`INSTALLATION`]. A deleted account has
        /// none.
        async fn audit_log(&self, account: AccountId, query: &AuditQuery) -> Result<AuditPage>;

        /// Deletes entries made before `before`, oldest first, at most `limit`. Returns their
        /// number.
        async fn prune_audit_log(&self, before: Timestamp, limit: u32) -> Result<u64>;
    }
}

/// Returns the statement that reads the entries of a query. Parameters: account, lowest and highest
/// id, limit, [`INSTALLATION`]; then the actor and the action, if the query names them. There is an
/// index for each filter.
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

/// Returns the lowest and the highest id that pass the filters of a query.
pub(in crate::store) fn bounds(query: &AuditQuery) -> (AuditId, AuditId) {
    let lowest = AuditId::new(query.from.unwrap_or_default(), 0);
    let latest =
        query.to.map_or(AuditId::from_bytes([u8::MAX; 16]), |to| AuditId::new(to, u128::MAX));
    let before = |id: AuditId| u128::from_be_bytes(id.to_bytes()).saturating_sub(1);
    let after = query.after.map(|after| AuditId::from_bytes(before(after).to_be_bytes()));
    (lowest, after.map_or(latest, |after| after.min(latest)))
}

/// Returns the page of the first `limit` entries. The list has one entry more if there are more.
pub(in crate::store) fn page(mut entries: Vec<AuditEntry>, limit: u32) -> AuditPage {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    AuditPage { entries, has_more }
}
