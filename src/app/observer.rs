//! Looks now and then at what only a question tells, so that showing the metrics asks nobody.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use x509_parser::pem::Pem;

use crate::config::{Config, Peers, Store};
use crate::domain::Timestamp;
use crate::runtime::{Pause, RunError, Worker};
use crate::store::SharedStore;
use crate::telemetry::metrics::{
    CERTIFICATE_EXPIRY_SECONDS, CertificateUse, DISK_FREE_BYTES, OLDEST_TICKET_SECONDS,
    QUEUE_TICKETS,
};

/// How often it looks.
const EVERY: Duration = Duration::from_secs(5);
/// How many waiting jobs are counted.
const COUNTED: u32 = 10_000;

/// Looks at what waits in the store, and at the disk.
pub(super) struct Observer {
    store: SharedStore,
    /// The folder of an embedded store's file.
    folder: Option<PathBuf>,
}

impl Observer {
    pub(super) fn new(store: SharedStore, config: &Config) -> Self {
        let folder = match &config.store {
            Store::Sqlite(settings) => settings.path.parent().map(PathBuf::from),
            Store::Postgres(_) => None,
        };
        Self { store, folder }
    }
}

#[async_trait]
impl Worker for Observer {
    async fn run_once(&mut self, now: Timestamp) -> Result<Pause, RunError> {
        if let Some(folder) = self.folder.clone() {
            // A disk of the network may hang.
            let free = tokio::task::spawn_blocking(move || free_bytes(&folder)).await?;
            DISK_FREE_BYTES.set_to(free.unwrap_or(f64::NAN));
        }
        let waiting = self.store.waiting(now, COUNTED).await?;
        QUEUE_TICKETS.set(usize::try_from(waiting.jobs)?);
        let age = waiting.since.map_or(Duration::ZERO, |since| now.since(since));
        OLDEST_TICKET_SECONDS.set_to(age.as_secs_f64());
        Ok(Pause::For(EVERY))
    }
}

/// What a process without special rights may still write to the disk of `folder`.
fn free_bytes(folder: &std::path::Path) -> rustix::io::Result<f64> {
    let folder = if folder.as_os_str().is_empty() { ".".as_ref() } else { folder };
    let disk = rustix::fs::statvfs(folder)?;
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    Ok(disk.f_bavail as f64 * disk.f_frsize as f64)
}

/// Notes when the certificates of the configuration expire. They are read at the start and kept, so
/// they are looked at then.
pub(super) fn note_certificates(config: &Config) {
    let outbound = config.outbound.ca_certificates.iter().map(|pem| pem.as_bytes().to_vec());
    note(CertificateUse::Outbound, outbound);
    let mail = config.mail.iter().filter_map(|mail| mail.ca_certificates.clone());
    note(CertificateUse::Mail, mail.map(String::into_bytes));
    if let Peers::Cluster(shared) = &config.peers {
        note(CertificateUse::Queue, shared.queue.authorities().map(<[u8]>::to_vec));
        note(CertificateUse::Cluster, shared.cluster.authorities().map(<[u8]>::to_vec));
    }
    if let Store::Postgres(settings) = &config.store {
        note(CertificateUse::Store, store_files(&settings.url));
    }
}

/// The certificates that the address of a PostgreSQL names: its authorities', and the own one. The
/// library reads them, and says what is wrong with them, when it connects.
fn store_files(url: &str) -> Vec<Vec<u8>> {
    let Ok(url) = url::Url::parse(url) else { return Vec::new() };
    let names = ["sslrootcert", "ssl-root-cert", "ssl-ca", "sslcert", "ssl-cert"];
    let paths = url.query_pairs().filter(|(name, _)| names.contains(&name.as_ref()));
    paths.filter_map(|(_, path)| std::fs::read(path.as_ref()).ok()).collect()
}

fn note(whose: CertificateUse, files: impl IntoIterator<Item = Vec<u8>>) {
    let ends = files.into_iter().flat_map(|pem| ends(&pem));
    if let Some(first) = ends.min() {
        CERTIFICATE_EXPIRY_SECONDS.end(whose, first);
    }
}

/// When the certificates of a PEM text expire.
fn ends(pem: &[u8]) -> Vec<Timestamp> {
    let certificates = Pem::iter_from_buffer(pem).filter_map(Result::ok);
    let end = |pem: Pem| {
        let seconds = pem.parse_x509().ok()?.validity().not_after.timestamp();
        Some(Timestamp::from_millis(seconds.saturating_mul(1_000)))
    };
    certificates.filter_map(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_certificate_to_expire_counts() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let pem = |year| {
            let mut parameters = rcgen::CertificateParams::default();
            parameters.not_after = rcgen::date_time_ymd(year, 3, 1);
            parameters.self_signed(&key).expect("a certificate").pem()
        };
        let text = format!("{}{}", pem(2_040), pem(2_030));
        let told: Vec<_> = ends(text.as_bytes()).iter().map(ToString::to_string).collect();
        assert_eq!(told, ["2040-03-01T00:00:00.000Z", "2030-03-01T00:00:00.000Z"]);
        assert!(ends(b"-----BEGIN CERTIFICATE-----\nx").is_empty());

        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), &text).expect("written");
        let url =
            format!("postgres://h/d?sslmode=verify-full&sslrootcert={}", file.path().display());
        assert_eq!(store_files(&url), [text.into_bytes()]);
    }

    #[test]
    fn a_disk_tells_what_is_free() {
        let free = free_bytes(&std::env::temp_dir()).expect("there is one");
        assert!(free > 1e6, "{free}");
    }
}
