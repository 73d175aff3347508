//! Connections to the mail server.
//!
//! A connection is kept and reused after a mail, because a TLS handshake and a login cost more than
//! the mail itself. The library's own pool is not used: it takes back a connection whose mail was
//! cancelled half-way, so that the next mail reads the replies of the previous one. This module
//! returns a connection only after a complete reply; a cancelled one is closed.

use std::time::Duration;

use lettre::Message;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, Certificate, CertificateStore, TlsParameters,
};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::Response;
use tokio::sync::Semaphore;

use super::compose::domain;
use super::error::MailError;
use super::settings::{MailSettings, Security};
use crate::channels::text::one_line;
use crate::domain::alert::delivery::DeliveryError;
use crate::runtime::Mutex;

/// The maximum number of connections, including idle ones. Many servers refuse more from one
/// client.
pub(super) const MAX_CONNECTIONS: usize = 8;
/// The maximum time that an idle connection may take to answer before it counts as dead.
const MAX_CHECK: Duration = Duration::from_secs(2);
/// The connect timeout per address of the server. A name can have several addresses.
const MAX_CONNECT: Duration = Duration::from_secs(5);
/// The reply code of a server that closes the connection without accepting the mail.
const CLOSING: u16 = 421;
/// The maximum length of a quoted reply, in characters.
const MAX_REPLY: usize = 500;

/// The server's reply to an accepted mail.
#[derive(Debug)]
pub struct MailReceipt {
    /// The reply code.
    pub status: u16,
    /// The reply's text.
    pub text: String,
}

impl From<&Response> for MailReceipt {
    fn from(response: &Response) -> Self {
        let text: Vec<_> = response.message().collect();
        Self { status: response.code().into(), text: one_line(&text.join(" "), MAX_REPLY) }
    }
}

/// A pool of connections to one mail server.
pub struct MailConnections {
    settings: MailSettings,
    permits: Semaphore,
    idle: Mutex<Vec<AsyncSmtpConnection>>,
}

impl MailConnections {
    /// Creates a pool without connections.
    pub fn new(settings: MailSettings) -> Self {
        let permits = Semaphore::new(MAX_CONNECTIONS);
        Self { settings, permits, idle: Mutex::default() }
    }

    /// Returns the settings of the server.
    pub fn settings(&self) -> &MailSettings {
        &self.settings
    }

    /// Sends a mail over an idle or a new connection. If the caller stops waiting, the connection
    /// is closed.
    pub async fn send(&self, message: &Message) -> Result<MailReceipt, MailError> {
        let _permit = self.permits.acquire().await;
        let (envelope, mail) = (message.envelope(), message.formatted());
        if let Some(mut connection) = self.idle().await {
            match connection.send(envelope, &mail).await {
                Err(error) if error.status().is_some_and(|code| u16::from(code) == CLOSING) => {}
                Err(error) => return Err(self.failed(&error)),
                Ok(response) => return Ok(self.finish(connection, &response)),
            }
        }
        let mut connection = self.connect().await?;
        let sent = connection.send(envelope, &mail).await;
        let response = sent.map_err(|error| self.failed(&error))?;
        Ok(self.finish(connection, &response))
    }

    /// Opens a connection as for a mail and closes it again, to test the settings.
    pub async fn try_out(&self) -> Result<(), MailError> {
        let mut connection = self.connect().await?;
        // The reply to QUIT does not matter.
        let _ = connection.quit().await;
        Ok(())
    }

    /// Returns an idle connection that still answers. If one is dead, the others probably are too,
    /// so all of them are closed.
    async fn idle(&self) -> Option<AsyncSmtpConnection> {
        let mut connection = self.idle.lock().pop()?;
        let check = tokio::time::timeout(MAX_CHECK, connection.test_connected()).await;
        if check == Ok(true) {
            return Some(connection);
        }
        self.idle.lock().clear();
        None
    }

    /// Returns a connection to the pool for the next mail.
    fn finish(&self, connection: AsyncSmtpConnection, response: &Response) -> MailReceipt {
        self.idle.lock().push(connection);
        response.into()
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, MailError> {
        let settings = &self.settings;
        let hello = ClientId::Domain(domain(&settings.from).to_owned());
        let from_start = match settings.security {
            Security::Tls => Some(self.tls()?),
            Security::StartTls | Security::Open => None,
        };
        let server = (settings.host.as_str(), settings.port);
        let connecting = AsyncSmtpConnection::connect_tokio1(
            server,
            Some(MAX_CONNECT),
            &hello,
            from_start,
            None,
        );
        let mut connection = connecting.await.map_err(|error| self.unconnected(&error))?;
        if settings.security == Security::StartTls {
            let secured = connection.starttls(self.tls()?, &hello).await;
            secured.map_err(|error| self.unconnected(&error))?;
        }
        if let Some(user) = &settings.user {
            let credentials = Credentials::new(user.clone(), self.password().await?);
            let login = connection.auth(DEFAULT_MECHANISMS, &credentials).await;
            login.map_err(|error| self.failed(&error))?;
        }
        Ok(connection)
    }

    async fn password(&self) -> Result<String, MailError> {
        let Some(path) = &self.settings.password_file else {
            return Ok(self.settings.password.clone());
        };
        let text = tokio::fs::read_to_string(path).await.map_err(MailError::Password)?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }

    fn tls(&self) -> Result<TlsParameters, MailError> {
        let tls = |reason: String| self.refused(DeliveryError::Tls, None, &reason);
        let builder = TlsParameters::builder(self.settings.host.clone());
        let builder = match &self.settings.ca_certificates {
            None => builder.certificate_store(CertificateStore::WebpkiRoots),
            Some(pem) => {
                let wrong = |error| tls(format!("the certificates of mail.ca_file: {error}"));
                let certificate = Certificate::from_pem(pem.as_bytes()).map_err(wrong)?;
                let none = builder.certificate_store(CertificateStore::None);
                none.add_root_certificate(certificate)
            }
        };
        builder.build_rustls().map_err(|error| tls(error.to_string()))
    }

    /// Converts the error of a login or of sending a mail.
    fn failed(&self, error: &Error) -> MailError {
        let code = if error.is_timeout() { DeliveryError::Timeout } else { DeliveryError::Smtp };
        self.refused(code, error.status().map(u16::from), &error.to_string())
    }

    /// Converts an error that occurs before the server is ready for a login or a mail.
    fn unconnected(&self, error: &Error) -> MailError {
        let code = match error.status() {
            Some(_) => DeliveryError::Smtp,
            None if error.is_timeout() => DeliveryError::Timeout,
            None if is_tls(error) => DeliveryError::Tls,
            None => DeliveryError::Connect,
        };
        self.refused(code, error.status().map(u16::from), &error.to_string())
    }

    /// Creates the error for a server that was not reached or refused something.
    pub fn refused(&self, code: DeliveryError, status: Option<u16>, reason: &str) -> MailError {
        let reason = one_line(reason, MAX_REPLY);
        MailError::Refused { host: self.settings.host.clone(), reason, code, status }
    }
}

/// Returns `true` if TLS caused the error.
fn is_tls(error: &Error) -> bool {
    let first: &(dyn std::error::Error + 'static) = error;
    let mut causes = std::iter::successors(Some(first), |cause| match cause.downcast_ref() {
        // `source()` of an I/O error skips the error that it wraps.
        Some(io) => std::io::Error::get_ref(io).map(|wrapped| wrapped as _),
        None => cause.source(),
    });
    error.is_tls() || causes.any(|cause| cause.is::<rustls::Error>())
}
