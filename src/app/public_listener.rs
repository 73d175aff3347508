//! The composition of both HTTP listeners, and of the commands behind the public one.

use std::sync::Arc;

use axum::Router;
use tokio::sync::Notify;

use super::listen::BoundListener;
use crate::accounts::{
    Accounts, Authenticator, HashCost, KeyUseWriter, OidcProvider, RateLimiter, RateLimits,
    Throttle, UserContext, Users,
};
use crate::api::{self, BasePath};
use crate::channels::Channels;
use crate::channels::email::Mailer;
use crate::config::Config;
use crate::dashboard;
use crate::inspection::{Inspector, PeerServers};
use crate::local_executor::LocalHandover;
use crate::notifications::{NotificationParts, Notifications};
use crate::operations::canary::Arrivals;
use crate::operations::{self, MetricsUpkeep, Readiness};
use crate::outbound::Client;
use crate::queue::SharedQueue;
use crate::runtime::{Clock, Random, TaskKind, Tasks, Worker, drive, serve};
use crate::schedules::{self, Forecasts, JobWatches, ScheduleImports, Schedules};
use crate::store::SharedStore;
use crate::telemetry::metrics;

/// The maximum number of pages of unfinished jobs that are kept up to date by a stream. Each checks
/// its session every 5 seconds, and its job is read every second; further pages ask for changes
/// every 3 seconds.
const JOB_STREAMS: usize = 500;
/// The maximum number of these streams for the same account.
const JOB_STREAMS_OF_ACCOUNT: usize = 20;

/// Serves the operations listener, and starts the upkeep of the metrics.
pub(super) fn serve_operations(
    config: &Config,
    tasks: &Tasks,
    clock: &Clock,
    (readiness, arrivals): (&Arc<Readiness>, Option<Arrivals>),
    listener: BoundListener,
) {
    let exporter = metrics::install();
    let router = operations::router(readiness.clone(), exporter.clone(), clock.clone(), arrivals);
    serve(tasks, clock, listener.listener, router, config.ops.limits);
    let (driven, clock) = (tasks.clone(), clock.clone());
    tasks.spawn(TaskKind::Upkeep, async move {
        let mut upkeep = MetricsUpkeep(exporter);
        drive(&driven, TaskKind::Upkeep, &clock, &Notify::new(), &mut upkeep).await;
    });
}

/// Starts the worker that writes the last use of each key. It writes once more at shutdown.
fn write_key_uses(tasks: &Tasks, clock: &Clock, mut writer: KeyUseWriter) {
    let (driven, clock) = (tasks.clone(), clock.clone());
    tasks.spawn(TaskKind::Upkeep, async move {
        drive(&driven, TaskKind::Upkeep, &clock, &Notify::new(), &mut writer).await;
        // The writer reports a failure itself.
        let _ = writer.run_once(clock.now()).await;
    });
}

/// The commands behind the public listener.
pub(super) struct Commands {
    pub(super) accounts: Accounts,
    pub(super) schedules: Schedules,
    pub(super) notifications: Notifications,
    pub(super) users: Users,
}

/// The dependencies of the public listener.
pub(super) struct PublicListener {
    pub(super) store: SharedStore,
    pub(super) queue: SharedQueue,
    pub(super) client: Client,
    pub(super) provider: Option<OidcProvider>,
    pub(super) channels: Channels,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) tasks: Tasks,
    pub(super) shards: u16,
    pub(super) handover: Option<Arc<dyn LocalHandover>>,
    /// The queue and the cluster that replicas share; absent in an embedded installation.
    pub(super) servers: Option<PeerServers>,
}

impl PublicListener {
    /// Serves the public listener, if the replica has one, and returns the commands behind it.
    pub(super) fn serve(self, config: &Config, listener: Option<BoundListener>) -> Commands {
        let commands = self.commands(config);
        let Some(listener) = listener else { return commands };
        let base_path: BasePath =
            config.http.base_path.parse().expect("checked with the configuration");
        let limits =
            RateLimits { per_minute: config.rate.per_minute, per_hour: config.rate.per_hour };
        let limiter = RateLimiter::new(self.queue.clone(), limits);
        let (store, clock, plans) = (self.store.clone(), self.clock.clone(), config.plans.clone());
        let authenticator = Authenticator::new(store, limiter, clock, plans);
        write_key_uses(&self.tasks, &self.clock, authenticator.use_writer());
        let throttle = Arc::new(Throttle::new(&self.queue));
        let pages = self.pages(config, &commands, throttle.clone(), &base_path);
        let router = api::router(api::ApiParts {
            schedules: commands.schedules.clone(),
            notifications: commands.notifications.clone(),
            accounts: commands.accounts.clone(),
            authenticator,
            throttle,
            clock: self.clock.clone(),
            random: self.random,
            tasks: self.tasks.clone(),
            trusted_proxies: config.http.trusted_proxies.clone(),
            base_path,
            pages,
        });
        serve(&self.tasks, &self.clock, listener.listener, router, config.http.limits);
        commands
    }

    fn commands(&self, config: &Config) -> Commands {
        let Self { store, queue, clock, random, tasks, .. } = self;
        let plans = config.plans.clone();
        let accounts = Accounts::new(store.clone(), clock.clone(), random.clone(), plans.clone());
        let notifications = Notifications::new(NotificationParts {
            store: store.clone(),
            channels: self.channels.clone(),
            clock: clock.clone(),
            random: random.clone(),
            tasks: tasks.clone(),
            plans: plans.clone(),
        });
        let schedules = Schedules::new(schedules::ScheduleParts {
            store: store.clone(),
            queue: queue.clone(),
            outbound: self.client.clone(),
            clock: clock.clone(),
            random: random.clone(),
            tasks: tasks.clone(),
            shards: self.shards,
            plans,
            handover: self.handover.clone(),
        });
        let users = Users::new(self.user_context(config), config.users.clone());
        Commands { accounts, schedules, notifications, users }
    }

    /// Returns the routes of the dashboard.
    fn pages(
        &self,
        config: &Config,
        commands: &Commands,
        throttle: Arc<Throttle>,
        base_path: &BasePath,
    ) -> Router {
        let Self { store, clock, tasks, servers, .. } = self;
        dashboard::router(dashboard::DashboardParts {
            users: commands.users.clone(),
            accounts: commands.accounts.clone(),
            schedules: commands.schedules.clone(),
            imports: ScheduleImports::new(commands.schedules.clone()),
            forecasts: Forecasts::new(store.clone(), clock.clone(), tasks.clone()),
            watches: JobWatches::new(
                commands.schedules.clone(),
                JOB_STREAMS,
                JOB_STREAMS_OF_ACCOUNT,
            ),
            notifications: commands.notifications.clone(),
            throttle,
            inspector: Inspector::new(store.clone(), servers.clone(), clock.clone()),
            retry: config.executor.retry,
            clock: clock.clone(),
            tasks: tasks.clone(),
            base_path: base_path.as_str().to_owned(),
        })
    }

    /// Returns the dependencies of users who sign in.
    fn user_context(&self, config: &Config) -> UserContext {
        UserContext {
            store: self.store.clone(),
            queue: self.queue.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            tasks: self.tasks.clone(),
            mailer: config.mail.clone().map(Mailer::new),
            provider: self.provider.clone(),
            cost: HashCost::default(),
        }
    }
}
