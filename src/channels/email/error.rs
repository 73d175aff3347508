//! Why a mail was not sent.

use crate::domain::alert::delivery::DeliveryError;

/// Why a mail was not sent.
#[derive(Debug, thiserror::Error)]
pub enum MailError {
    /// The mail cannot be composed.
    #[error("the mail cannot be composed: {0}")]
    Unusable(String),
    /// The password file cannot be read.
    #[error("the file named by mail.password_file cannot be read: {0}")]
    Password(std::io::Error),
    /// The server was not reached, or has not accepted the mail.
    #[error("the mail server {host} (mail.url) has not accepted a mail: {reason}")]
    Refused {
        /// The server.
        host: String,
        /// What went wrong.
        reason: String,
        /// The class of the failure.
        code: DeliveryError,
        /// The server's reply code, if it has replied.
        status: Option<u16>,
    },
}
