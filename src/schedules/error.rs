//! The errors of commands and queries.

use super::FieldErrors;
use crate::domain::plan::LimitExceeded;
use crate::store::{StoreError, StoreErrorKind};

/// The reason why a command or a query failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The user's input is invalid.
    #[error("not valid: {0}")]
    Invalid(FieldErrors),
    /// The account has no such schedule.
    #[error("no such schedule")]
    NoSuchSchedule,
    /// The account has no such job.
    #[error("no such job")]
    NoSuchJob,
    /// The account does not exist.
    #[error("no such account")]
    NoSuchAccount,
    /// The account is suspended, so nothing in it can be changed.
    #[error("the account is suspended")]
    Suspended,
    /// The plan of the account does not allow the command.
    #[error(transparent)]
    LimitExceeded(#[from] LimitExceeded),
    /// The account's plan limits the jobs per month, and the account's jobs of this month are still
    /// being counted.
    #[error("the jobs of this month are still being counted")]
    Uncounted,
    /// Other writers kept changing the schedule during all retries.
    #[error("the schedule is being changed by others")]
    Contended,
    /// The job has not finished.
    #[error("the job has not finished")]
    JobUnfinished,
    /// The job has finished.
    #[error("the job has finished")]
    JobFinished,
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// The process is shutting down and the command did not finish in time.
    #[error("the process stops")]
    Stopping,
    /// The command panicked.
    #[error("the command panicked")]
    Panicked,
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        match error.kind() {
            StoreErrorKind::Suspended => Self::Suspended,
            StoreErrorKind::NoSuchAccount => Self::NoSuchAccount,
            _ => Self::Store(error),
        }
    }
}

impl From<FieldErrors> for CommandError {
    fn from(errors: FieldErrors) -> Self {
        Self::Invalid(errors)
    }
}
