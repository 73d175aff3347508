//! The errors of a store.

use std::error::Error;

use crate::runtime::CallError;
use crate::telemetry::metrics::{STORE_ERRORS, StoreFault};

/// The kind of a failure. It decides what the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreErrorKind {
    /// The server or the file cannot be reached now, or is too busy to answer in time.
    #[error("store unavailable")]
    Unavailable,
    /// Another transaction has locked the rows, and did not release them in time.
    #[error("store busy")]
    Locked,
    /// There is no space left to write.
    #[error("store full, free some space")]
    Full,
    /// The server refuses this replica: its user, its password, a privilege, the database, TLS. An
    /// operator can fix that on the server, or in a file, while this replica runs.
    #[error("store denies access")]
    Refused,
    /// The data cannot be read back: a file or row is damaged.
    #[error("store damaged")]
    Corrupt,
    /// The version or the setup of the store does not fit this binary.
    #[error("store incompatible")]
    Incompatible,
    /// Secrets are sealed with a key that this process does not have.
    #[error("store incompatible")]
    WrongKeys,
    /// A row of the call can never be written. The caller splits a batch that gets this error.
    #[error("store refused a row")]
    Rejected,
    /// The account of the call is suspended.
    #[error("account suspended")]
    Suspended,
    /// The account of the call does not exist or was deleted.
    #[error("no such account")]
    NoSuchAccount,
    /// This call took too long, and another call has taken over its idempotency key.
    #[error("call taken over")]
    TakenOver,
    /// The adapter has a fault.
    #[error("store failed")]
    Internal,
}

impl StoreErrorKind {
    /// Returns the label under which the error is counted, if an operator should know about it. All
    /// other kinds are normal answers.
    fn fault(self) -> Option<StoreFault> {
        match self {
            Self::Unavailable => Some(StoreFault::Unavailable),
            Self::Full => Some(StoreFault::Full),
            Self::Refused => Some(StoreFault::Refused),
            Self::Corrupt => Some(StoreFault::Corrupt),
            Self::Incompatible | Self::WrongKeys => Some(StoreFault::Incompatible),
            Self::Rejected => Some(StoreFault::Rejected),
            Self::Internal => Some(StoreFault::Internal),
            Self::Locked | Self::Suspended | Self::NoSuchAccount | Self::TakenOver => None,
        }
    }
}

/// A failed operation of a store.
#[derive(Debug, thiserror::Error)]
#[error("{kind} ({operation}): {source}")]
pub struct StoreError {
    operation: &'static str,
    kind: StoreErrorKind,
    is_void: bool,
    source: Box<dyn Error + Send + Sync>,
}

impl StoreError {
    /// An error of `operation`, which is the name of the contract's method.
    pub fn new(
        operation: &'static str,
        kind: StoreErrorKind,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        if let Some(fault) = kind.fault() {
            STORE_ERRORS.with(fault).add(1);
        }
        Self { operation, kind, is_void: false, source: source.into() }
    }

    /// Returns a copy of the error for another caller that waited for the same result. The error is
    /// counted only once.
    pub(in crate::store) fn for_another(&self) -> Self {
        let source = self.source.to_string().into();
        Self { operation: self.operation, kind: self.kind, is_void: self.is_void, source }
    }

    /// Marks the error as one of a call that certainly had no effect, and will have none.
    pub fn void(self) -> Self {
        Self { is_void: true, ..self }
    }

    /// Returns `true` if the call certainly had no effect and will have none, because no server has
    /// received it.
    pub fn is_void(&self) -> bool {
        self.is_void
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns `true` if the cause probably lies in the content of the call, so that another call
    /// would succeed.
    pub fn lies_in_call(&self) -> bool {
        matches!(
            self.kind,
            StoreErrorKind::Rejected | StoreErrorKind::Corrupt | StoreErrorKind::Internal
        )
    }

    /// Returns `true` if the store may have received the call without answering in time. A slow
    /// call looks the same as a store that fails during the call; while the store is away, most
    /// calls do not reach it.
    pub fn may_be_slow(&self) -> bool {
        self.kind == StoreErrorKind::Unavailable && !self.is_void
    }

    /// Returns `true` if the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            StoreErrorKind::Unavailable
                | StoreErrorKind::Locked
                | StoreErrorKind::Full
                | StoreErrorKind::Refused
        )
    }
}

impl CallError for StoreError {
    fn is_fault(&self) -> bool {
        self.kind.fault().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_about_an_account_are_no_fault_of_the_store() {
        let is_fault = |kind| StoreError::new("test", kind, "why").is_fault();
        for answer in [
            StoreErrorKind::Locked,
            StoreErrorKind::Suspended,
            StoreErrorKind::NoSuchAccount,
            StoreErrorKind::TakenOver,
        ] {
            assert!(!is_fault(answer), "{answer:?}");
        }
        for fault in [StoreErrorKind::Unavailable, StoreErrorKind::Refused, StoreErrorKind::Full] {
            assert!(is_fault(fault), "{fault:?}");
        }
    }
}
