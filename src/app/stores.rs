//! The store, by whichever adapter is configured.

use std::sync::Arc;
use std::time::Duration;

use super::StartError;
use super::keys;
use super::time::TimeKeeper;
use crate::config::{Config, Store};
use crate::operations::Readiness;
use crate::runtime::{Clock, Measured, Random};
use crate::store::postgres::PostgresStore;
use crate::store::sqlite::{ServerLock, SqliteStore};
use crate::store::{Result, SharedStore, StoreError, StoreErrorKind};

const SHORTEST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// How often it is said again what somebody has to mend.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// An open store. Clones share it.
#[derive(Clone)]
pub enum OpenStore {
    /// In a file of this machine.
    Sqlite(Arc<SqliteStore>),
    /// On a server.
    Postgres(Arc<PostgresStore>),
}

/// What a store says of itself when it is ready to be used.
pub(super) struct Ready {
    pub(super) shards: u16,
    /// Tells the store from all others.
    pub(super) installation: u32,
    /// Plans that accounts have and the configuration has not.
    pub(super) unknown_plans: Vec<String>,
    /// How many days of history it has room for, if there is a limit.
    bearable_days: Option<u64>,
}

impl Ready {
    /// Makes sure that every account's plan is configured: else its accounts would be allowed
    /// nothing.
    pub(super) fn check_plans(&self) -> std::result::Result<(), StartError> {
        let unknown = &self.unknown_plans;
        if unknown.is_empty() { Ok(()) } else { Err(StartError::UnknownPlans(unknown.join(", "))) }
    }

    /// Makes sure that the store has room for as much history as is to be kept.
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
    /// Opens the configured store as it is, whatever version it has; a server need not be there
    /// yet. Makes the data folder, if a file of the store is in it, and the key of a new file.
    ///
    /// # Errors
    /// If the folder cannot be made, the keys are missing or the store cannot be opened.
    pub async fn open(config: &Config, random: &Random) -> std::result::Result<Self, StartError> {
        match &config.store {
            Store::Sqlite(settings) => {
                if settings.path.starts_with(&config.data_dir) {
                    std::fs::create_dir_all(&config.data_dir).map_err(|source| {
                        StartError::DataDir { path: config.data_dir.clone(), source }
                    })?;
                }
                let sealer = keys::sealer(config, random).await?;
                Ok(Self::Sqlite(Arc::new(SqliteStore::open(settings, &sealer).await?)))
            }
            Store::Postgres(settings) => {
                let sealer = keys::sealer(config, random).await?;
                Ok(Self::Postgres(Arc::new(PostgresStore::open(settings, &sealer)?)))
            }
        }
    }

    /// The store as all others see it: its calls are measured.
    pub fn shared(&self) -> SharedStore {
        let clock = Clock::system();
        match self {
            Self::Sqlite(store) => Arc::new(Measured::new(store.clone(), clock)),
            Self::Postgres(store) => Arc::new(Measured::new(store.clone(), clock)),
        }
    }

    /// Applies the migrations that are missing, and makes sure that the keys are those that
    /// secrets are sealed with.
    ///
    /// # Errors
    /// If this binary and the store, or the keys and the store, do not fit, or it cannot be
    /// reached.
    pub async fn migrate(&self) -> Result<()> {
        match self {
            Self::Sqlite(store) => store.migrate().await,
            Self::Postgres(store) => store.migrate().await,
        }?;
        self.put_in_order().await
    }

    /// What can only be done with the keys for secrets: they must be the right ones, and what is
    /// made with them must be there.
    async fn put_in_order(&self) -> Result<()> {
        let store = self.shared();
        store.use_keys(&[]).await?;
        store.make_first_secrets().await
    }

    /// Brings the store up to date or, if told not to, makes sure that it is; the same for keys.
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

    /// Lets a clock show the store's time, for a command that is soon over: what it notes is compared
    /// with what servers note, whose clocks follow that time too.
    ///
    /// # Errors
    /// If the store does not tell.
    pub async fn set_clock(&self, clock: &Clock) -> Result<()> {
        TimeKeeper::new(self.shared(), clock.clone()).ask().await
    }

    /// Ends what is under way; later calls fail.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }

    /// Makes sure that no other server uses a file. A server's store is there for many.
    pub(super) fn lock(&self) -> Result<Option<ServerLock>> {
        match self {
            Self::Sqlite(store) => store.lock().map(Some),
            Self::Postgres(_) => Ok(None),
        }
    }

    /// Makes the store ready to be used, and the clock follow its time. A server is waited for,
    /// whatever it says: there it can be mended. Keys cannot.
    pub(super) async fn make_ready(
        &self,
        config: &Config,
        clock: &Clock,
        random: &Random,
        keeper: &mut TimeKeeper,
        readiness: &Readiness,
    ) -> Result<Ready> {
        let proposed = u32::try_from(random.bits() >> 96).expect("32 bits are left");
        let mut wait = SHORTEST_WAIT;
        let mut said = Said::default();
        loop {
            match self.try_make_ready(config, clock, proposed, keeper).await {
                Err(error) if matches!(self, Self::Postgres(_)) && is_awaited(&error) => {
                    said.say(&error, clock.monotonic());
                    readiness.waiting_for_store(reason(error.kind()));
                    // A change of the tables that fails by itself would only hold up those who work.
                    let is_futile =
                        matches!(error.kind(), StoreErrorKind::Internal | StoreErrorKind::Rejected);
                    clock.sleep(if is_futile { SAY_EVERY } else { wait }).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
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
    ) -> Result<Ready> {
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
        Ok(Ready { shards, installation, unknown_plans, bearable_days })
    }
}

/// Whether a start waits for the end of such a failure.
fn is_awaited(error: &StoreError) -> bool {
    error.kind() != StoreErrorKind::WrongKeys
}

/// What whoever has no key may know of it.
fn reason(kind: StoreErrorKind) -> &'static str {
    match kind {
        StoreErrorKind::Refused => "refused",
        StoreErrorKind::Incompatible => "incompatible",
        StoreErrorKind::Corrupt => "damaged",
        StoreErrorKind::Full => "full",
        _ => "unavailable",
    }
}

/// What was said last of what a start waits for, and when.
#[derive(Default)]
struct Said(Option<(String, Duration)>);

impl Said {
    /// Says what a start waits for: what passes by itself once, what somebody has to mend again and
    /// again. That replicas that start together wait for each other is as it should be.
    fn say(&mut self, error: &StoreError, now: Duration) {
        let passes = matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Locked);
        // What is away is so in many ways.
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
                tracing::debug!(%error, "what it waits for");
            }
            _ if passes => tracing::warn!(%error, "waiting for the store (store.url)"),
            _ => {
                tracing::error!(%error, "cannot use the store (store.url), waiting until it is mended");
            }
        }
    }
}
