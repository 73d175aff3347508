//! The TLS configuration: trusted authorities, and a hook that detects the start of a handshake.

use std::sync::Arc;

use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, NamedGroup, RootCertStore};

use super::SetupError;
use super::trace::{self, Phase};

/// Returns a client configuration for TLS 1.2 and 1.3. Certificates are verified against Mozilla's
/// roots and `ca_certificates` (PEM texts of one or more certificates). Verification cannot be
/// disabled.
pub fn config(ca_certificates: &[String]) -> Result<ClientConfig, SetupError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for (index, pem) in ca_certificates.iter().enumerate() {
        add(&mut roots, pem)
            .map_err(|reason| SetupError::CaCertificate { number: index + 1, reason })?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(SetupError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::store(Arc::new(NoSessions));
    Ok(config)
}

fn add(roots: &mut RootCertStore, pem: &str) -> Result<(), String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let certificates = certificates.map_err(|error| error.to_string())?;
    if certificates.is_empty() {
        return Err("it contains no certificate in PEM format".to_owned());
    }
    certificates
        .into_iter()
        .try_for_each(|certificate| roots.add(certificate).map_err(|error| error.to_string()))
}

/// A session store that stores nothing: with resumed sessions, a host could tell which accounts
/// share a replica. TLS asks the store for a session exactly when a handshake begins. That call
/// lets us distinguish a stalled handshake from a stalled connect.
#[derive(Debug)]
struct NoSessions;

impl ClientSessionStore for NoSessions {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, _: Tls13ClientSessionValue) {}

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        trace::note(|trace| trace.enter(Phase::Handshake));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_that_cannot_be_read_are_named() {
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
        for pem in ["", "no pem", &broken] {
            let refused = config(&[pem.to_owned()]).expect_err(pem);
            assert!(refused.to_string().starts_with("CA certificate 1 cannot be used: "));
        }
        assert!(config(&[]).is_ok());
    }
}
