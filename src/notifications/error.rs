//! Why a command or a query on notifications has failed.

use std::time::Duration;

use crate::domain::Timestamp;
use crate::domain::alert::delivery::DeliveryError;
use crate::domain::field_errors::FieldErrors;
use crate::domain::plan::LimitExceeded;
use crate::store::{StoreError, StoreErrorKind};

/// Why a command or a query on notifications has failed.
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
    /// The account is gone.
    #[error("no such account")]
    NoSuchAccount,
    /// The account is suspended: nothing of it can be changed.
    #[error("the account is suspended")]
    Suspended,
    /// The account's plan does not allow it.
    #[error(transparent)]
    LimitExceeded(#[from] LimitExceeded),
    /// The test notification did not arrive.
    #[error("the test notification failed: {message}")]
    VerificationFailed {
        /// The class of the failure.
        code: DeliveryError,
        /// What failed, for people.
        message: String,
        /// The status of the provider's answer, if there was one.
        status: Option<u16>,
    },
    /// The channel was sent as many test notifications as it may be within an hour.
    #[error("too many test notifications")]
    TooManyTests {
        /// When the next one is allowed.
        reset_at: Timestamp,
        /// How long that is from now.
        wait: Duration,
    },
    /// The state of the object does not allow it; the sentence says why.
    #[error("{0}")]
    Conflict(&'static str),
    /// Other calls changed the channel again and again.
    #[error("the channel is being changed by others")]
    Contended,
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
