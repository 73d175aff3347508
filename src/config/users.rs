//! The settings of users: signing up, sessions, and the mails to users.

use std::str::FromStr;
use std::time::Duration;

use url::Url;

use super::execution::certificates;
use super::reader::{ParseResult, SettingsReader, SourceValue, number, text};
use super::stores::file;
use crate::accounts::UserSettings;
use crate::channels::email::MailSettings;
use crate::domain::plan::Plans;
use crate::domain::user::EmailAddress;

pub(super) fn read_users(reader: &mut SettingsReader, plans: &Plans) -> UserSettings {
    let hours: u64 = reader.read("accounts.session_idle_hours", number(1..=8_760));
    let days: u64 = reader.read("accounts.session_days", number(1..=365));
    UserSettings {
        sign_up: reader.read("accounts.sign_up", sign_up),
        plan: reader.read("accounts.plan", |raw| one_of(plans, text(raw)?)),
        session_idle: Duration::from_secs(hours * 3_600),
        session_lifetime: Duration::from_secs(days * 86_400),
        public_url: reader.read("http.public_url", base_url),
    }
}

fn sign_up<T: FromStr>(raw: &SourceValue) -> ParseResult<T> {
    text(raw)?.parse().map_err(|_| "must be open, invitation or off".to_owned())
}

fn one_of(plans: &Plans, name: String) -> ParseResult<String> {
    match plans.named(&name) {
        Some(_) => Ok(name),
        None => {
            Err("must be unlimited or a plan of the configuration file, [plans.NAME]".to_owned())
        }
    }
}

/// Parses a URL to which paths are appended, and removes a slash at its end. Returns `None` if the
/// text is empty.
pub(super) fn base_url(raw: &SourceValue) -> ParseResult<Option<String>> {
    let text = text(raw)?;
    if text.is_empty() {
        return Ok(None);
    }
    let allowed =
        || "must be a URL without a query, such as https://punctual.example.com".to_owned();
    let url = Url::parse(&text).map_err(|_| allowed())?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    if plain { Ok(Some(url.as_str().trim_end_matches('/').to_owned())) } else { Err(allowed()) }
}

/// Reads the settings of the mail server. Returns `None` if no server is configured.
pub(super) fn read_mail(reader: &mut SettingsReader) -> Option<MailSettings> {
    let from = reader.read("mail.from", sender);
    let server = reader.read("mail.url", |raw| MailSettings::of_url(&text(raw)?, from.as_ref()));
    let password_file = reader.read("mail.password_file", file);
    let ca_certificates = reader.read("mail.ca_file", authorities);
    if from.is_none() && reader.raw("mail.url") != SourceValue::Text(String::new()) {
        reader.mistake("mail.from", "must be set beside mail.url");
    }
    let server = server?;
    if password_file.is_some() && !server.password.is_empty() {
        reader.mistake("mail.password_file", "cannot be set beside a password in mail.url");
    }
    Some(MailSettings { password_file, ca_certificates, ..server })
}

/// Reads the certificates of a file. Returns `None` if no file is configured.
pub(super) fn authorities(raw: &SourceValue) -> ParseResult<Option<String>> {
    if text(raw)?.is_empty() { Ok(None) } else { certificates(raw).map(Some) }
}

fn sender(raw: &SourceValue) -> ParseResult<Option<EmailAddress>> {
    let text = text(raw)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| "must be an e-mail address such as a@example.com".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> SourceValue {
        SourceValue::Text(text.to_owned())
    }

    #[test]
    fn public_urls() {
        let read = |text: &str| base_url(&raw(text));
        assert_eq!(read(""), Ok(None));
        let url = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(read("https://a.example/"), url("https://a.example"));
        assert_eq!(read("http://a.example:8080/x/"), url("http://a.example:8080/x"));
        for wrong in ["a.example", "ftp://a", "https://a/?b", "https://a/#b", "https://u:p@a/"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
