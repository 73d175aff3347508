//! What can go wrong in a store.

use std::error::Error;
use std::fmt;

use crate::runtime::CallError;
use crate::telemetry::metrics::{STORE_ERRORS, StoreFault};

/// Of what kind a failure is; decides what a caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The server or the file cannot be reached just now, or is too busy to answer in time.
    Unavailable,
    /// Somebody else has locked what is needed, and did not let go of it in time.
    Locked,
    /// There is no room left to write.
    Full,
    /// The server refuses this replica: its user, its password, a right, the database, TLS. An
    /// operator can mend that there, or in a file, while this replica runs.
    Refused,
    /// The data cannot be read back: a damaged file or row.
    Corrupt,
    /// The store's version, or its set-up, does not fit this binary.
    Incompatible,
    /// Secrets are sealed with a key that this process has not got.
    WrongKeys,
    /// A row of the call cannot be written, whoever tries. A batch that gets this is split.
    Rejected,
    /// The account that the call is for is suspended.
    Suspended,
    /// The account that the call is for is not there, or was deleted.
    NoSuchAccount,
    /// Another call has taken over the idempotency key of this one, which took too long.
    TakenOver,
    /// A fault of the adapter.
    Internal,
}

impl StoreErrorKind {
    /// What is counted of it: what an operator has to know about. The others are answers.
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
#[derive(Debug)]
pub struct StoreError {
    operation: &'static str,
    kind: StoreErrorKind,
    is_void: bool,
    source: Box<dyn Error + Send + Sync>,
}

impl StoreError {
    /// An error of `operation`, named as the contract's method is.
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

    /// The same error for another who waited for the same. It is counted once.
    pub(super) fn for_another(&self) -> Self {
        let source = self.source.to_string().into();
        Self { operation: self.operation, kind: self.kind, is_void: self.is_void, source }
    }

    /// The same error of a call that has certainly had no effect, and will have none.
    pub fn void(self) -> Self {
        Self { is_void: true, ..self }
    }

    /// Whether it is certain that the call has had no effect, and will have none: no server has
    /// heard of it.
    pub fn is_void(&self) -> bool {
        self.is_void
    }

    /// Of what kind it is.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether the call failed for what it is about, as far as that can be told: another one would not.
    pub fn lies_in_call(&self) -> bool {
        matches!(
            self.kind,
            StoreErrorKind::Rejected | StoreErrorKind::Corrupt | StoreErrorKind::Internal
        )
    }

    /// Returns `true` if the store may have received the call and not answered in time. A call that
    /// takes too long cannot be told from a store that goes away in the middle of it; while the store
    /// is away, most calls do not reach it.
    pub fn may_be_slow(&self) -> bool {
        self.kind == StoreErrorKind::Unavailable && !self.is_void
    }

    /// Whether the same call may succeed later.
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

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = self.operation;
        match self.kind {
            StoreErrorKind::Unavailable => write!(f, "store unavailable ({operation})")?,
            StoreErrorKind::Locked => write!(f, "store busy ({operation})")?,
            StoreErrorKind::Full => write!(f, "store full, free some space ({operation})")?,
            StoreErrorKind::Refused => write!(f, "store refuses ({operation})")?,
            StoreErrorKind::Corrupt => write!(f, "store damaged ({operation})")?,
            StoreErrorKind::Incompatible | StoreErrorKind::WrongKeys => {
                write!(f, "store does not fit ({operation})")?;
            }
            StoreErrorKind::Rejected => write!(f, "store refused a row ({operation})")?,
            StoreErrorKind::Suspended => write!(f, "account suspended ({operation})")?,
            StoreErrorKind::NoSuchAccount => write!(f, "no such account ({operation})")?,
            StoreErrorKind::TakenOver => write!(f, "call taken over ({operation})")?,
            StoreErrorKind::Internal => write!(f, "store failed ({operation})")?,
        }
        write!(f, ": {}", self.source)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_answers_about_an_account_is_no_fault() {
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
