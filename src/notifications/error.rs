//! Errors of the commands and queries on notifications.

use std::time::Duration;

use crate::domain::Timestamp;
use crate::domain::alert::delivery::DeliveryError;
use crate::domain::field_errors::FieldErrors;
use crate::domain::plan::LimitExceeded;
use crate::store::{StoreError, StoreErrorKind};

/// An error of a command or query on notifications.
#[derive(Debug, thiserror::Error)]
pub enum NotificationError {
    /// Fields of the request are not valid.
    #[error("not valid: {0}")]
    Invalid(FieldErrors),
    /// The account has no such schedule.
    #[error("no such schedule")]
    NoSuchSchedule,
    /// The account has no such channel.
    #[error("no such channel")]
    NoSuchChannel,
    /// The account has no such delivery.
    #[error("no such delivery")]
    NoSuchDelivery,
    /// The account does not exist any more.
    #[error("no such account")]
    NoSuchAccount,
    /// The account is suspended, so nothing in it can be changed.
    #[error("the account is suspended")]
    Suspended,
    /// The plan of the account does not allow the change.
    #[error(transparent)]
    LimitExceeded(#[from] LimitExceeded),
    /// The test notification was not delivered.
    #[error("the test notification failed: {message}")]
    VerificationFailed {
        /// The class of the failure.
        code: DeliveryError,
        /// A description of the failure for people.
        message: String,
        /// The HTTP status of the provider's response, if there was one.
        status: Option<u16>,
    },
    /// The channel has used up the test notifications that are allowed within an hour.
    #[error("too many test notifications")]
    TooManyTests {
        /// The instant from which the next test is allowed.
        reset_at: Timestamp,
        /// The time from now until `reset_at`.
        wait: Duration,
    },
    /// The state of the object does not allow the change. The sentence says why.
    #[error("{0}")]
    Conflict(&'static str),
    /// Concurrent calls kept changing the channel until the attempts were used up.
    #[error("the channel is being changed by others")]
    Contended,
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// The process is stopping, and the command did not end in time.
    #[error("the process stops")]
    Stopping,
    /// The command panicked, which is a bug.
    #[error("the command panicked")]
    Panicked,
}

impl From<StoreError> for NotificationError {
    fn from(error: StoreError) -> Self {
        match error.kind() {
            StoreErrorKind::Suspended => Self::Suspended,
            StoreErrorKind::NoSuchAccount => Self::NoSuchAccount,
            _ => Self::Store(error),
        }
    }
}

impl From<FieldErrors> for NotificationError {
    fn from(errors: FieldErrors) -> Self {
        Self::Invalid(errors)
    }
}
