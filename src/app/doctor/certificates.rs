//! Checks how long the certificates of the servers and of the configured files are valid.
//!
//! The checks of the individual servers verify trust. Here a TLS handshake only reads the
//! certificate of the server, trusted or not. No data is sent over the connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::Diagnosis;
use crate::app::certificates::{CertificateFile, Certificates};
use crate::config::{ClusterMode, Config, StoreChoice};
use crate::domain::Timestamp;
use crate::domain::certificate::expiry;
use crate::domain::finding::Finding;
use crate::runtime::{Clock, Mutex};

/// The timeout for reading the certificate of a server, and those of the files.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A certificate that expires within this time causes a warning. It leaves time for a replacement.
const SOON: Duration = Duration::from_secs(30 * 86_400);
/// The message with which a PostgreSQL client asks for a TLS handshake: `SSLRequest`,
/// <https://www.postgresql.org/docs/current/protocol-message-formats.html>.
const POSTGRES_BEGINS: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// A server with a certificate.
struct CertifiedServer {
    setting: &'static str,
    host: String,
    port: u16,
    /// `true` if the client must send an `SSLRequest` before the handshake.
    asks: bool,
}

/// Checks the certificates of all servers and files of `config`.
pub(super) async fn check_up(config: &Config, clock: &Clock) -> Vec<Diagnosis> {
    let now = clock.now();
    let found = join_all(servers(config).iter().map(|server| of_server(server, now))).await;
    let mut found: Vec<_> = found.into_iter().flatten().collect();
    let certificates = Certificates::of(config);
    // A disk may hang. After the timeout the files are left out, like servers that do not answer.
    let files = timeout(TIMEOUT, spawn_blocking(move || certificates.read())).await;
    let files = files.ok().and_then(Result::ok).unwrap_or_default();
    found.extend(files.iter().flat_map(|file| of_file(file, now)));
    found
}

/// Reports the certificate of a file that expires first, and those that cannot be read.
fn of_file(file: &CertificateFile, now: Timestamp) -> Vec<Diagnosis> {
    let (whose, all) = (file.whose, file.certificates());
    let one = format!("a certificate of {whose}");
    let first = match all.len() {
        1 => one.clone(),
        count => format!("the first of {count} certificates of {whose}"),
    };
    let (readable, unreadable): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|certificate| expiry(certificate).is_some());
    let unreadable = unreadable.iter().map(|certificate| of_certificate(&one, certificate, now));
    let earliest = readable.iter().min_by_key(|certificate| expiry(certificate));
    let earliest = earliest.map(|certificate| of_certificate(&first, certificate, now));
    let diagnosis = |finding| Diagnosis { setting: file.setting, finding };
    unreadable.chain(earliest).map(diagnosis).collect()
}

fn servers(config: &Config) -> Vec<CertifiedServer> {
    let mut all = Vec::new();
    let mut add = |setting, servers: Vec<(String, u16)>, asks| {
        let server = |(host, port): (String, u16)| {
            // An IPv6 address has brackets in a URL, but must have none for a connection.
            let host = host.trim_matches(['[', ']']).to_owned();
            CertifiedServer { setting, host, port, asks }
        };
        all.extend(servers.into_iter().map(server));
    };
    if let StoreChoice::Postgres(settings) = &config.store {
        add("store.url", settings.tls_server().into_iter().collect(), true);
    }
    if let ClusterMode::Cluster(shared) = &config.cluster_mode {
        add("queue.url", shared.queue.tls_servers(), false);
        add("cluster.url", shared.cluster.tls_servers(), false);
    }
    all
}

/// Reports the certificate of a server. Returns `None` if the server does not support TLS or does
/// not answer: its own check reports that.
async fn of_server(server: &CertifiedServer, now: Timestamp) -> Option<Diagnosis> {
    let shown = timeout(TIMEOUT, shown_by(server)).await.ok()?.ok()??;
    let what = format!("the certificate of {}:{}", server.host, server.port);
    Some(Diagnosis { setting: server.setting, finding: of_certificate(&what, &shown, now) })
}

fn of_certificate(what: &str, certificate: &CertificateDer<'_>, now: Timestamp) -> Finding {
    let Some(expiry) = expiry(certificate) else {
        return Finding::warning(format!("{what} cannot be read: inspect it with openssl x509"));
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

/// Returns the certificate that a server presents, or `None` if it presents none.
async fn shown_by(server: &CertifiedServer) -> io::Result<Option<CertificateDer<'static>>> {
    let mut stream = TcpStream::connect((server.host.as_str(), server.port)).await?;
    if server.asks {
        stream.write_all(&POSTGRES_BEGINS).await?;
        if stream.read_u8().await? != b'S' {
            return Ok(None);
        }
    }
    let eyes = Arc::new(CertificateRecorder::default());
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(eyes.clone())
        .with_no_client_auth();
    let name = ServerName::try_from(server.host.clone()).map_err(io::Error::other)?;
    // The verifier rejects every handshake. By then, it has received the server's certificate, even
    // if the server asks for a client certificate too.
    let _ = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let seen = eyes.seen.lock().take();
    Ok(seen)
}

/// A verifier that records the server's certificate and rejects the handshake.
#[derive(Debug, Default)]
struct CertificateRecorder {
    seen: Mutex<Option<CertificateDer<'static>>>,
}

impl ServerCertVerifier for CertificateRecorder {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut seen = self.seen.lock();
        *seen = Some(shown.clone().into_owned());
        // The certificate is recorded, so the handshake can end here.
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
    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::config::{Sources, load_part};
    use crate::domain::finding::Grade;
    use crate::runtime::{TaskKind, Tasks};

    #[test]
    fn the_time_left_is_reported() {
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
    #[tokio::test]
    async fn an_address_of_version_6_shows_its_certificate() {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(["::1".to_owned()]).expect("an address");
        let certificate = params.self_signed(&key).expect("a certificate").der().clone();
        let secret = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], secret)
            .expect("they fit");
        let listener = TcpListener::bind("[::1]:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let tasks = Tasks::new();
        tasks.spawn(TaskKind::Listener, async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = TlsAcceptor::from(Arc::new(config.clone())).accept(stream).await;
            }
        });
        let options = [
            ("queue.url", format!("rediss://[::1]:{port}")),
            ("cluster.url", format!("etcds://[::1]:{port}")),
        ];
        let sources = Sources { options: options.into(), ..Sources::default() };
        let config = load_part(&sources).unwrap_or_else(|mistakes| panic!("{mistakes}")).config;
        let found = check_up(&config, &Clock::system()).await;
        let settings: Vec<_> = found.iter().map(|one| one.setting).collect();
        assert_eq!(settings, ["queue.url", "cluster.url"], "{found:?}");
        assert!(found.iter().all(|one| one.finding.text.contains(" of ::1:")), "{found:?}");
        tasks.finish(Duration::ZERO).await;
    }
}
