//! The email channel: alerts, and account mails such as invitations.
//!
//! All mails go through one [`Mailer`] and share its connections to the mail server. The server
//! belongs to the operator, so its connections bypass the egress guard.

mod compose;
mod connections;
mod error;
mod mailer;
mod render;
mod settings;

#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use subtle::ConstantTimeEq;

pub use self::error::MailError;
pub use self::mailer::{Mail, Mailer};
pub use self::settings::{MailSettings, Security};

use self::compose::MailMessage;
use self::connections::MAX_CONNECTIONS;
use super::contract::{ChannelAdapter, CheckedConfiguration, Destination, SendError, SentMessage};
use super::fields::{ConfigFields, read, write};
use super::message::Message;
use super::text::one_line;
use crate::domain::alert::Mask;
use crate::domain::alert::content::Alert;
use crate::domain::alert::delivery::DeliveryError;
use crate::domain::channel::ChannelConfig;
use crate::domain::field_errors::FieldErrors;
use crate::domain::token::Token;
use crate::domain::user::EmailAddress;
use crate::runtime::{Clock, Random};

/// The maximum length of a quoted reply in an error message, in characters.
const MAX_QUOTE: usize = 200;

const WRONG_ADDRESS: &str = "Must be an e-mail address such as ann@example.com";

#[derive(Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct EmailConfig {
    to: String,
    unsubscribe_token: String,
}

/// The email channel type.
pub struct Email {
    mailer: Option<Mailer>,
    public_url: Option<String>,
    clock: Clock,
    random: Random,
}

impl Email {
    /// Creates the channel type. It sends through `mailer`; unsubscribe links point to
    /// `public_url`.
    pub fn new(
        mailer: Option<Mailer>,
        public_url: Option<String>,
        clock: Clock,
        random: Random,
    ) -> Self {
        Self { mailer, public_url, clock, random }
    }

    /// Returns `true` if `token` is the channel's unsubscribe token; see `Channels::unsubscribes`.
    pub fn unsubscribes(&self, config: &ChannelConfig, token: &str) -> bool {
        let Some(config) = read::<EmailConfig>(config) else { return false };
        config.unsubscribe_token.as_bytes().ct_eq(token.as_bytes()).into()
    }

    /// Returns the URL of the page with the unsubscribe button, which is also the target of
    /// one-click requests.
    fn unsubscribe_url(&self, to: &Destination, config: &EmailConfig) -> Option<String> {
        let (public_url, token) = (self.public_url.as_deref()?, &config.unsubscribe_token);
        Some(format!("{public_url}/unsubscribe/{}/{}/{token}", to.account, to.channel))
    }

    fn letter(
        &self,
        to: &Destination,
        config: &EmailConfig,
        from: &EmailAddress,
        alert: &Alert,
    ) -> Option<MailMessage> {
        let unsubscribe = self.unsubscribe_url(to, config);
        let content = render::render(&Message::new(alert), unsubscribe.as_deref());
        let now_ms = u64::try_from(self.clock.now().as_millis()).unwrap_or(0);
        Some(MailMessage {
            to: config.to.parse().ok()?,
            subject: content.subject,
            text: content.text,
            html: Some(content.html),
            date: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(now_ms)),
            message_id: Some(format!("{}.{}", alert.id, to.channel)),
            headers: headers(from, unsubscribe.as_deref()),
        })
    }
}

/// Returns the headers of automatic mails (RFC 3834) and of lists (RFC 2369). The header for
/// one-click requests is added only with HTTPS (RFC 8058).
fn headers(from: &EmailAddress, unsubscribe_url: Option<&str>) -> Vec<(&'static str, String)> {
    let unsubscribe = match unsubscribe_url {
        Some(url) => format!("<{url}>"),
        None => format!("<mailto:{from}?subject=unsubscribe>"),
    };
    let mut headers =
        vec![("Auto-Submitted", "auto-generated".to_owned()), ("List-Unsubscribe", unsubscribe)];
    if unsubscribe_url.is_some_and(|url| url.starts_with("https://")) {
        let one_click = "List-Unsubscribe=One-Click".to_owned();
        headers.push(("List-Unsubscribe-Post", one_click));
    }
    headers
}

