//! The error of sending a mail.

use crate::domain::alert::delivery::DeliveryError;

/// Reply codes about the login (RFC 4954) or about missing TLS (RFC 3207).
const REFUSED_LOGINS: [u16; 5] = [454, 530, 534, 535, 538];

/// The reason why a mail was not sent.
#[derive(Debug, thiserror::Error)]
pub enum MailError {
    /// The mail cannot be composed.
    #[error("the mail cannot be composed: {0}")]
    Unusable(String),
    /// The password file cannot be read.
    #[error("the file named by mail.password_file cannot be read: {0}")]
    Password(std::io::Error),
    /// The server was not reached or did not accept the mail.
    #[error("the mail server {host} (mail.url) has not accepted a mail: {reason}")]
    Refused {
        /// The host name of the server.
        host: String,
        /// The reason, as text.
        reason: String,
        /// The class of the failure.
        code: DeliveryError,
        /// The server's reply code, if it replied.
        status: Option<u16>,
    },
}

impl MailError {
    /// Returns `true` if the server refused this installation rather than the mail: it requires
    /// another login or TLS.
    pub fn is_about_login(&self) -> bool {
        let status = match self {
            Self::Refused { status, .. } => *status,
            Self::Unusable(_) | Self::Password(_) => None,
        };
        status.is_some_and(|status| REFUSED_LOGINS.contains(&status))
    }
}
