//! The store, behind the configured adapter.
//!
//! A start with PostgreSQL waits until the server is usable, whatever the failure, because an
//! operator can repair the server meanwhile. Only wrong keys end the start: they are configuration.
//! A failure of SQLite ends the start.

use std::sync::Arc;
use std::time::Duration;

use super::StartError;
use super::encryption_keys;
use super::time::TimeKeeper;
use crate::config::{Config, StoreChoice};
use crate::operations::Readiness;
use crate::runtime::{Clock, Measured, Random};
use crate::store::postgres::PostgresStore;
use crate::store::sqlite::{ServerLock, SqliteStore};
use crate::store::{Result, SharedStore, StoreError, StoreErrorKind};

/// The delay before the first retry; it doubles with every retry.
const MIN_WAIT: Duration = Duration::from_millis(100);
/// The maximum delay between retries.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// The interval at which a failure that an operator must repair is logged again.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// An open store. Clones share it.
#[derive(Clone)]
pub enum OpenStore {
    /// A SQLite file on this machine.
    Sqlite(Arc<SqliteStore>),
    /// A PostgreSQL server.
    Postgres(Arc<PostgresStore>),
}

/// The properties of a store that is ready for use.
pub(super) struct ReadyStore {
    pub(super) shards: u16,
    /// The id of the installation, which distinguishes this store from all others.
    pub(super) installation: u32,
    /// Plans of accounts that are missing in the configuration.
    pub(super) unknown_plans: Vec<String>,
    /// The maximum number of days of history that the store can hold; absent without a limit.
    bearable_days: Option<u64>,
}

impl ReadyStore {
    /// Checks that every account's plan is configured: accounts on an unknown plan would be allowed
    /// nothing.
    pub(super) fn check_plans(&self) -> std::result::Result<(), StartError> {
        let unknown = &self.unknown_plans;
        if unknown.is_empty() { Ok(()) } else { Err(StartError::UnknownPlans(unknown.join(", "))) }
    }

    /// Checks that the store can hold the configured number of days of history.
    pub(super) fn check_history(&self, config: &Config) -> std::result::Result<(), StartError> {
        let longest = config.plans.longest_history().unwrap_or_default();
        let days = longest.max(config.retention.history).as_secs().div_ceil(24 * 3_600);
        match self.bearable_days {
            Some(bearable) if days > bearable => Err(StartError::LongHistory { days, bearable }),
            _ => Ok(()),
        }
    }
}

impl OpenStore {
    /// Opens the configured store without checking its schema version. A database server need not
    /// be reachable yet. For SQLite, creates the data folder if the file is to be in it, and the
    /// key of a new file.
    ///
    /// # Errors
    /// If the folder cannot be created, the keys are missing or the store cannot be opened.
    pub async fn open(config: &Config, random: &Random) -> std::result::Result<Self, StartError> {
        match &config.store {
            StoreChoice::Sqlite(settings) => {
                if settings.path.starts_with(&config.data_dir) {
                    std::fs::create_dir_all(&config.data_dir).map_err(|source| {
                        StartError::DataDir { path: config.data_dir.clone(), source }
                    })?;
                }
                let cipher = encryption_keys::cipher(config, random).await?;
                Ok(Self::Sqlite(Arc::new(SqliteStore::open(settings, &cipher).await?)))
            }
            StoreChoice::Postgres(settings) => {
                let cipher = encryption_keys::cipher(config, random).await?;
                Ok(Self::Postgres(Arc::new(PostgresStore::open(settings, &cipher)?)))
            }
        }
    }

    /// Returns the store wrapped with metrics of its calls, as the rest of the service uses it.
    pub fn shared(&self) -> SharedStore {
        let clock = Clock::system();
        match self {
            Self::Sqlite(store) => Arc::new(Measured::new(store.clone(), clock)),
            Self::Postgres(store) => Arc::new(Measured::new(store.clone(), clock)),
        }
    }

    /// Applies the missing migrations and checks that the keys match the stored secrets.
    ///
    /// # Errors
    /// If the store is incompatible with this binary or with the keys, or cannot be reached.
    pub async fn migrate(&self) -> Result<()> {
        match self {
            Self::Sqlite(store) => store.migrate().await,
            Self::Postgres(store) => store.migrate().await,
        }?;
        self.put_in_order().await
    }

    /// Checks the keys against the stored secrets, and creates the secrets that every store must
    /// have.
    async fn put_in_order(&self) -> Result<()> {
        let store = self.shared();
        store.use_keys(&[]).await?;
        store.make_first_secrets().await
    }

    /// Migrates the store or, if the configuration forbids migrations, checks that its schema is
    /// current. Also checks the keys.
    ///
    /// # Errors
    /// As [`migrate`](Self::migrate).
    pub async fn update(&self, config: &Config) -> Result<()> {
        match (config.migrate, self) {
            (true, store) => return store.migrate().await,
            (false, Self::Sqlite(store)) => store.check_version().await,
            (false, Self::Postgres(store)) => store.check_version().await,
        }?;
        self.put_in_order().await
    }

