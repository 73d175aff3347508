//! The composition of both HTTP listeners, and of the commands behind the public one.

use std::sync::Arc;

use tokio::sync::Notify;

use super::listen::Bound;
use crate::accounts::{Accounts, Authenticator, KeyUseWriter, RateLimiter, RateLimits, Throttle};
use crate::api;
use crate::channels::Channels;
use crate::config::Config;
use crate::notifications::{NotificationParts, Notifications};
use crate::operations::canary::Arrivals;
use crate::operations::{self, MetricsUpkeep, Readiness};
use crate::outbound::Client;
use crate::queue::SharedQueue;
use crate::runtime::{Clock, Random, TaskKind, Tasks, Worker, drive, serve};
use crate::schedules::{self, Runner, Schedules};
use crate::store::SharedStore;
use crate::telemetry::metrics;

/// Serves the operations listener, and starts the upkeep of the metrics.
pub(super) fn serve_operations(
    config: &Config,
    tasks: &Tasks,
    clock: &Clock,
    (readiness, arrivals): (&Arc<Readiness>, Option<Arrivals>),
    listener: Bound,
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
}

/// The dependencies of the public listener.
pub(super) struct Front {
    pub(super) store: SharedStore,
    pub(super) queue: SharedQueue,
    pub(super) client: Client,
    pub(super) channels: Channels,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) tasks: Tasks,
    pub(super) shards: u16,
    pub(super) runner: Option<Arc<dyn Runner>>,
}

impl Front {
    /// Serves the public listener, if the replica has one, and returns the commands behind it.
    pub(super) fn serve(self, config: &Config, listener: Option<Bound>) -> Commands {
        let Self { store, queue, client, channels, clock, random, tasks, shards, runner } = self;
        let limits =
            RateLimits { per_minute: config.rate.per_minute, per_hour: config.rate.per_hour };
        let limiter = RateLimiter::new(queue.clone(), limits);
        let plans = config.plans.clone();
        let accounts = Accounts::new(store.clone(), clock.clone(), random.clone(), plans.clone());
        let authenticator =
            Authenticator::new(store.clone(), limiter, clock.clone(), plans.clone());
        let throttle = Throttle::new(&queue);
        let notifications = Notifications::new(NotificationParts {
            store: store.clone(),
            channels,
            clock: clock.clone(),
            random: random.clone(),
            tasks: tasks.clone(),
            plans: plans.clone(),
        });
        let schedules = Schedules::new(schedules::Parts {
            store,
            queue,
            outbound: client,
            clock: clock.clone(),
            random: random.clone(),
            tasks: tasks.clone(),
            shards,
            plans,
            runner,
        });
        let commands = Commands { accounts, schedules, notifications };
        let Some(listener) = listener else { return commands };
        write_key_uses(&tasks, &clock, authenticator.use_writer());
        let router = api::router(api::Parts {
            schedules: commands.schedules.clone(),
            notifications: commands.notifications.clone(),
            accounts: commands.accounts.clone(),
            authenticator,
            throttle,
            clock: clock.clone(),
            random,
            tasks: tasks.clone(),
            trusted_proxies: config.http.trusted_proxies.clone(),
            base_path: config.http.base_path.parse().expect("checked with the configuration"),
        });
        serve(&tasks, &clock, listener.listener, router, config.http.limits);
        commands
    }
}
