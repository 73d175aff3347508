//! Generates valid and invalid certificates during the test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A certificate authority for tests.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    /// Creates an authority called `name`. No client trusts it yet.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Returns the certificate of this authority, for clients that are to trust it.
    pub fn pem(&self) -> String {
        self.pem.clone()
    }

    /// Returns the TLS configuration of a server for `names` with a valid certificate.
    pub fn server(&self, names: &[&str]) -> ServerConfig {
        self.issue(&params(names))
    }

    /// Returns the TLS configuration of a server for `names` with an expired certificate.
    pub fn expired_server(&self, names: &[&str]) -> ServerConfig {
        let mut params = params(names);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 2, 1);
        self.issue(&params)
    }

    /// Returns the TLS configuration of a server for `names` with a certificate that is not valid
    /// yet.
    pub fn early_server(&self, names: &[&str]) -> ServerConfig {
        let mut params = params(names);
        params.not_before = date_time_ymd(4000, 1, 1);
        self.issue(&params)
    }

    /// Writes a valid certificate for `names`, its key and the certificate of this authority to
    /// files in `folder`.
    pub fn server_files(&self, names: &[&str], folder: &Path) -> ServerFiles {
        let key = KeyPair::generate().expect("a key");
        let certificate = params(names).signed_by(&key, &self.issuer).expect("a certificate");
        let write = |name: &str, pem: String| {
            let path = folder.join(name);
            std::fs::write(&path, pem).expect("written");
            path
        };
        ServerFiles {
            certificate: write("certificate", certificate.pem()),
            key: write("key", key.serialize_pem()),
            authority: write("authority", self.pem()),
        }
    }

    fn issue(&self, params: &CertificateParams) -> ServerConfig {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        server(certificate.der().clone(), &key)
    }
}

/// The certificate files for a server that runs as a separate process.
#[derive(Clone)]
pub struct ServerFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub authority: PathBuf,
}

/// Returns the TLS configuration of a server for `names` with a self-signed certificate.
pub fn self_signed_server(names: &[&str]) -> ServerConfig {
    let key = KeyPair::generate().expect("a key");
    let certificate = params(names).self_signed(&key).expect("a certificate");
    server(certificate.der().clone(), &key)
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).expect("names")
}

fn server(certificate: rustls::pki_types::CertificateDer<'static>, key: &KeyPair) -> ServerConfig {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a matching key")
}
