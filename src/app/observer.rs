//! Refreshes the gauges that need a query or a system call, so that a scrape of the metrics needs
//! none.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::spawn_blocking;

use super::certificates::{CertificateFile, Certificates};
use crate::config::{Config, StoreChoice};
use crate::domain::Timestamp;
use crate::domain::certificate::expiry;
use crate::inspection::JOBS_COUNTED;
use crate::runtime::{LoopPause, RunError, Worker};
use crate::store::{SharedStore, sqlite};
use crate::telemetry::metrics::{
    CERTIFICATE_EXPIRY_SECONDS, CertificateUse, DELIVERIES_WAITING, DISK_FREE_BYTES,
    OLDEST_ALERT_SECONDS, OLDEST_TICKET_SECONDS, QUEUE_TICKETS,
};

/// The interval between two refreshes.
const EVERY: Duration = Duration::from_secs(5);
/// The interval at which certificates are read again: files that are reread may be replaced.
const CERTIFICATES_EVERY: Duration = Duration::from_secs(120);

/// The worker that measures the backlog in the store, the free disk space and the expiry of
/// certificates. It runs on every replica, whatever its roles: a backlog must be visible even if no
/// replica has the role that would process it.
pub(super) struct Observer {
    store: SharedStore,
    certificates: Arc<Certificates>,
    /// The time of the last check of the certificates.
    looked_at: Option<Timestamp>,
    /// The settings of a SQLite store, whose disk is measured.
    embedded: Option<sqlite::SqliteSettings>,
}

impl Observer {
    pub(super) fn new(store: SharedStore, config: &Config) -> Self {
        let embedded = match &config.store {
            StoreChoice::Sqlite(settings) => Some(settings.clone()),
            StoreChoice::Postgres(_) => None,
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
            // A network disk may hang, so the call must not block a thread of the runtime.
            let free = spawn_blocking(move || sqlite::free_bytes(&settings)).await?;
            #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
            DISK_FREE_BYTES.set_to(free.map_or(f64::NAN, |free| free as f64));
        }
        Ok(())
    }

    async fn look_at_store(&self, now: Timestamp) -> Result<(), RunError> {
        let waiting = self.store.waiting(now, JOBS_COUNTED).await?;
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
    async fn run_once(&mut self, now: Timestamp) -> Result<LoopPause, RunError> {
        // The store comes last: if it is unavailable, the other gauges are refreshed anyway.
        self.look_at_certificates(now).await?;
        self.look_at_disk().await?;
        self.look_at_store(now).await?;
        Ok(LoopPause::For(EVERY))
    }
}

/// Returns the earliest expiry of all certificates for a purpose.
fn first_expiry(files: &[CertificateFile], purpose: CertificateUse) -> Option<Timestamp> {
    let files = files.iter().filter(|file| file.purpose == purpose);
    let certificates = files.flat_map(CertificateFile::certificates);
    certificates.filter_map(|certificate| expiry(&certificate)).min()
}
