//! What PostgreSQL's and sqlx's errors mean for a caller.

use std::fmt;

use sqlx::postgres::PgDatabaseError;

use crate::store::{StoreError, StoreErrorKind};

/// A failure before it is known which operation it is reported for.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) kind: StoreErrorKind,
    pub(super) message: String,
    pub(super) remedy: Remedy,
    /// The server has heard nothing of the work.
    is_void: bool,
}

/// What the adapter itself does about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Nothing.
    None,
    /// It drops the connection, whose state is not known.
    Reconnect,
    /// It does the work again: it met another transaction.
    Repeat,
    /// It does the work again, if that can go past the rows that somebody else holds, and takes the
    /// others as they are by now.
    PassOver,
    /// It makes the partition for a row, and does the work again.
    MakePartition,
    /// It reads the password file again.
    ReadPassword,
}

/// What the adapter's inner functions return.
pub(super) type Outcome<T> = Result<T, Fault>;

impl Fault {
    pub(super) fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), remedy: Remedy::None, is_void: false }
    }

    /// The server has not answered in time.
    pub(super) fn no_answer() -> Self {
        Self::new(StoreErrorKind::Unavailable, "the server does not answer").with(Remedy::Reconnect)
    }

    /// The same failure with a remedy.
    pub(super) fn with(self, remedy: Remedy) -> Self {
        Self { remedy, ..self }
    }

    /// The same failure, met on a connection that the server had let in: what ends that one is no
    /// refusal, and the work may have been done.
    pub(super) fn midway(self) -> Self {
        match self.kind {
            StoreErrorKind::Refused => Self { kind: StoreErrorKind::Unavailable, ..self },
            _ => self,
        }
    }

    /// The same failure, met before the server has heard of the work.
    pub(super) fn void(self) -> Self {
        Self { is_void: true, ..self }
    }

    /// The error of a contract's method.
    pub(super) fn of(self, operation: &'static str) -> StoreError {
        let error = StoreError::new(operation, self.kind, self.message);
        if self.is_void { error.void() } else { error }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(database) => {
                match database.try_downcast_ref::<PgDatabaseError>() {
                    Some(said) => of_server(said),
                    None => Self::new(StoreErrorKind::Internal, error.to_string()),
                }
            }
            sqlx::Error::PoolTimedOut => Self::new(
                StoreErrorKind::Unavailable,
                "no connection: the server does not answer, or all connections are in use",
            ),
            sqlx::Error::PoolClosed => {
                Self::new(StoreErrorKind::Unavailable, "the store is closed")
            }
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
                let message = format!("a row cannot be read back: {error}");
                Self::new(StoreErrorKind::Corrupt, message)
            }
            _ if is_of_tls(&error) => Self::new(
                StoreErrorKind::Refused,
                format!("{error}: check sslmode and sslrootcert in the store's URL"),
            )
            .with(Remedy::Reconnect),
            sqlx::Error::Configuration(_) => {
                Self::new(StoreErrorKind::Incompatible, format!("the URL cannot be used: {error}"))
            }
            sqlx::Error::Io(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => {
                Self::new(StoreErrorKind::Unavailable, error.to_string()).with(Remedy::Reconnect)
            }
            _ => Self::new(StoreErrorKind::Internal, error.to_string()),
        }
    }
}

/// Whether there is no trust: a certificate that is refused comes as a failure to read.
fn is_of_tls(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Tls(_) => true,
        sqlx::Error::Io(error) => error.get_ref().is_some_and(|why| why.is::<rustls::Error>()),
        _ => false,
    }
}

/// The row's invariant that a statement breaks only if it was overtaken by two others between its
/// snapshot and its lock.
const OVERTAKEN: &str = "held_follows_active";

fn of_server(error: &PgDatabaseError) -> Fault {
    let code = error.code();
    let overtaken = error.constraint() == Some(OVERTAKEN);
    let kind = if overtaken { StoreErrorKind::Unavailable } else { kind_of_code(code) };
    // The message alone: the detail quotes values.
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
    Fault::new(kind, message).with(remedy)
}

/// By SQLSTATE, <https://www.postgresql.org/docs/current/errcodes-appendix.html>. The first two
/// letters are the class.
fn kind_of_code(code: &str) -> StoreErrorKind {
    match (code.get(..2).unwrap_or(""), code) {
        // lock_not_available: within the time that a session waits for one.
        (_, "55P03") => StoreErrorKind::Locked,
        // disk_full, and a limit of a file's size.
        (_, "53100" | "53400") => StoreErrorKind::Full,
        (_, "XX001" | "XX002") => StoreErrorKind::Corrupt,
        // Connections; transactions that met others; resources; an operator or a timeout; locks;
        // a server that only reads, as one that waits to be promoted does; the file system.
        ("08" | "40" | "53" | "55" | "57" | "58", _) | (_, "25006" | "25P02" | "25P03") => {
            StoreErrorKind::Unavailable
        }
        // Authorization, no such database, no right.
        ("28", _) | (_, "3D000" | "42501") => StoreErrorKind::Refused,
        // Data and integrity.
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
        (_, "53300") => Some("the server takes no more connections"),
        (_, "55P03") => Some("another transaction holds a lock"),
        (_, "57014") => Some("it took too long"),
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
