//! Looks now and then at what only a question tells, so that showing the metrics asks nobody.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::spawn_blocking;

use super::certificates::{CertificateFile, Certificates};
use crate::config::{Config, Store};
use crate::domain::Timestamp;
use crate::domain::certificate::expiry;
use crate::runtime::{Pause, RunError, Worker};
use crate::store::{SharedStore, sqlite};
use crate::telemetry::metrics::{
    CERTIFICATE_EXPIRY_SECONDS, CertificateUse, DELIVERIES_WAITING, DISK_FREE_BYTES,
    OLDEST_ALERT_SECONDS, OLDEST_TICKET_SECONDS, QUEUE_TICKETS,
};

/// How often it looks.
const EVERY: Duration = Duration::from_secs(5);
/// How often it looks at certificates: those in files that are read again may be replaced.
const CERTIFICATES_EVERY: Duration = Duration::from_secs(120);
/// How many waiting jobs are counted.
const COUNTED: u32 = 10_000;

/// Looks at what waits in the store, at the disk and at certificates. It runs on every replica, whatever
/// its roles: what waits because no replica has the role that it waits for must be seen.
pub(super) struct Observer {
    store: SharedStore,
    certificates: Arc<Certificates>,
    /// When the certificates were looked at.
    looked_at: Option<Timestamp>,
    /// An embedded store, whose disk is looked at.
    embedded: Option<sqlite::Settings>,
}

impl Observer {
    pub(super) fn new(store: SharedStore, config: &Config) -> Self {
        let embedded = match &config.store {
            Store::Sqlite(settings) => Some(settings.clone()),
            Store::Postgres(_) => None,
        };
        let certificates = Arc::new(Certificates::of(config));
        Self { store, certificates, looked_at: None, embedded }
    }

    async fn look_at_certificates(&mut self, now: Timestamp) -> Result<(), RunError> {
        if self.looked_at.is_some_and(|last| now.since(last) < CERTIFICATES_EVERY) {
            return Ok(());
        }
        let certificates = self.certificates.clone();
        let files = spawn_blocking(move || certificates.read()).await?;
        for purpose in CertificateUse::ALL {
            CERTIFICATE_EXPIRY_SECONDS.end(*purpose, first_expiry(&files, *purpose));
        }
        self.looked_at = Some(now);
        Ok(())
    }

    async fn look_at_disk(&self) -> Result<(), RunError> {
        if let Some(settings) = self.embedded.clone() {
            // A disk of the network may hang.
            let free = spawn_blocking(move || sqlite::free_bytes(&settings)).await?;
            #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
            DISK_FREE_BYTES.set_to(free.map_or(f64::NAN, |free| free as f64));
        }
        Ok(())
    }

    async fn look_at_store(&self, now: Timestamp) -> Result<(), RunError> {
        let waiting = self.store.waiting(now, COUNTED).await?;
        QUEUE_TICKETS.set(usize::try_from(waiting.jobs)?);
        let age = |since: Option<Timestamp>| since.map_or(Duration::ZERO, |since| now.since(since));
        OLDEST_TICKET_SECONDS.set_to(age(waiting.since).as_secs_f64());
        let alerts = self.store.alert_work(now).await?;
        DELIVERIES_WAITING.set(usize::try_from(alerts.waiting)?);
        OLDEST_ALERT_SECONDS.set(usize::try_from(age(alerts.oldest).as_secs())?);
        Ok(())
    }
}

#[async_trait]
impl Worker for Observer {
    async fn run_once(&mut self, now: Timestamp) -> Result<Pause, RunError> {
        // The store last: it may be away.
        self.look_at_certificates(now).await?;
        self.look_at_disk().await?;
        self.look_at_store(now).await?;
        Ok(Pause::For(EVERY))
    }
}

/// When the first certificate for a purpose expires.
fn first_expiry(files: &[CertificateFile], purpose: CertificateUse) -> Option<Timestamp> {
    let files = files.iter().filter(|file| file.purpose == purpose);
    let certificates = files.flat_map(CertificateFile::certificates);
    certificates.filter_map(|certificate| expiry(&certificate)).min()
}
