//! Sends mails, with one attempt each.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::compose::{MailMessage, compose};
use super::connections::{MailConnections, MailReceipt};
use super::error::MailError;
use super::settings::MailSettings;
use crate::domain::alert::delivery::DeliveryError;
use crate::domain::user::EmailAddress;

/// The maximum time for a mail of an account, from connect to the server's last reply.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A plain text mail.
#[derive(Clone, Debug)]
pub struct Mail {
    /// The recipient.
    pub to: EmailAddress,
    /// The subject. Line breaks become spaces.
    pub subject: String,
    /// The plain text body.
    pub text: String,
}

/// Sends mails through one server. All clones share its connections.
#[derive(Clone)]
pub struct Mailer(Arc<MailConnections>);

impl fmt::Debug for Mailer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailer").field("settings", self.0.settings()).finish_non_exhaustive()
    }
}

impl Mailer {
    /// Creates a mailer for this server. It connects when the first mail is sent.
    pub fn new(settings: MailSettings) -> Self {
        Self(Arc::new(MailConnections::new(settings)))
    }

    /// Returns the sender of all mails.
    pub(super) fn from(&self) -> &EmailAddress {
        &self.0.settings().from
    }

    /// Sends a mail.
    ///
    /// # Errors
    /// If the server has not accepted the mail within 20 seconds.
    pub async fn send(&self, mail: &Mail) -> Result<(), MailError> {
        let Mail { to, subject, text } = mail.clone();
        self.deliver(&MailMessage::plain(to, subject, text), TIMEOUT).await.map(|_| ())
    }

    /// Connects to the server and logs in as for a mail, but sends none.
    ///
    /// # Errors
    /// If this does not succeed within `timeout`.
    pub async fn try_out(&self, timeout: Duration) -> Result<(), MailError> {
        self.within(timeout, self.0.try_out()).await
    }

    /// Sends a letter within `timeout`.
    pub(super) async fn deliver(
        &self,
        letter: &MailMessage,
        timeout: Duration,
    ) -> Result<MailReceipt, MailError> {
        let message = compose(self.from(), letter)?;
        self.within(timeout, self.0.send(&message)).await
    }

    async fn within<T>(
        &self,
        timeout: Duration,
        call: impl Future<Output = Result<T, MailError>>,
    ) -> Result<T, MailError> {
        tokio::time::timeout(timeout, call).await.unwrap_or_else(|_| {
            let reason = format!("no answer within {} seconds", timeout.as_secs_f64());
            Err(self.0.refused(DeliveryError::Timeout, None, &reason))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::Security;
    use super::*;

    #[test]
    fn the_password_is_not_shown() {
        let mailer = Mailer::new(MailSettings {
            host: "mail.example.com".to_owned(),
            port: 25,
            security: Security::Open,
            user: Some("punctual".to_owned()),
            password: "marker-password".to_owned(),
            password_file: None,
            ca_certificates: None,
            from: "punctual@example.com".parse().expect("an address"),
        });
        assert!(!format!("{mailer:?}").contains("marker-password"));
    }
}
