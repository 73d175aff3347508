//! The meaning of PostgreSQL's error codes.

use sqlx::postgres::PgDatabaseError;

use super::{Remedy, SqlError};
use crate::store::StoreErrorKind;

/// The check constraint that a statement violates only if two other transactions changed the row
/// between the statement's snapshot and its lock.
const OVERTAKEN: &str = "held_follows_active";

/// Classifies an error that the server reported.
pub(super) fn sql_error(error: &PgDatabaseError) -> SqlError {
    let code = error.code();
    let overtaken = error.constraint() == Some(OVERTAKEN);
    let kind = if overtaken { StoreErrorKind::Unavailable } else { kind_of_code(code) };
    // Only the message: the detail quotes stored values, which may be secret.
    let said = error.message();
    let message = match meaning(code) {
        Some(meaning) => format!("{meaning}: {said} ({code})"),
        None => format!("{said} ({code})"),
    };
    let remedy = match (code.get(..2).unwrap_or(""), code) {
        _ if overtaken => Remedy::Repeat,
        (_, "40001" | "40P01") => Remedy::Repeat,
        (_, "55P03") => Remedy::PassOver,
        (_, "23514") if error.constraint().is_none() => Remedy::MakePartition,
        ("28", _) => Remedy::ReadPassword,
        (_, "57014") => Remedy::None,
        ("08" | "57", _) => Remedy::Reconnect,
        _ => Remedy::None,
    };
    SqlError::new(kind, message).with(remedy)
}

/// Classifies an SQLSTATE, <https://www.postgresql.org/docs/current/errcodes-appendix.html>. The
/// first two characters are the class.
fn kind_of_code(code: &str) -> StoreErrorKind {
    match (code.get(..2).unwrap_or(""), code) {
        // lock_not_available: `lock_timeout` has expired.
        (_, "55P03") => StoreErrorKind::Locked,
        // disk_full, configuration_limit_exceeded.
        (_, "53100" | "53400") => StoreErrorKind::Full,
        (_, "XX001" | "XX002") => StoreErrorKind::Corrupt,
        // Connections, serialization failures, resources, operator intervention, locks, the file
        // system, and a read-only server such as a standby before its promotion.
        ("08" | "40" | "53" | "55" | "57" | "58", _) | (_, "25006" | "25P02" | "25P03") => {
            StoreErrorKind::Unavailable
        }
        // Authorization, unknown database, missing privilege.
        ("28", _) | (_, "3D000" | "42501") => StoreErrorKind::Refused,
        // Data exceptions and integrity violations.
        ("22" | "23", _) => StoreErrorKind::Rejected,
        _ => StoreErrorKind::Internal,
    }
}

fn meaning(code: &str) -> Option<&'static str> {
    match (code.get(..2)?, code) {
        ("28", _) => Some(
            "the server refuses the user: check user and password in the store's URL, or the \
             password file",
        ),
        (_, "3D000") => Some("there is no such database: check the name in the store's URL"),
        (_, "42501") => Some("the user lacks a right: let it own the database"),
        (_, "53100") => Some("the server's disk is full"),
        (_, "53300") => Some("the server accepts no more connections"),
        (_, "55P03") => Some("another transaction holds a lock"),
        (_, "57014") => Some("the statement took too long"),
        (_, "25006") => Some("the server is read-only"),
        (_, "XX001" | "XX002") => Some("the server's data is damaged, restore it from a backup"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_classified() {
        for (code, kind) in [
            ("08006", StoreErrorKind::Unavailable),
            ("57P01", StoreErrorKind::Unavailable),
            ("57P03", StoreErrorKind::Unavailable),
            ("57014", StoreErrorKind::Unavailable),
            ("40001", StoreErrorKind::Unavailable),
            ("40P01", StoreErrorKind::Unavailable),
            ("55P03", StoreErrorKind::Locked),
            ("53300", StoreErrorKind::Unavailable),
            ("25006", StoreErrorKind::Unavailable),
            ("53100", StoreErrorKind::Full),
            ("22021", StoreErrorKind::Rejected),
            ("23505", StoreErrorKind::Rejected),
            ("XX001", StoreErrorKind::Corrupt),
            ("XX002", StoreErrorKind::Corrupt),
            ("28P01", StoreErrorKind::Refused),
            ("28000", StoreErrorKind::Refused),
            ("3D000", StoreErrorKind::Refused),
            ("42501", StoreErrorKind::Refused),
            ("42601", StoreErrorKind::Internal),
            ("", StoreErrorKind::Internal),
        ] {
            assert_eq!(kind_of_code(code), kind, "{code}");
        }
    }
}
