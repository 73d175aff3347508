//! The executor: runs due jobs.
//!
//! Place in the flow: the executor takes no more tickets than it has free slots, and claims their
//! jobs in the store, which records the attempts before a byte is sent. It sends the requests
//! through the egress guard and commits the outcomes in batches. The tickets of retries go back to
//! the queue after the commit. Jobs that a leader of the same replica fires, or that a user asks
//! this replica for, start without a ticket, as long as there are free slots and no ticket waits
//! for one.
//!
//! Invariants: the store's conditional writes keep JOB-1 and JOB-2. JOB-3 needs the job rescuer:
//! claims end with the executor's lease (`lease`) if it is not renewed, and the job rescuer then
//! closes the attempts. An executor closes by itself the attempts that it has lost while its lease
//! lasts (`orphans`). [`Executor::stop`] keeps STOP-1.
//!
//! On failure: a batch that cannot be claimed is left to the job rescuer. Outcomes that cannot be
//! committed are kept and tried again while their claims last. One bad row does not keep a batch
//! from being committed: only that job ends FAILED `INTERNAL`, and so does a job whose request
//! cannot be read. Rows that another transaction holds, or that take the store too long, delay only
//! their own jobs: these completions are deferred and retried until they are committed
//! (`deferred`). The lease is renewed until all outcomes are committed.

mod attempt;
mod attempt_registry;
mod capacity;
mod completion;
mod intake;
mod lease;
mod renewer;
mod settings;
mod shared;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::cluster::SharedCluster;
use crate::domain::plan::Plans;
use crate::outbound::Client;
use crate::queue::SharedQueue;
use crate::runtime::{BatchSize, Clock, Random, TaskKind, Tasks, drive};
use crate::store::{ExecutorId, SharedStore};
use crate::telemetry::metrics::EXECUTOR_SLOTS;

use attempt::finished_attempts::FinishedAttempt;
use attempt_registry::{Abort, AttemptRegistry};
use capacity::account_concurrency::AccountConcurrency;
use capacity::slots::Slots;
use completion::committer::commit_outcomes;
use intake::dispatcher::Dispatcher;
use intake::handover::Handover;
use lease::Lease;
use renewer::renew;
use shared::ExecutorShared;

pub use intake::direct_starter::DirectStarter;
use settings::BATCH;
pub use settings::ExecutorSettings;

/// The parts that an executor works with.
pub struct ExecutorParts {
    /// The store of jobs and claims.
    pub store: SharedStore,
    /// The queue of tickets.
    pub queue: SharedQueue,
    /// Lists the other executors.
    pub cluster: SharedCluster,
    /// The name of this replica in the cluster.
    pub replica: String,
    /// The plans, which limit the attempts under way of an account.
    pub plans: Arc<Plans>,
    /// Sends the requests.
    pub client: Client,
    /// The clock.
    pub clock: Clock,
    /// The source of ids and of jitter.
    pub random: Random,
    /// Notified when a commit has raised events for the notifier.
    pub alerts: Arc<Notify>,
}

/// A running executor.
pub struct Executor {
    shared: Arc<ExecutorShared>,
    starter: DirectStarter,
    /// Cancelled when neither the dispatcher nor the handover begins attempts any more.
    drained: CancellationToken,
}

/// The maximum number of outcomes that wait for their commit. At this number, attempts that have
/// ended wait to hand in their outcomes and hold their slots.
const WAITING_OUTCOMES: usize = 4_096;

impl Executor {
    /// Starts the executor's tasks.
    pub fn start(settings: ExecutorSettings, parts: ExecutorParts, tasks: &Tasks) -> Self {
        let ExecutorParts { store, queue, cluster, replica, plans, client, clock, random, alerts } =
            parts;
        EXECUTOR_SLOTS.set(settings.slots);
        let slots = Arc::new(Slots::new(&settings, queue.ticket_hint()));
        let id = ExecutorId(random.bits());
        let lease = Lease::new(id, store.clone(), clock.clone(), settings.claim_time);
        let shared = Arc::new(ExecutorShared {
            id,
            settings,
            store: store.clone(),
            queue,
            client,
            clock,
            random,
            slots,
            account_concurrency: AccountConcurrency::new(plans, store.clone(), cluster, replica),
            registry: Arc::new(AttemptRegistry::default()),
            lease,
            claims: BatchSize::new(BATCH),
            commits: BatchSize::new(BATCH),
            alerts,
        });
        let (outcomes, waiting) = mpsc::channel(WAITING_OUTCOMES);
        let renewing = renew(shared.clone(), outcomes.downgrade(), tasks.stopping().clone());
        let (handed, waiting_jobs) = mpsc::channel(BATCH);
        let starter =
            DirectStarter::new(shared.clone(), outcomes.downgrade(), tasks.clone(), handed);
        let handover = Handover::new(starter.clone(), waiting_jobs);
        let drained = start_taking(&shared, handover, outcomes, tasks);
        let committing = commit_outcomes(shared.clone(), waiting, tasks.clone());
        tasks.spawn(TaskKind::Committer, committing);
        tasks.spawn(TaskKind::Renewer, renewing);
        Self { shared, starter, drained }
    }

    /// Returns the starter, which starts jobs as soon as they are made.
    pub fn starter(&self) -> DirectStarter {
        self.starter.clone()
    }

    /// Returns the number of attempts that are under way, or have ended and are not committed yet.
    pub fn running(&self) -> usize {
        self.shared.registry.len()
    }

    /// Stops the executor after the first stage of a stop has begun. Waits for the attempts under
    /// way and their commits, for at most `grace`. Attempts that still run then are aborted and
    /// recorded as lost, so that another executor retries them (STOP-1). Returns `true` if none was
    /// aborted.
    pub async fn stop(&self, grace: Duration) -> bool {
        let idle = async {
            self.drained.cancelled().await;
            self.shared.registry.idle().await;
        };
        tokio::select! {
            () = idle => true,
            () = self.shared.clock.sleep(grace) => {
                let attempts = self.shared.registry.abort_all(Abort::Released);
                tracing::warn!(attempts, "grace period over, releasing running attempts");
                attempts == 0
            }
        }
    }
}

/// Starts the loops that take jobs. The returned token is cancelled when both have ended.
fn start_taking(
    shared: &Arc<ExecutorShared>,
    handover: Handover,
    outcomes: mpsc::Sender<FinishedAttempt>,
    tasks: &Tasks,
) -> CancellationToken {
    let mut dispatcher = Dispatcher::new(shared.clone(), outcomes, tasks.clone());
    let (clock, hint, driven) = (shared.clock.clone(), shared.queue.ticket_hint(), tasks.clone());
    let drained = CancellationToken::new();
    let ended = Arc::new(drained.clone().drop_guard());
    let also_ended = ended.clone();
    tasks.spawn(TaskKind::Executor, async move {
        drive(&driven, TaskKind::Executor, &clock, &hint, &mut dispatcher).await;
        if let Err(error) = dispatcher.await_claim().await {
            tracing::warn!(%error, "the last claim failed, leaving its jobs to the job rescuer");
        }
        drop(ended);
    });
    tasks.spawn(TaskKind::Executor, async move {
        handover.run().await;
        drop(also_ended);
    });
    drained
}
