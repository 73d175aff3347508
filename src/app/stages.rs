//! The store and the scheduler's loops.

use std::sync::Arc;

use tokio::sync::Notify;

use super::StartError;
use crate::config::Config;
use crate::runtime::{Pause, Random, TaskKind, Tasks, Worker, drive};
use crate::scheduler::{Context, Leader, Pruner, Sweeper};
use crate::store::sqlite::{ServerLock, Settings, SqliteStore};

/// Opens the configured store as it is, whatever version it has. Makes the data folder, if it is
/// there.
///
/// # Errors
/// If the folder cannot be made or the store cannot be opened.
pub async fn open_store(config: &Config) -> Result<Arc<SqliteStore>, StartError> {
    let path = config.store.path.clone();
    if path.starts_with(&config.data_dir) {
        std::fs::create_dir_all(&config.data_dir)
            .map_err(|source| StartError::DataDir { path: config.data_dir.clone(), source })?;
    }
    let read_connections = config.store.read_connections;
    let settings = Settings { read_connections, ..Settings::new(path) };
    Ok(Arc::new(SqliteStore::open(&settings).await?))
}

/// Brings a store up to date or, if told not to, makes sure that it is.
///
/// # Errors
/// If this binary and the store do not fit.
pub async fn update_store(config: &Config, store: &SqliteStore) -> Result<(), StartError> {
    match config.store.migrate {
        true => store.migrate().await?,
        false => store.check_version().await?,
    }
    Ok(())
}

/// Opens the store, makes sure that no other server uses it, and brings it up to date.
pub(super) async fn open_and_lock(
    config: &Config,
) -> Result<(Arc<SqliteStore>, ServerLock), StartError> {
    let store = open_store(config).await?;
    let lock = store.lock()?;
    update_store(config, &store).await?;
    Ok((store, lock))
}

/// Closes the attempts that an earlier process left, before any of ours begin; then sweeps on. The
/// lock on the store makes sure that whoever held a claim is gone.
pub(super) async fn recover_and_sweep(
    config: &Config,
    context: &Context,
    tasks: &Tasks,
    random: &Random,
) -> Result<(), StartError> {
    let mut sweeper = Sweeper::new(context.clone(), config.executor.retry, random.clone(), true);
    while sweeper.run_once(context.clock.now()).await.map_err(StartError::Recovery)? == Pause::None
    {
    }
    run(tasks, TaskKind::Sweeper, context, Arc::default(), sweeper);
    Ok(())
}

/// Starts firing ticks and pruning history.
pub(super) fn start_scheduler(config: &Config, context: &Context, tasks: &Tasks) {
    let hint = context.queue.due_hint();
    run(tasks, TaskKind::Leader, context, hint, Leader::new(context.clone()));
    let pruner = Pruner::new(context.clone(), config.history);
    run(tasks, TaskKind::Upkeep, context, Arc::default(), pruner);
}

/// Runs a worker as a loop until the stop, woken by `hint` too.
fn run<W: Worker + 'static>(
    tasks: &Tasks,
    kind: TaskKind,
    context: &Context,
    hint: Arc<Notify>,
    mut worker: W,
) {
    let (driven, clock) = (tasks.clone(), context.clock.clone());
    tasks.spawn(kind, async move { drive(&driven, kind, &clock, &hint, &mut worker).await });
}