    /// Sets a clock to the store's time once, for a short command. The timestamps that the command
    /// writes are compared with those of the replicas, whose clocks follow the store's time too.
    ///
    /// # Errors
    /// If the store does not return its time.
    pub async fn set_clock(&self, clock: &Clock) -> Result<()> {
        TimeKeeper::new(self.shared(), clock.clone()).ask().await
    }

    /// Closes the store. Later calls fail.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }

    /// Locks a SQLite file against other server processes. Returns `None` for PostgreSQL, which
    /// many replicas share.
    pub(super) fn lock(&self) -> Result<Option<ServerLock>> {
        match self {
            Self::Sqlite(store) => store.lock().map(Some),
            Self::Postgres(_) => Ok(None),
        }
    }

    /// Prepares the store for use and lets the clock follow its time. With PostgreSQL, retries
    /// after any failure but wrong keys.
    pub(super) async fn make_ready(
        &self,
        config: &Config,
        clock: &Clock,
        random: &Random,
        keeper: &mut TimeKeeper,
        readiness: &Readiness,
    ) -> Result<ReadyStore> {
        let proposed = u32::try_from(random.bits() >> 96).expect("32 bits are left");
        let mut wait = MIN_WAIT;
        let mut said = LoggedFailure::default();
        loop {
            match self.try_make_ready(config, clock, proposed, keeper).await {
                Err(error) if matches!(self, Self::Postgres(_)) && is_awaited(&error) => {
                    said.say(&error, clock.monotonic());
                    readiness.waiting_for_store(reason(error.kind()));
                    // A migration that fails with such an error will fail again, and each attempt
                    // would block the replicas that are working. So it is retried less often.
                    let is_futile =
                        matches!(error.kind(), StoreErrorKind::Internal | StoreErrorKind::Rejected);
                    clock.sleep(if is_futile { SAY_EVERY } else { wait }).await;
                    wait = (wait * 2).min(MAX_WAIT);
                }
                ended => return ended,
            }
        }
    }

    async fn try_make_ready(
        &self,
        config: &Config,
        clock: &Clock,
        proposed: u32,
        keeper: &mut TimeKeeper,
    ) -> Result<ReadyStore> {
        self.update(config).await?;
        let bearable_days = match self {
            Self::Postgres(store) => {
                store.take_into_use().await?;
                Some(store.bearable_days().await?)
            }
            Self::Sqlite(_) => None,
        };
        let store = self.shared();
        let shards = store.set_up_shards(config.shards).await?;
        let installation = store.installation(proposed).await?;
        let plans: Vec<_> = config.plans.all().map(|plan| plan.name.clone()).collect();
        let unknown_plans = store.plans_beside(&plans).await?;
        keeper.ask().await?;
        store.prepare(clock.now()).await?;
        Ok(ReadyStore { shards, installation, unknown_plans, bearable_days })
    }
}

/// Returns `true` if the start retries after this failure.
fn is_awaited(error: &StoreError) -> bool {
    error.kind() != StoreErrorKind::WrongKeys
}

/// Returns the state that `/readyz` shows. Its callers need no key, so it reveals no details.
fn reason(kind: StoreErrorKind) -> &'static str {
    match kind {
        StoreErrorKind::Refused => "refused",
        StoreErrorKind::Incompatible => "incompatible",
        StoreErrorKind::Corrupt => "damaged",
        StoreErrorKind::Full => "full",
        _ => "unavailable",
    }
}

/// The failure that the start logged last, and the time.
#[derive(Default)]
struct LoggedFailure(Option<(String, Duration)>);

impl LoggedFailure {
    /// Logs the failure that the start waits for: once if it passes by itself, every `SAY_EVERY` if
    /// an operator must repair it. Replicas that start together wait for each other's lock, so a
    /// locked store is logged as information only.
    fn say(&mut self, error: &StoreError, now: Duration) {
        let passes = matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Locked);
        // The error texts of an outage vary, so only the kind of the failure is compared.
        let what = if passes { format!("{:?}", error.kind()) } else { error.to_string() };
        let is_said = self.0.as_ref().is_some_and(|(said, at)| {
            *said == what && (passes || now.saturating_sub(*at) < SAY_EVERY)
        });
        if is_said {
            return;
        }
        self.0 = Some((what, now));
        match error.kind() {
            StoreErrorKind::Locked => {
                tracing::info!("another replica is preparing the store, waiting for it");
                tracing::debug!(%error, "the store is locked");
            }
            _ if passes => tracing::warn!(%error, "waiting for the store (store.url)"),
            _ => {
                tracing::error!(%error, "store unusable (store.url), waiting until it is repaired");
            }
        }
    }
}
