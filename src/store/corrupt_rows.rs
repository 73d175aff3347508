//! Rows that cannot be read back: a batch logs them, leaves them out and continues with the rest.

use std::collections::HashSet;
use std::fmt::Display;

use crate::domain::outcome::{ErrorCode, Failure};
use crate::runtime::Mutex;

/// The maximum number of rows that are remembered as logged.
const MAX_LOGGED: usize = 1_000;

/// A row of a batch: its content, or the reason why it cannot be read.
pub(in crate::store) struct ReadableRow<I, T> {
    pub(in crate::store) id: I,
    pub(in crate::store) row: Result<T, String>,
}

/// Logs rows that cannot be read. Each row is logged once. When [`MAX_LOGGED`] rows are remembered,
/// all are forgotten, so a row may be logged again.
#[derive(Default)]
pub(in crate::store) struct CorruptRows(Mutex<HashSet<String>>);

impl CorruptRows {
    /// Logs a row, unless it was logged before. `error` must not quote stored values.
    pub(in crate::store) fn log(&self, table: &'static str, id: &impl Display, error: &str) {
        let mut logged = self.0.lock();
        if logged.len() >= MAX_LOGGED {
            logged.clear();
        }
        let row = id.to_string();
        if !logged.contains(&row) {
            tracing::error!(table, row, error, "corrupt row left out");
            logged.insert(row);
        }
    }

    /// Returns the rows that can be read, and logs the others.
    pub(in crate::store) fn leave_out<I: Display, T>(
        &self,
        table: &'static str,
        rows: Vec<ReadableRow<I, T>>,
    ) -> Vec<T> {
        let readable = rows.into_iter().filter_map(|ReadableRow { id, row }| {
            row.inspect_err(|error| self.log(table, &id, error)).ok()
        });
        readable.collect()
    }
}

/// Returns the failure of a job whose request cannot be decrypted.
pub(in crate::store) fn secret_unreadable() -> Failure {
    let message = "the stored headers or body cannot be decrypted; save them again".to_owned();
    Failure { code: ErrorCode::SecretUnreadable, message, retryable: false }
}

/// Returns the failure of a job whose request cannot be signed.
pub fn signing_secret_unreadable() -> Failure {
    let message = "the account's signing secret cannot be decrypted; rotate it".to_owned();
    Failure { code: ErrorCode::SecretUnreadable, message, retryable: false }
}

/// Returns the failure of a job whose request cannot be read.
pub(in crate::store) fn unreadable() -> Failure {
    let message = "the stored request cannot be read; save the schedule again".to_owned();
    Failure { code: ErrorCode::Internal, message, retryable: false }
}
