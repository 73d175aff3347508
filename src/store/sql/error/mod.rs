//! Failures of a database, before the adapter adds the operation that failed.

mod postgres;
mod sqlite;

use std::fmt;

use sqlx::postgres::PgDatabaseError;

use crate::store::{StoreError, StoreErrorKind};

/// A failure inside an adapter. It can be cloned, because one failed transaction may contain the
/// writes of several callers.
#[derive(Clone, Debug)]
pub(in crate::store) struct SqlError {
    pub(in crate::store) kind: StoreErrorKind,
    pub(in crate::store) message: String,
    pub(in crate::store) remedy: Remedy,
    /// `true` if the server never received the work.
    is_void: bool,
}

/// The reaction of the PostgreSQL adapter to a failure. SQLite needs none: its one writer replaces
/// its connection after any failed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Remedy {
    /// Report the failure.
    None,
    /// Drop the connection: its state is unknown.
    Reconnect,
    /// Repeat the work: it conflicted with a concurrent transaction.
    Repeat,
    /// Repeat the work without the rows that another transaction has locked, if it can skip them.
    PassOver,
    /// Create the partition that a row needs, and repeat the work.
    MakePartition,
    /// Read the password file again.
    ReadPassword,
}

/// The result of the adapters' inner functions.
pub(in crate::store) type SqlResult<T> = Result<T, SqlError>;

impl SqlError {
    /// Returns a failure that has no remedy.
    pub(in crate::store) fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), remedy: Remedy::None, is_void: false }
    }

    /// Returns the failure of a server that did not answer in time.
    pub(in crate::store) fn no_answer() -> Self {
        Self::new(StoreErrorKind::Unavailable, "the server does not answer").with(Remedy::Reconnect)
    }

    /// Returns the same failure with a remedy.
    pub(in crate::store) fn with(self, remedy: Remedy) -> Self {
        Self { remedy, ..self }
    }

    /// Returns the same failure on a connection that the server had accepted. A refusal at that
    /// point says nothing about the work, which may have been done.
    pub(in crate::store) fn midway(self) -> Self {
        match self.kind {
            StoreErrorKind::Refused => Self { kind: StoreErrorKind::Unavailable, ..self },
            _ => self,
        }
    }

    /// Returns the same failure, marked as one before the server received the work.
    pub(in crate::store) fn void(self) -> Self {
        Self { is_void: true, ..self }
    }

    /// Returns the error of a contract's method.
    pub(in crate::store) fn of(self, operation: &'static str) -> StoreError {
        let error = StoreError::new(operation, self.kind, self.message);
        if self.is_void { error.void() } else { error }
    }
}

/// Adds the name of the contract's method to a failure of the adapter's inner functions.
pub(in crate::store) fn failed_in(operation: &'static str) -> impl Fn(SqlError) -> StoreError {
    move |error| error.of(operation)
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<sqlx::Error> for SqlError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(database) => {
                match database.try_downcast_ref::<PgDatabaseError>() {
                    Some(reported) => postgres::sql_error(reported),
                    None => sqlite::sql_error(&**database),
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

/// Returns `true` if the TLS handshake failed. A rejected certificate is reported as a failed read.
fn is_of_tls(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Tls(_) => true,
        sqlx::Error::Io(error) => error.get_ref().is_some_and(|why| why.is::<rustls::Error>()),
        _ => false,
    }
}
