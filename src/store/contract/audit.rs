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
