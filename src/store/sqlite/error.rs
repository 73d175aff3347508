//! What SQLite's and sqlx's errors mean for a caller.

use std::fmt;

use crate::store::{StoreError, StoreErrorKind};

/// A failure before it is known which operation it is reported for. It can be copied, since one
/// failed transaction may hold the writes of several callers.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) kind: StoreErrorKind,
    pub(super) message: String,
}

/// What the adapter's inner functions return.
pub(super) type Outcome<T> = Result<T, Fault>;

impl Fault {
    pub(super) fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The error of a contract's method.
    pub(super) fn of(self, operation: &'static str) -> StoreError {
        StoreError::new(operation, self.kind, self.message)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        let (kind, said) = match &error {
            sqlx::Error::Database(database) => {
                let code = database.code().and_then(|code| code.parse().ok()).unwrap_or(1);
                (kind_of_code(code), meaning(code))
            }
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
                (StoreErrorKind::Corrupt, Some("a row cannot be read back"))
            }
            sqlx::Error::WorkerCrashed | sqlx::Error::Io(_) => (StoreErrorKind::Unavailable, None),
            _ => (StoreErrorKind::Internal, None),
        };
        match said {
            Some(said) => Self::new(kind, format!("{said}: {error}")),
            None => Self::new(kind, error.to_string()),
        }
    }
}

/// By SQLite's result codes, <https://www.sqlite.org/rescode.html>. The low byte is the primary
/// code, the whole the extended one.
fn kind_of_code(code: i32) -> StoreErrorKind {
    const IOERR_DATA: i32 = 10 | (32 << 8);
    const IOERR_CORRUPTFS: i32 = 10 | (33 << 8);
    match (code, code & 0xff) {
        (IOERR_DATA | IOERR_CORRUPTFS, _) | (_, 11 | 26) => StoreErrorKind::Corrupt,
        // PERM, BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, CANTOPEN, PROTOCOL.
        (_, 3 | 5 | 6 | 7 | 8 | 9 | 10 | 14 | 15) => StoreErrorKind::Unavailable,
        (_, 13) => StoreErrorKind::Full,
        // TOOBIG, CONSTRAINT, MISMATCH.
        (_, 18..=20) => StoreErrorKind::Rejected,
        _ => StoreErrorKind::Internal,
    }
}

fn meaning(code: i32) -> Option<&'static str> {
    match code & 0xff {
        5 | 6 => Some("another process is writing to the file"),
        8 => Some("the file cannot be written to"),
        10 => Some("the disk does not read or write"),
        11 => Some("the file is damaged, restore it from a backup"),
        13 => Some("the disk, or the file's allowed size, is full"),
        26 => Some("the file is not an SQLite database"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_classified() {
        for (code, kind) in [
            (5, StoreErrorKind::Unavailable),
            (517, StoreErrorKind::Unavailable),
            (778, StoreErrorKind::Unavailable),
            (8202, StoreErrorKind::Corrupt),
            (8458, StoreErrorKind::Corrupt),
            (11, StoreErrorKind::Corrupt),
            (26, StoreErrorKind::Corrupt),
            (13, StoreErrorKind::Full),
            (18, StoreErrorKind::Rejected),
            (1811, StoreErrorKind::Rejected),
            (1, StoreErrorKind::Internal),
        ] {
            assert_eq!(kind_of_code(code), kind, "{code}");
        }
    }
}
