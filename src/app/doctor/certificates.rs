//! How long the certificates of the servers are valid, and those of the authorities that are trusted.
//!
//! Whom to trust is checked where the servers are used. Here a handshake is begun for the sake of the
//! certificate that the server shows, whoever it is; nothing is sent over it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::Diagnosis;
use crate::config::{Config, Peers, Store};
use crate::domain::Timestamp;
use crate::domain::certificate::expiry;
use crate::domain::finding::Finding;
use crate::runtime::Clock;

/// How long a server may take to show its certificate.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time enough to get another one.
const SOON: Duration = Duration::from_secs(30 * 86_400);
/// What a client of PostgreSQL sends to be answered by a handshake,
/// <https://www.postgresql.org/docs/current/protocol-message-formats.html> (`SSLRequest`).
const POSTGRES_BEGINS: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// A server with a certificate.
struct Server {
    setting: &'static str,
    host: String,
    port: u16,
    /// Whether it has to be asked for TLS first.
    asks: bool,
}

/// Looks at all certificates that `config` leads to.
pub(super) async fn check_up(config: &Config, clock: &Clock) -> Vec<Diagnosis> {
    let now = clock.now();
    let mut found: Vec<_> =
        join_all(servers(config).iter().map(|server| of_server(server, now))).await;
    for pem in &config.outbound.ca_certificates {
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()).flatten() {
            let finding = of_certificate("an authority's certificate", &certificate, now);
            found.push(Some(Diagnosis { setting: "outbound.ca_files", finding }));
        }
    }
    found.into_iter().flatten().collect()
}

fn servers(config: &Config) -> Vec<Server> {
    let mut all = Vec::new();
    let mut add = |setting, servers: Vec<(String, u16)>, asks| {
        let server = |(host, port)| Server { setting, host, port, asks };
        all.extend(servers.into_iter().map(server));
    };
    if let Store::Postgres(settings) = &config.store {
        add("store.url", settings.tls_server().into_iter().collect(), true);
    }
    if let Peers::Cluster(shared) = &config.peers {
        add("queue.url", shared.queue.tls_servers(), false);
        add("cluster.url", shared.cluster.tls_servers(), false);
    }
    all
}

/// Nothing for a server that does not take TLS, or does not answer: that is told where it is used.
async fn of_server(server: &Server, now: Timestamp) -> Option<Diagnosis> {
    let shown = timeout(PATIENCE, shown_by(server)).await.ok()?.ok()??;
    let what = format!("the certificate of {}:{}", server.host, server.port);
    Some(Diagnosis { setting: server.setting, finding: of_certificate(&what, &shown, now) })
}

fn of_certificate(what: &str, certificate: &CertificateDer<'_>, now: Timestamp) -> Finding {
    let Some(expiry) = expiry(certificate) else {
        return Finding::warning(format!("{what} cannot be read: look at it with openssl x509"));
    };
    let left = expiry.since(now);
    let said = format!("{what} is valid until {expiry}");
    if left.is_zero() {
        Finding::failure(format!("{what} has expired at {expiry}: replace it"))
    } else if left < SOON {
        let days = left.as_secs() / 86_400;
        Finding::warning(format!("{said}, which is in {days} days: replace it"))
    } else {
        Finding::good(said)
    }
}

/// The certificate that a server shows, if it shows one.
async fn shown_by(server: &Server) -> io::Result<Option<CertificateDer<'static>>> {
    let mut stream = TcpStream::connect((server.host.as_str(), server.port)).await?;
    if server.asks {
        stream.write_all(&POSTGRES_BEGINS).await?;
        if stream.read_u8().await? != b'S' {
            return Ok(None);
        }
    }
    let eyes = Arc::new(Eyes::default());
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(eyes.clone())
        .with_no_client_auth();
    let host = server.host.trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    // A server that wants a certificate of ours too has shown its own by then.
    let _ = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let seen = eyes.seen.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(seen)
}

/// Keeps the certificate that is shown.
#[derive(Debug, Default)]
struct Eyes {
    seen: Mutex<Option<CertificateDer<'static>>>,
}

impl ServerCertVerifier for Eyes {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = Some(shown.clone().into_owned());
        // All that was wanted is there.
        Err(Error::General("seen".to_owned()))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("nothing is to be trusted".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("nothing is to be trusted".to_owned()))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::domain::finding::Grade;

    #[test]
    fn the_time_left_is_told() {
        let params = CertificateParams::new(["a.example".to_owned()]).expect("a name");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate").der().clone();
        let expiry = expiry(&certificate).expect("read");
        let at = |before| of_certificate("it", &certificate, expiry.minus(before));
        assert_eq!(at(SOON).grade, Grade::Good);
        let soon = at(SOON - Duration::from_secs(1));
        assert_eq!(soon.grade, Grade::Warning);
        assert!(soon.text.contains("in 29 days: replace it"), "{}", soon.text);
        let over = at(Duration::ZERO);
        assert_eq!((over.grade, over.text.contains("has expired")), (Grade::Failure, true));
    }
}
