//! The composition root: selects the adapters and the roles, and starts and stops them in order.
//!
//! Start order:
//! 1. the operations listener, so that liveness probes succeed from the beginning;
//! 2. the store: opened, locked and migrated. The start waits until a database server is usable;
//! 3. the queue and the cluster;
//! 4. the first pass of the job rescuer: without a cluster, it closes the attempts that an earlier
//!    process left;
//! 5. the stages of the replica's roles;
//! 6. the public listener;
//! 7. readiness, once queue and cluster have answered. A later outage of either does not end the
//!    readiness, because the API works without them.
//!
//! Stop order: readiness ends; the stages take no new work and the shards are handed over; running
//! attempts finish or, at the end of the grace period, are released; then everything else stops,
//! the operations listener last.

mod canary;
mod certificates;
mod coordination;
mod copy;
mod doctor;
mod encryption_keys;
mod error;
mod listen;
mod observer;
mod overview;
mod public_listener;
mod restored;
mod signals;
mod stages;
mod store_lease;
mod stores;
mod time;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use copy::{CopiedTable, CopyError, CopyResult, Progress, copy};
pub use doctor::{Diagnosis, diagnose};
pub use encryption_keys::new_key;
pub use error::StartError;
pub use overview::overview;
pub use restored::{RestoreError, RestoreResult, UNFINISHED_COUNTED, restored};
pub use signals::Signals;
pub use stores::OpenStore;

use crate::accounts::{Accounts, OidcProvider, Users};
use crate::channels::Channels;
use crate::channels::email::Mailer;
use crate::cluster::SharedCluster;
use crate::config::Config;
use crate::executor::Executor;
use crate::notifications::Notifications;
use crate::operations::Readiness;
use crate::outbound::{Client, SetupError};
use crate::runtime::{Clock, Random, Tasks};
use crate::schedules::Schedules;
use crate::store::sqlite::ServerLock;
use canary::CanaryStart;
use listen::Listeners;
use public_listener::{Commands, PublicListener};
use stages::Stages;
use store_lease::StoreLease;
use time::TimeKeeper;

/// The maximum part of the grace period that is reserved for committing the last results of
/// attempts. The reserve is a quarter of the grace period, up to this limit.
const COMMIT_GRACE: Duration = Duration::from_secs(3);

/// The minimum time for these commits, even if the grace period is shorter.
const MIN_COMMIT_GRACE: Duration = Duration::from_millis(250);

/// The time for the last responses of the operations listener after everything else has stopped.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// A running service.
pub struct App {
    clock: Clock,
    tasks: Tasks,
    /// The operations listener and the export of traces, which run until everything else has
    /// stopped.
    watch: Tasks,
    grace: Duration,
    readiness: Arc<Readiness>,
    cluster: SharedCluster,
    /// The lease in the store; absent without a cluster.
    lease: Option<StoreLease>,
    /// The executor; absent without its role.
    executor: Option<Executor>,
    store: OpenStore,
    /// Held until everything has stopped.
    _lock: Option<ServerLock>,
    /// The public address; absent without the role `api`.
    public: Option<SocketAddr>,
    operations: SocketAddr,
    commands: Commands,
}

/// The way in which a service ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceEnd {
    /// The service stopped in order after a signal.
    AsAsked,
    /// The service stopped after a signal, but work that did not end within the grace period was
    /// cut off. Attempts that were cut off are continued at the next start.
    CutOff,
    /// The service stopped because a part that it needs had failed.
    Failed,
    /// The service stopped before the shutdown was complete, because of a second signal.
    AtOnce,
}

impl App {
    /// Starts everything. On an error, the parts that were already started are stopped.
    ///
    /// # Errors
    /// If a port, the data folder or the store cannot be used.
    pub async fn start(config: &Config) -> Result<Self, StartError> {
        let (tasks, watch) = (Tasks::new(), Tasks::new());
        match Self::assemble(config, &tasks, &watch).await {
            Ok(app) => Ok(app),
            Err(error) => {
                tasks.finish(Duration::ZERO).await;
                watch.finish(Duration::ZERO).await;
                Err(error)
            }
        }
    }

