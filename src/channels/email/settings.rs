//! The settings of the mail server.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use url::Url;

use crate::domain::user::EmailAddress;

/// The encryption of the connection to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// TLS from the first byte.
    Tls,
    /// TLS after `STARTTLS`, which the server must offer.
    StartTls,
    /// No encryption.
    Open,
}

/// The mail server and the sender of all mails.
#[derive(Clone, PartialEq, Eq)]
pub struct MailSettings {
    /// The server's name or address.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// The encryption of the connection.
    pub security: Security,
    /// The user name for the login, if any.
    pub user: Option<String>,
    /// The user's password.
    pub password: String,
    /// A file with the password, used instead of `password`. It is read for each new connection, so
    /// a changed password takes effect without a restart.
    pub password_file: Option<PathBuf>,
    /// Certificate authorities (PEM) to trust instead of the public ones.
    pub ca_certificates: Option<String>,
    /// The sender.
    pub from: EmailAddress,
}

impl fmt::Debug for MailSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("security", &self.security)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

/// The default ports for TLS from the first byte, for `STARTTLS`, and for no encryption.
const PORTS: [u16; 3] = [465, 587, 25];

impl MailSettings {
    /// Parses the URL of a server: `smtps://USER:PASSWORD@HOST:PORT` uses TLS, `smtp://` uses
    /// `STARTTLS`, and `smtp://HOST:PORT?tls=off` uses neither. Returns `None` if the URL or the
    /// sender is missing.
    ///
    /// # Errors
    /// The form that the URL must have; the error never quotes the URL itself.
    pub fn of_url(url: &str, from: Option<&EmailAddress>) -> Result<Option<Self>, String> {
        if url.is_empty() {
            return Ok(None);
        }
        let allowed = || {
            "must be smtps://USER:PASSWORD@HOST:PORT, smtp:// for STARTTLS, or \
             smtp://HOST:PORT?tls=off"
                .to_owned()
        };
        let url = Url::parse(url).map_err(|_| allowed())?;
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
        let decoded = |part: &str| {
            let text = percent_decode_str(part).decode_utf8().map_err(|_| allowed());
            text.map(|text| text.into_owned())
        };
        let user = Some(decoded(url.username())?).filter(|user| !user.is_empty());
        let password = decoded(url.password().unwrap_or_default())?;
        if security == Security::Open && user.is_some() {
            let why = "must not send a password without TLS: leave out tls=off, or the user";
            return Err(why.to_owned());
        }
        Ok(from.map(|from| Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: url.port().unwrap_or(port),
            security,
            user,
            password,
            password_file: None,
            ca_certificates: None,
            from: from.clone(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_servers() {
        let from: EmailAddress = "a@example.com".parse().expect("an address");
        let read =
            |url: &str| MailSettings::of_url(url, Some(&from)).map(|one| one.expect("a server"));
        let one = read("smtps://ann:p%40ss@mail.example.com").expect("read");
        assert_eq!(
            (one.host.as_str(), one.port, one.security),
            ("mail.example.com", 465, Security::Tls)
        );
        assert_eq!((one.user.as_deref(), one.password.as_str()), (Some("ann"), "p@ss"));
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
        assert_eq!(MailSettings::of_url("", Some(&from)), Ok(None));
        assert_eq!(MailSettings::of_url("smtp://a", None), Ok(None));
    }
}
