//! Starts the loops of a replica's roles, and the loops that every replica runs.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::StartError;
use super::observer::Observer;
use super::time::TimeKeeper;
use crate::channels::Channels;
use crate::config::{ClusterMode, Config};
use crate::executor::{self, Executor};
use crate::notify::{self, Notifier};
use crate::outbound::Client;
use crate::runtime::{LoopPause, Random, TaskKind, Tasks, Worker, drive};
use crate::scheduler::{AccountEraser, HistoryPruner, JobRescuer, Leader, SchedulerContext};
use crate::telemetry::metrics::SHARDS;
use crate::telemetry::traces;

/// Starts the loop that lets the clock follow the store's time.
pub(super) fn keep_time(context: &SchedulerContext, tasks: &Tasks, keeper: TimeKeeper) {
    run(tasks, TaskKind::Upkeep, context, Arc::default(), keeper);
}

/// Starts tracing, if it is configured. Traces are exported until everything else has stopped.
pub(super) fn trace(
    config: &Config,
    context: &SchedulerContext,
    watch: &Tasks,
) -> Result<(), StartError> {
    let Some(settings) = &config.traces else { return Ok(()) };
    let exporting = traces::start(settings, &context.replica.to_string())?;
    watch.spawn(TaskKind::Traces, exporting.run(watch.stopping().clone()));
    Ok(())
}

/// Starts the loop that refreshes the gauges of the store's backlog, the disk and the certificates.
pub(super) fn observe(config: &Config, context: &SchedulerContext, tasks: &Tasks, shards: u16) {
    SHARDS.set(usize::from(shards));
    let observer = Observer::new(context.store.clone(), config);
    run(tasks, TaskKind::Upkeep, context, Arc::default(), observer);
}

/// Starts the job rescuer, if the replica's roles need it. Without a cluster, its first passes run
/// before any attempt starts, and close the attempts that an earlier process left. This is safe
/// because the lock on the store guarantees that the process that held their claims has ended.
pub(super) async fn rescue_jobs(
    config: &Config,
    context: &SchedulerContext,
    tasks: &Tasks,
    random: &Random,
) -> Result<(), StartError> {
    // An executor needs it too: while the queue is unavailable, only the job rescuer finds its
    // jobs.
    if !config.roles.scheduler && !config.roles.executor {
        return Ok(());
    }
    let alone = matches!(config.cluster_mode, ClusterMode::Alone);
    let retry = config.executor.retry;
    let mut rescuer = JobRescuer::new(context.clone(), retry, random.clone(), alone);
    while alone
        && rescuer.run_once(context.clock.now()).await.map_err(StartError::Recovery)?
            == LoopPause::None
    {}
    run(tasks, TaskKind::JobRescuer, context, Arc::default(), rescuer);
    Ok(())
}

/// The dependencies of a replica's stages.
pub(super) struct Stages<'a> {
    pub(super) config: &'a Config,
    pub(super) tasks: &'a Tasks,
    pub(super) client: &'a Client,
    pub(super) channels: &'a Channels,
    pub(super) random: &'a Random,
}

impl Stages<'_> {
    /// Starts the stages of the replica's roles. Returns the executor, if the replica has that
    /// role.
    pub(super) fn start(&self, context: &mut SchedulerContext) -> Option<Executor> {
        let Self { config, tasks, random, .. } = self;
        // The hint wakes the notifier of this replica at once when its executor raises an alert.
        let alerts = Arc::<Notify>::default();
        let executor = config.roles.executor.then(|| self.start_executor(context, alerts.clone()));
        if config.roles.scheduler {
            start_scheduler(config, context, tasks, random);
        }
        if config.roles.notifier {
            self.start_notifier(context, alerts);
        }
        executor
    }

    /// Starts the executor. Leaders of this replica can hand it the jobs that they fire.
    fn start_executor(&self, context: &mut SchedulerContext, alerts: Arc<Notify>) -> Executor {
        let Self { config, tasks, client, random, .. } = *self;
        let parts = executor::ExecutorParts {
            store: context.store.clone(),
            queue: context.queue.clone(),
            cluster: context.cluster.clone(),
            replica: context.replica.clone(),
            plans: config.plans.clone(),
            client: client.clone(),
            clock: context.clock.clone(),
            random: random.clone(),
            alerts,
        };
        let executor = Executor::start(config.executor.clone(), parts, tasks);
        context.starter = Some(Arc::new(executor.starter()));
        executor
    }

    /// Starts the notifier.
    fn start_notifier(&self, context: &SchedulerContext, alerts: Arc<Notify>) {
        let Self { config, tasks, channels, random, .. } = *self;
        let parts = notify::NotifierParts {
            store: context.store.clone(),
            channels: channels.clone(),
            clock: context.clock.clone(),
            random: random.clone(),
            public_url: config.users.public_url.clone(),
            hint: alerts,
        };
        let alone = matches!(config.cluster_mode, ClusterMode::Alone);
        Notifier::new(config.notify.clone(), parts, alone, tasks).start(tasks);
    }
}

/// Starts the loops that fire ticks, prune history and erase the data of deleted accounts.
fn start_scheduler(config: &Config, context: &SchedulerContext, tasks: &Tasks, random: &Random) {
    let hint = context.queue.due_hint();
    wake_by_terms(context, tasks, hint.clone());
    let leader = Leader::new(context.clone(), config.plans.clone(), random.clone());
    run(tasks, TaskKind::Leader, context, hint, leader);
    let pruner = HistoryPruner::new(context.clone(), config.retention, config.plans.clone());
    run(tasks, TaskKind::Upkeep, context, Arc::default(), pruner);
    run(tasks, TaskKind::Upkeep, context, Arc::default(), AccountEraser::new(context.clone()));
}

/// Wakes the leader when the leadership of a shard changes, so that it leads a new shard at once.
fn wake_by_terms(context: &SchedulerContext, tasks: &Tasks, hint: Arc<Notify>) {
    let (mut terms, stopping) = (context.cluster.terms(), tasks.stopping().clone());
    tasks.spawn(TaskKind::Hints, async move {
        let pass_on = async {
            while terms.changed().await.is_ok() {
                hint.notify_one();
            }
        };
        stopping.run_until_cancelled(pass_on).await;
    });
}

/// Starts a task that runs a worker in a loop until shutdown. `hint` wakes it early. The task ends
/// after the last run of the worker.
pub(super) fn run<W: Worker + 'static>(
    tasks: &Tasks,
    kind: TaskKind,
    context: &SchedulerContext,
    hint: Arc<Notify>,
    mut worker: W,
) -> JoinHandle<Option<()>> {
    let (driven, clock) = (tasks.clone(), context.clock.clone());
    tasks.spawn(kind, async move { drive(&driven, kind, &clock, &hint, &mut worker).await })
}