#[async_trait]
impl ChannelAdapter for Email {
    fn most_at_once(&self) -> Option<usize> {
        Some(MAX_CONNECTIONS)
    }

    fn configure(
        &self,
        given: &Map<String, Value>,
        current: Option<&ChannelConfig>,
    ) -> Result<CheckedConfiguration, FieldErrors> {
        let mut fields = ConfigFields::new(given);
        let to = fields.required("to").and_then(|text| match text.parse::<EmailAddress>() {
            Ok(address) => Some(address.to_string()),
            Err(_) => {
                fields.refuse("to", WRONG_ADDRESS);
                None
            }
        });
        let to = fields.finish(to)?;
        let before: Option<EmailConfig> = current.and_then(read);
        // A new address gets a new token. The holder of an old mail to another address could
        // otherwise unsubscribe this one.
        let unsubscribe_token = match before {
            Some(before) if before.to == to => before.unsubscribe_token,
            _ => Token::new(|bytes| self.random.fill(bytes)).reveal().to_owned(),
        };
        let config = write(&EmailConfig { to, unsubscribe_token }, current);
        Ok(CheckedConfiguration { config, secret: None })
    }

    async fn send(
        &self,
        to: &Destination,
        alert: &Alert,
        timeout: Duration,
    ) -> Result<SentMessage, SendError> {
        let config: EmailConfig = read(&to.config).ok_or_else(SendError::unreadable_config)?;
        let mailer = self.mailer.as_ref().ok_or_else(not_configured)?;
        let letter = self.letter(to, &config, mailer.from(), alert);
        let letter = letter.ok_or_else(SendError::unreadable_config)?;
        let mask = Mask::default().with([config.to, config.unsubscribe_token]);
        let receipt = mailer.deliver(&letter, timeout).await;
        let receipt = receipt.map_err(|error| send_error(error, &mask))?;
        let response = Some(mask.apply(&receipt.text)).filter(|text| !text.is_empty());
        Ok(SentMessage { status: Some(receipt.status), response, config: None })
    }
}

fn not_configured() -> SendError {
    let message = "This installation cannot send mail. The operator has to set mail.url.";
    SendError::new(DeliveryError::MailNotConfigured, message)
}

/// Converts an error for users. It omits the server's name, which belongs to the operator.
fn send_error(error: MailError, mask: &Mask) -> SendError {
    let is_login = error.is_about_login();
    let (code, status, reason) = match error {
        MailError::Refused { code, status, reason, .. } => (code, status, reason),
        MailError::Unusable(reason) => (DeliveryError::Internal, None, reason),
        MailError::Password(_) => {
            let message = "The password of the mail server cannot be read. The operator has to \
                           check mail.password_file.";
            return SendError::new(DeliveryError::Smtp, message);
        }
    };
    let reason = mask.apply(&reason);
    let message = match (code, status) {
        (DeliveryError::Timeout, _) => "The mail server has not answered in time.".to_owned(),
        (_, Some(status)) if is_login => format!(
            "The mail server has refused this installation, not the mail (reply {status}). The \
             operator has to check mail.url."
        ),
        (_, Some(status)) => {
            // The reason has the form `permanent error (550): ` and the server's text.
            let words = reason
                .split_once("): ")
                .map_or(String::new(), |(_, words)| format!(": {}", one_line(words, MAX_QUOTE)));
            format!("The mail server has refused the mail (reply {status}){words}")
        }
        (DeliveryError::Internal, _) => "The mail cannot be composed.".to_owned(),
        _ => "The mail server was not reached.".to_owned(),
    };
    let response = status.filter(|_| !is_login).map(|_| reason);
    SendError { status, response, ..SendError::new(code, message) }
}
