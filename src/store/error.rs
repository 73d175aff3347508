//! What can go wrong in a store.

use std::error::Error;
use std::fmt;

/// Of what kind a failure is; decides what a caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The server or the file cannot be reached just now, or is too busy to answer in time.
    Unavailable,
    /// Somebody else has locked what is needed, and did not let go of it in time.
    Locked,
    /// There is no room left to write.
    Full,
    /// The data cannot be read back: a damaged file or row.
    Corrupt,
    /// The store's version, or its set-up, does not fit this binary.
    Incompatible,
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

/// A failed operation of a store.
#[derive(Debug)]
pub struct StoreError {
    operation: &'static str,
    kind: StoreErrorKind,
    source: Box<dyn Error + Send + Sync>,
}

impl StoreError {
    /// An error of `operation`, named as the contract's method is.
    pub fn new(
        operation: &'static str,
        kind: StoreErrorKind,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self { operation, kind, source: source.into() }
    }

    /// Of what kind it is.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            StoreErrorKind::Unavailable | StoreErrorKind::Locked | StoreErrorKind::Full
        )
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = self.operation;
        match self.kind {
            StoreErrorKind::Unavailable => write!(f, "store unavailable ({operation})")?,
            StoreErrorKind::Locked => write!(f, "store busy ({operation})")?,
            StoreErrorKind::Full => write!(f, "store full, free some space ({operation})")?,
            StoreErrorKind::Corrupt => write!(f, "store damaged ({operation})")?,
            StoreErrorKind::Incompatible => write!(f, "store does not fit ({operation})")?,
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
