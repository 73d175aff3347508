//! The certificates in the files that a configuration names.

use std::path::PathBuf;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use url::Url;

use crate::config::{ClusterMode, Config, StoreChoice};
use crate::telemetry::metrics::CertificateUse;

/// The content of a certificate file.
#[derive(Clone)]
pub(super) struct CertificateFile {
    /// The setting that names it.
    pub(super) setting: &'static str,
    /// The purpose of its certificates.
    pub(super) purpose: CertificateUse,
    /// The owner of its certificates, as a part of a sentence.
    pub(super) whose: &'static str,
    pem: Vec<u8>,
}

impl CertificateFile {
    /// Returns the certificates of the file. Everything else in it is ignored.
    pub(super) fn certificates(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(&self.pem).flatten().collect()
    }
}

/// A file that is read again for each database connection.
struct NamedFile {
    path: PathBuf,
    whose: &'static str,
}

/// The certificate files of a configuration. Most are read once at the start, and their content is
/// used as long as the process runs. The driver reads the files in the URL of PostgreSQL for each
/// connection, so they are read again here too.
pub(super) struct Certificates {
    kept: Vec<CertificateFile>,
    of_store: Vec<NamedFile>,
}

const AUTHORITIES: &str = "the authorities";

impl Certificates {
    pub(super) fn of(config: &Config) -> Self {
        let mut kept = Vec::new();
        let mut keep = |setting, purpose, pem: &[u8]| {
            let (whose, pem) = (AUTHORITIES, pem.to_vec());
            kept.push(CertificateFile { setting, purpose, whose, pem });
        };
        for pem in &config.outbound.ca_certificates {
            keep("outbound.ca_files", CertificateUse::Outbound, pem.as_bytes());
        }
        if let Some(pem) = config.mail.as_ref().and_then(|mail| mail.ca_certificates.as_ref()) {
            keep("mail.ca_file", CertificateUse::Mail, pem.as_bytes());
        }
        if let ClusterMode::Cluster(shared) = &config.cluster_mode {
            if let Some(pem) = shared.queue.authorities() {
                keep("queue.ca_file", CertificateUse::Queue, pem);
            }
            if let Some(pem) = shared.cluster.authorities() {
                keep("cluster.ca_file", CertificateUse::Cluster, pem);
            }
        }
        let of_store = match &config.store {
            StoreChoice::Postgres(settings) => named(&settings.url),
            StoreChoice::Sqlite(_) => Vec::new(),
        };
        Self { kept, of_store }
    }

    /// Returns all certificate files in their current state. It blocks, because it reads files. A
    /// file that cannot be read is left out: the driver reports it when it connects.
    pub(super) fn read(&self) -> Vec<CertificateFile> {
        let of_store = self.of_store.iter().filter_map(|NamedFile { path, whose }| {
            let pem = std::fs::read(path).ok()?;
            let (setting, purpose) = ("store.url", CertificateUse::Store);
            Some(CertificateFile { setting, purpose, whose, pem })
        });
        self.kept.iter().cloned().chain(of_store).collect()
    }
}

/// Returns the certificate files that the URL of a PostgreSQL names.
fn named(url: &str) -> Vec<NamedFile> {
    let Ok(url) = Url::parse(url) else { return Vec::new() };
    let file = |(name, path): (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)| {
        let whose = match &*name {
            "sslrootcert" | "ssl-root-cert" | "ssl-ca" => AUTHORITIES,
            "sslcert" | "ssl-cert" => "this client",
            _ => return None,
        };
        Some(NamedFile { path: PathBuf::from(&*path), whose })
    };
    url.query_pairs().filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::config::{Sources, load_part};

    fn pem() -> String {
        let key = KeyPair::generate().expect("a key");
        CertificateParams::default().self_signed(&key).expect("a certificate").pem()
    }

    #[test]
    fn files_that_are_read_for_each_connection_are_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let write =
            |name, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        let (kept, own) = (pem(), pem());
        write("kept.pem", &format!("{kept}{}", pem()));
        write("own.pem", &own);
        let url = format!(
            "postgres://h/d?sslmode=verify-full&sslrootcert={}&sslcert={}",
            path("none.pem"),
            path("own.pem")
        );
        let options = [("outbound.ca_files", path("kept.pem")), ("store.url", url)];
        let sources = Sources { options: options.into(), ..Sources::default() };
        let config = load_part(&sources).unwrap_or_else(|mistakes| panic!("{mistakes}")).config;
        let certificates = Certificates::of(&config);
        let found = || {
            let files = certificates.read();
            let told =
                files.iter().map(|file| (file.setting, file.whose, file.certificates().len()));
            told.collect::<Vec<_>>()
        };
        let (outbound, client) =
            (("outbound.ca_files", AUTHORITIES, 2), ("store.url", "this client", 1));
        assert_eq!(found(), [outbound, client], "one of the files is not there");

        write("none.pem", &format!("{kept}-----BEGIN CERTIFICATE-----\nx"));
        write("own.pem", "no longer one");
        write("kept.pem", "");
        let (root, client) = (("store.url", AUTHORITIES, 1), ("store.url", "this client", 0));
        assert_eq!(found(), [outbound, root, client]);
    }
}
