//! The meaning of SQLite's result codes.

use sqlx::error::DatabaseError;

use super::SqlError;
use crate::store::StoreErrorKind;

/// Classifies an error that SQLite reported.
pub(super) fn sql_error(error: &dyn DatabaseError) -> SqlError {
    let code = error.code().and_then(|code| code.parse().ok()).unwrap_or(1);
    match meaning(code) {
        Some(said) => SqlError::new(kind_of_code(code), format!("{said}: {error}")),
        None => SqlError::new(kind_of_code(code), error.to_string()),
    }
}

/// Classifies a result code, <https://www.sqlite.org/rescode.html>. The low byte is the primary
/// code, the whole number the extended one.
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
        10 => Some("the disk failed to read or write"),
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
