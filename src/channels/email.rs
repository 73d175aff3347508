//! Mail by SMTP.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use percent_encoding::percent_decode_str;
use url::Url;

use crate::domain::user::EmailAddress;

/// How long a mail may take, from the first byte to the server's last word.
const PATIENCE: Duration = Duration::from_secs(20);

/// How the connection to the server is kept from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// TLS from the first byte.
    Tls,
    /// TLS after `STARTTLS`, which the server must offer.
    StartTls,
    /// Not at all.
    Open,
}

/// Where mail is handed over, and as whom.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The server's name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is kept from others.
    pub security: Security,
    /// The user to sign in as, if any.
    pub user: Option<String>,
    /// The user's password.
    pub password: String,
    /// A file with the password instead, read for each mail.
    pub password_file: Option<PathBuf>,
    /// Certificates (PEM) of authorities to trust instead of the public ones.
    pub ca_certificates: Option<String>,
    /// Who the mails are from.
    pub from: EmailAddress,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("security", &self.security)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

/// The ports of mail servers for TLS from the first byte, for `STARTTLS`, and for neither.
const PORTS: [u16; 3] = [465, 587, 25];

impl Settings {
    /// Reads where mail is handed over: `smtps://USER:PASSWORD@HOST:PORT` with TLS, `smtp://` with
    /// `STARTTLS`, `smtp://HOST:PORT?tls=off` without either. Nothing if either text is missing.
    ///
    /// # Errors
    /// What the URL must be; the URL itself is not quoted.
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

/// A mail of plain text.
#[derive(Clone, Debug)]
pub struct Mail {
    /// Whom it is for.
    pub to: EmailAddress,
    /// Its subject: anything, on one line or not.
    pub subject: String,
    /// Its text.
    pub text: String,
}

/// Why a mail was not sent.
#[derive(Debug, thiserror::Error)]
pub enum MailError {
    /// The mail cannot be written down.
    #[error("the mail cannot be made: {0}")]
    Unusable(String),
    /// The password file cannot be read.
    #[error("the file named by mail.password_file cannot be read: {0}")]
    Password(std::io::Error),
    /// The server was not reached, or has not taken it.
    #[error("the mail server {host} (mail.url) has not taken a mail: {reason}")]
    Refused {
        /// The server.
        host: String,
        /// What went wrong.
        reason: String,
    },
}

/// Sends mails, each over a connection of its own: they are few.
#[derive(Clone, Debug)]
pub struct Mailer {
    settings: Settings,
}

impl Mailer {
    /// Hands mails to this server.
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// Sends a mail.
    ///
    /// # Errors
    /// If the server has not taken it within 20 seconds.
    pub async fn send(&self, mail: &Mail) -> Result<(), MailError> {
        let message = self.message(mail)?;
        let password = self.password().await?;
        let refused = |reason: String| {
            let host = self.settings.host.clone();
            MailError::Refused { host, reason }
        };
        let transport = self.transport(password).map_err(refused)?;
        match tokio::time::timeout(PATIENCE, transport.send(message)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(refused(error.to_string())),
            Err(_) => Err(refused(format!("no answer within {} seconds", PATIENCE.as_secs()))),
        }
    }

    fn message(&self, mail: &Mail) -> Result<Message, MailError> {
        let one_line = |c: char| if c.is_control() { ' ' } else { c };
        let unusable = |error: &dyn fmt::Display| MailError::Unusable(error.to_string());
        let mailbox = |address: &EmailAddress| {
            let parsed = address.as_str().parse::<Address>().map_err(|error| unusable(&error));
            parsed.map(|address| Mailbox::new(None, address))
        };
        Message::builder()
            .from(mailbox(&self.settings.from)?)
            .to(mailbox(&mail.to)?)
            .subject(mail.subject.chars().map(one_line).collect::<String>())
            .header(ContentType::TEXT_PLAIN)
            .message_id(None)
            .body(mail.text.clone())
            .map_err(|error| unusable(&error))
    }

    async fn password(&self) -> Result<String, MailError> {
        let Some(path) = &self.settings.password_file else {
            return Ok(self.settings.password.clone());
        };
        let text = tokio::fs::read_to_string(path).await.map_err(MailError::Password)?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }

    fn transport(&self, password: String) -> Result<AsyncSmtpTransport<Tokio1Executor>, String> {
        let settings = &self.settings;
        let tls = match settings.security {
            Security::Tls => Tls::Wrapper(self.tls()?),
            Security::StartTls => Tls::Required(self.tls()?),
            Security::Open => Tls::None,
        };
        let domain = settings.from.as_str().rsplit('@').next().unwrap_or("localhost");
        let builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&settings.host)
            .port(settings.port)
            .tls(tls)
            .hello_name(ClientId::Domain(domain.to_owned()))
            .timeout(Some(PATIENCE));
        let builder = match &settings.user {
            Some(user) => builder.credentials(Credentials::new(user.clone(), password)),
            None => builder,
        };
        Ok(builder.build())
    }

    fn tls(&self) -> Result<TlsParameters, String> {
        let builder = TlsParameters::builder(self.settings.host.clone());
        let builder = match &self.settings.ca_certificates {
            None => builder.certificate_store(CertificateStore::WebpkiRoots),
            Some(pem) => {
                let wrong = |error| format!("the certificates of mail.ca_file: {error}");
                let certificate = Certificate::from_pem(pem.as_bytes()).map_err(wrong)?;
                let none = builder.certificate_store(CertificateStore::None);
                none.add_root_certificate(certificate)
            }
        };
        builder.build_rustls().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailer() -> Mailer {
        Mailer::new(Settings {
            host: "mail.example.com".to_owned(),
            port: 25,
            security: Security::Open,
            user: Some("punctual".to_owned()),
            password: "marker-password".to_owned(),
            password_file: None,
            ca_certificates: None,
            from: "punctual@example.com".parse().expect("an address"),
        })
    }

    #[test]
    fn what_others_chose_adds_no_header() {
        let mail = Mail {
            to: "ann@example.com".parse().expect("an address"),
            subject: "Join a\r\nBcc: x@y.example\r\n\r\nbody\u{85}é".to_owned(),
            text: "first\r\n.\r\nsecond é\nBcc: x@y.example".to_owned(),
        };
        let message = mailer().message(&mail).expect("a message");
        let text = String::from_utf8(message.formatted()).expect("text");
        let (headers, _) = text.split_once("\r\n\r\n").expect("headers and a body");
        let names: Vec<_> = headers
            .split("\r\n")
            .filter(|line| !line.starts_with([' ', '\t']))
            .filter_map(|line| line.split(':').next())
            .collect();
        assert!(!names.contains(&"Bcc"), "{headers}");
        assert_eq!(message.envelope().to().len(), 1);
        assert!(headers.contains("To: ann@example.com\r\n"), "{headers}");
    }

    #[test]
    fn the_password_is_not_shown() {
        assert!(!format!("{:?}", mailer()).contains("marker-password"));
    }

    #[test]
    fn mail_servers() {
        let from: EmailAddress = "a@example.com".parse().expect("an address");
        let read = |url: &str| Settings::of_url(url, Some(&from)).map(|one| one.expect("a server"));
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
        assert_eq!(Settings::of_url("", Some(&from)), Ok(None));
        assert_eq!(Settings::of_url("smtp://a", None), Ok(None));
    }
}
