//! Why a command or a query has come to nothing.

use super::FieldErrors;
use crate::domain::plan::LimitExceeded;
use crate::store::{StoreError, StoreErrorKind};

/// Why a command or a query has come to nothing.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// What the user wrote is not allowed.
    #[error("not valid: {0}")]
    Invalid(FieldErrors),
    /// The account has no such schedule.
    #[error("no such schedule")]
    NoSuchSchedule,
    /// The account has no such job.
    #[error("no such job")]
    NoSuchJob,
    /// The account is gone.
    #[error("no such account")]
    NoSuchAccount,
    /// The account is suspended: nothing of it can be changed.
    #[error("the account is suspended")]
    Suspended,
    /// The account's plan does not allow it.
    #[error(transparent)]
    LimitExceeded(#[from] LimitExceeded),
    /// The jobs that the account has made in this month are still being counted, and its plan limits
    /// them.
    #[error("the jobs of this month are still being counted")]
    Uncounted,
    /// The schedule was changed by others again and again.
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
    /// The process stops, and the command did not end in time.
    #[error("the process stops")]
    Stopping,
    /// The command has a fault.
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
