//! Why a mail was not sent.

use crate::domain::alert::delivery::DeliveryError;

/// Replies about the login (RFC 4954), or about TLS that is missing (RFC 3207).
const REFUSED_LOGINS: [u16; 5] = [454, 530, 534, 535, 538];

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

impl MailError {
    /// Whether the server has refused this installation, and not a mail: it wants another login, or
    /// one over TLS.
    pub fn is_about_login(&self) -> bool {
        let status = match self {
            Self::Refused { status, .. } => *status,
            Self::Unusable(_) | Self::Password(_) => None,
        };
        status.is_some_and(|status| REFUSED_LOGINS.contains(&status))
    }
}