    async fn assemble(config: &Config, tasks: &Tasks, watch: &Tasks) -> Result<Self, StartError> {
        let (clock, random) = (Clock::system(), Random::system());
        let listeners = Listeners::bind(config).await?;
        let (public, operations) = listeners.addresses();
        let canary = CanaryStart::new(config, operations);
        let readiness = Readiness::starting(clock.clone());
        let shown = (&readiness, canary.arrivals());
        public_listener::serve_operations(config, watch, &clock, shown, listeners.operations);

        let open = OpenStore::open(config, &random).await?;
        let lock = open.lock()?;
        let store = open.shared();
        let mut keeper = TimeKeeper::new(store.clone(), clock.clone());
        let ready = open.make_ready(config, &clock, &random, &mut keeper, &readiness).await?;
        let shards = ready.shards;
        ready.check_plans()?;
        ready.check_history(config)?;
        let joined = coordination::join(config, &ready, &clock, &random, tasks)?;
        let client = Client::new(canary.outbound(config), clock.clone(), tasks)?;
        let provider = provider(config, &clock, &random, tasks)?;

        let mut context = joined.context(&store, &clock);
        stages::trace(config, &context, watch)?;
        stages::keep_time(&context, tasks, keeper);
        stages::observe(config, &context, tasks, shards);
        canary.start(&context, tasks, &random, shards);
        stages::rescue_jobs(config, &context, tasks, &random).await?;
        let channels = channels(config, &client, &clock, &random);
        let stages =
            Stages { config, tasks, client: &client, channels: &channels, random: &random };
        let executor = stages.start(&mut context);
        let lease = StoreLease::start(config, &context, tasks);

        let tasks = tasks.clone();
        let public_listener = PublicListener {
            store,
            queue: context.queue.clone(),
            channels,
            client,
            provider,
            clock: clock.clone(),
            random,
            tasks: tasks.clone(),
            shards,
            handover: executor.as_ref().map(|executor| Arc::new(executor.starter()) as _),
            servers: coordination::peer_servers(config, &context),
        };
        let commands = public_listener.serve(config, listeners.public);
        coordination::wait_for(config, &context, &readiness, &tasks);
        let replica = &context.replica;
        match public {
            Some(public) => tracing::info!(%public, %operations, shards, %replica, "serving"),
            None => tracing::info!(%operations, shards, %replica, "working"),
        }
        Ok(Self {
            clock,
            tasks,
            watch: watch.clone(),
            grace: config.grace,
            readiness,
            cluster: context.cluster,
            lease,
            executor,
            store: open,
            _lock: lock,
            public,
            operations,
            commands,
        })
    }

    /// Returns the address of the public listener, or `None` without the role `api`.
    pub fn public_address(&self) -> Option<SocketAddr> {
        self.public
    }

    /// Returns the address of the operations listener.
    pub fn operations_address(&self) -> SocketAddr {
        self.operations
    }

    /// Returns the commands on accounts and keys.
    pub fn accounts(&self) -> &Accounts {
        &self.commands.accounts
    }

    /// Returns the commands of users who sign in.
    pub fn users(&self) -> &Users {
        &self.commands.users
    }

    /// Returns the commands on schedules and jobs.
    pub fn schedules(&self) -> &Schedules {
        &self.commands.schedules
    }

    /// Returns the commands on notification channels, preferences and deliveries.
    pub fn notifications(&self) -> &Notifications {
        &self.commands.notifications
    }

    /// Serves until a signal or a failure, then stops. A second signal ends the shutdown at once.
    pub async fn run(self, mut signals: Signals) -> ServiceEnd {
        signals.wait_for_stop([&self.tasks, &self.watch]).await;
        tokio::select! {
            ended = self.stop() => ended,
            () = signals.wait_for_one() => ServiceEnd::AtOnce,
        }
    }

    /// Stops the service within the grace period (STOP-1).
    pub async fn stop(self) -> ServiceEnd {
        let begun = self.clock.monotonic();
        self.readiness.draining();
        self.tasks.begin_stop();
        self.cluster.leave().await;
        let for_commits = (self.grace / 4).clamp(MIN_COMMIT_GRACE, COMMIT_GRACE);
        let left = || self.grace.saturating_sub(self.clock.monotonic() - begun);
        let for_attempts = left().saturating_sub(for_commits);
        let end_lease = async {
            let Some(lease) = self.lease else { return };
            tokio::select! {
                () = lease.end() => {}
                () = self.clock.sleep(for_attempts) => {}
            }
        };
        let end_attempts = async {
            match &self.executor {
                Some(executor) => executor.stop(for_attempts).await,
                None => true,
            }
        };
        let ((), idle) = tokio::join!(end_lease, end_attempts);
        let clean = self.tasks.finish(left().max(for_commits)).await && idle;
        self.store.close().await;
        self.watch.finish(LAST_ANSWERS).await;
        tracing::info!(clean, "stopped");
        match (self.tasks.has_failed() || self.watch.has_failed(), clean) {
            (true, _) => ServiceEnd::Failed,
            (false, true) => ServiceEnd::AsAsked,
            (false, false) => ServiceEnd::CutOff,
        }
    }
}

/// Returns the OpenID provider of the configuration. It is not called before a person signs in.
fn provider(
    config: &Config,
    clock: &Clock,
    random: &Random,
    tasks: &Tasks,
) -> Result<Option<OidcProvider>, SetupError> {
    let Some(settings) = config.oidc.clone() else { return Ok(None) };
    let sources = (clock.clone(), random.clone());
    OidcProvider::new(settings, &config.outbound, sources, tasks).map(Some)
}

/// Returns the notification channels of the configuration.
fn channels(config: &Config, client: &Client, clock: &Clock, random: &Random) -> Channels {
    let mailer = config.mail.clone().map(Mailer::new);
    let (settings, client) = (config.channels.clone(), client.clone());
    Channels::new(settings, client, mailer, clock.clone(), random.clone())
}
