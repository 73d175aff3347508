//! Users: who may become one, how long they stay signed in, and the mails to them.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use url::Url;

use super::reader::{Parsed, Raw, Reader, number, text};
use crate::accounts::{SignUpMode, UserSettings};
use crate::channels::email::{Security, Settings as MailSettings};
use crate::domain::user::EmailAddress;

/// The ports of mail servers for TLS from the first byte, for `STARTTLS`, and for neither.
const PORTS: [u16; 3] = [465, 587, 25];

pub(super) fn read_users(reader: &mut Reader) -> UserSettings {
    let hours: u64 = reader.read("accounts.session_idle_hours", number(1..=8_760));
    let days: u64 = reader.read("accounts.session_days", number(1..=365));
    UserSettings {
        sign_up: reader.read("accounts.sign_up", sign_up),
        session_idle: Duration::from_secs(hours * 3_600),
        session_lifetime: Duration::from_secs(days * 86_400),
        public_url: reader.read("http.public_url", public_url),
    }
}

fn sign_up(raw: &Raw) -> Parsed<SignUpMode> {
    match text(raw)?.as_str() {
        "open" => Ok(SignUpMode::Open),
        "invitation" => Ok(SignUpMode::Invitation),
        "off" => Ok(SignUpMode::Off),
        _ => Err("must be open, invitation or off".to_owned()),
    }
}

fn public_url(raw: &Raw) -> Parsed<Option<String>> {
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

/// The server that mails are handed to; absent if none is named.
pub(super) fn read_mail(reader: &mut Reader) -> Option<MailSettings> {
    let server = reader.read("mail.url", server);
    let file = reader.read("mail.password_file", text);
    let ca_certificates = reader.read("mail.ca_file", authorities);
    let from = reader.read("mail.from", sender);
    let server = server?;
    let Some(from) = from else {
        reader.mistake("mail.from", "must be set beside mail.url");
        return None;
    };
    let password_file = (!file.is_empty()).then(|| PathBuf::from(file));
    if password_file.is_some() && server.password.is_some() {
        reader.mistake("mail.password_file", "cannot be set beside a password in mail.url");
    }
    Some(MailSettings {
        host: server.host,
        port: server.port,
        security: server.security,
        user: server.user,
        password: server.password.unwrap_or_default(),
        password_file,
        ca_certificates,
        from,
    })
}

struct Server {
    host: String,
    port: u16,
    security: Security,
    user: Option<String>,
    password: Option<String>,
}

fn server(raw: &Raw) -> Parsed<Option<Server>> {
    let text = text(raw)?;
    if text.is_empty() {
        return Ok(None);
    }
    let allowed = || {
        "must be smtps://USER:PASSWORD@HOST:PORT, smtp:// for STARTTLS, or smtp://HOST:PORT?tls=off"
            .to_owned()
    };
    let url = Url::parse(&text).map_err(|_| allowed())?;
    let (security, port) = match (url.scheme(), url.query()) {
        ("smtps", None) => (Security::Tls, PORTS[0]),
        ("smtp", None) => (Security::StartTls, PORTS[1]),
        ("smtp", Some("tls=off")) => (Security::Open, PORTS[2]),
        _ => return Err(allowed()),
    };
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(allowed)?;
    if !matches!(url.path(), "" | "/") {
        return Err(allowed());
    }
    let decoded = |part: &str| percent_decode_str(part).decode_utf8().map(|text| text.into_owned());
    let user = decoded(url.username()).map_err(|_| allowed())?;
    let password = url.password().map(decoded).transpose().map_err(|_| allowed())?;
    if security == Security::Open && !user.is_empty() {
        return Err(
            "must not send a password without TLS: leave out tls=off, or the user".to_owned()
        );
    }
    let host = host.trim_matches(['[', ']']).to_owned();
    let user = Some(user).filter(|user| !user.is_empty());
    Ok(Some(Server { host, port: url.port().unwrap_or(port), security, user, password }))
}

fn authorities(raw: &Raw) -> Parsed<Option<String>> {
    let path = text(raw)?;
    if path.is_empty() {
        return Ok(None);
    }
    let pem = std::fs::read_to_string(&path);
    let pem = pem.map_err(|error| format!("the file {path} cannot be read: {error}"))?;
    let ok = pem.contains("-----BEGIN CERTIFICATE-----");
    if ok { Ok(Some(pem)) } else { Err(format!("there is no certificate (PEM) in {path}")) }
}

fn sender(raw: &Raw) -> Parsed<Option<EmailAddress>> {
    let text = text(raw)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| "must be an e-mail address such as a@example.com".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::Text(text.to_owned())
    }

    #[test]
    fn mail_servers() {
        let read = |text: &str| server(&raw(text)).map(|server| server.expect("a server"));
        let one = read("smtps://ann:p%40ss@mail.example.com").expect("read");
        assert_eq!(
            (one.host.as_str(), one.port, one.security),
            ("mail.example.com", 465, Security::Tls)
        );
        assert_eq!((one.user.as_deref(), one.password.as_deref()), (Some("ann"), Some("p@ss")));
        let one = read("smtp://mail.example.com:2525").expect("read");
        assert_eq!((one.port, one.security, one.user), (2_525, Security::StartTls, None));
        let one = read("smtp://[::1]:25?tls=off").expect("read");
        assert_eq!((one.host.as_str(), one.security), ("::1", Security::Open));
        for wrong in [
            "mail.example.com",
            "http://a",
            "smtp://",
            "smtp://a/b",
            "smtp://a?tls=maybe",
            "smtps://a?tls=off",
            "smtp://ann:p@a?tls=off",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(server(&raw("")).expect("read").is_none());
    }

    #[test]
    fn public_urls() {
        let read = |text: &str| public_url(&raw(text));
        assert_eq!(read(""), Ok(None));
        let url = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(read("https://a.example/"), url("https://a.example"));
        assert_eq!(read("http://a.example:8080/x/"), url("http://a.example:8080/x"));
        for wrong in ["a.example", "ftp://a", "https://a/?b", "https://a/#b", "https://u:p@a/"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
