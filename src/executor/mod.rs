//! The executor: runs due jobs.
//!
//! Place in the flow: the executor takes no more tickets than it has free slots, and claims their
//! jobs in the store, which records the attempts before a byte is sent. It sends the requests
//! through the egress guard and commits the outcomes in batches. The tickets of retries go back to
//! the queue after the commit. Jobs that a leader of the same replica fires, or that a user asks
//! this replica for, start without a ticket, as long as there are free slots and no ticket waits
//! for one.
//!
//! Invariants: the store's conditional writes keep JOB-1 and JOB-2. JOB-3 needs the sweep: claims
//! end with the executor's lease (`lease`) if it is not renewed, and the sweep then closes the
//! attempts. An executor closes by itself the attempts that it has lost while its lease lasts
//! (`orphans`). [`Executor::stop`] keeps STOP-1.
//!
//! On failure: a batch that cannot be claimed is left to the sweep. Outcomes that cannot be
//! committed are kept and tried again while their claims last. One bad row does not keep a batch
//! from being committed: only that job ends FAILED `INTERNAL`, and so does a job whose request
//! cannot be read. Rows that another transaction holds, or that take the store too long, delay only
//! their own jobs: these completions are deferred and retried until they are committed
//! (`deferred`). The lease is renewed until all outcomes are committed.

mod attempt;
mod capacity;
mod completion;
mod intake;
mod lease;
mod renewer;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::cluster::SharedCluster;
use crate::domain::plan::Plans;
use crate::domain::retry::RetryPolicy;
use crate::domain::ticket::Ticket;
use crate::outbound::Client;
use crate::queue::SharedQueue;
use crate::runtime::{BatchSize, Clock, Moment, Random, TaskKind, Tasks, drive};
use crate::store::{ExecutorId, SharedStore};
use crate::telemetry::metrics::EXECUTOR_SLOTS;

use attempt::attempt_registry::{Abort, AttemptRegistry};
use attempt::finished_attempts::FinishedAttempt;
use capacity::account_concurrency::AccountConcurrency;
use capacity::slots::Slots;
use completion::committer::Committer;
use intake::dispatcher::Dispatcher;
use intake::handover::Handover;
use lease::Lease;
use renewer::Renewer;

pub use intake::starter::{Started, Starter};

/// The maximum number of jobs in one claim, and of outcomes in one commit.
const BATCH: usize = 500;

/// The limits of an executor, its claim time and its retry policy.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The maximum number of attempts under way.
    pub slots: usize,
    /// The maximum number of attempts under way of one account.
    pub per_account: usize,
    /// The maximum number of attempts under way to one host.
    pub per_host: usize,
    /// The time for which claims last unless the executor renews its lease.
    pub claim_time: Duration,
    /// The pauses before failed jobs are retried.
    pub retry: RetryPolicy,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            slots: 1_024,
            per_account: 100,
            per_host: 50,
            claim_time: Duration::from_secs(30),
            retry: RetryPolicy::default(),
        }
    }
}

/// The state that the executor's tasks share.
struct Shared {
    id: ExecutorId,
    settings: Settings,
    store: SharedStore,
    queue: SharedQueue,
    client: Client,
    clock: Clock,
    random: Random,
    slots: Arc<Slots>,
    shares: AccountConcurrency,
    running: Arc<AttemptRegistry>,
    lease: Lease,
    /// The number of jobs in one claim.
    claims: BatchSize,
    /// The number of outcomes in one commit.
    commits: BatchSize,
    alerts: Arc<Notify>,
}

impl Shared {
    /// Returns `true` if an attempt that was claimed at `claimed` may still be sent. Later, the
    /// lease may end before it is renewed, and another executor could send the same attempt.
    fn is_sendable(&self, claimed: Moment) -> bool {
        self.clock.since(claimed) <= self.settings.claim_time / 2
    }

    /// Queues tickets. If that fails, the sweep finds their jobs.
    async fn push(&self, tickets: &[Ticket]) {
        if !tickets.is_empty()
            && let Err(error) = self.queue.push(tickets).await
        {
            tracing::warn!(%error, "tickets not queued, leaving them to the sweep");
        }
    }
}

/// The parts that an executor works with.
pub struct Parts {
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
    shared: Arc<Shared>,
    starter: Starter,
    /// Cancelled when neither the dispatcher nor the handover begins attempts any more.
    drained: CancellationToken,
}

/// The maximum number of outcomes that wait for their commit. At this number, attempts that have
/// ended wait to hand in their outcomes and hold their slots.
const WAITING_OUTCOMES: usize = 4_096;

impl Executor {
    /// Starts the executor's tasks.
    pub fn start(settings: Settings, parts: Parts, tasks: &Tasks) -> Self {
        let Parts { store, queue, cluster, replica, plans, client, clock, random, alerts } = parts;
        EXECUTOR_SLOTS.set(settings.slots);
        let slots = Arc::new(Slots::new(&settings, queue.ticket_hint()));
        let shared = Arc::new(Shared {
            id: ExecutorId(random.bits()),
            settings,
            store: store.clone(),
            queue,
            client,
            clock,
            random,
            slots,
            shares: AccountConcurrency::new(plans, store.clone(), cluster, replica),
            running: Arc::new(AttemptRegistry::default()),
            lease: Lease::default(),
            claims: BatchSize::new(BATCH),
            commits: BatchSize::new(BATCH),
            alerts,
        });
        let (outcomes, waiting) = mpsc::channel(WAITING_OUTCOMES);
        let renewer = Renewer::new(shared.clone(), outcomes.downgrade());
        let (handed, waiting_jobs) = mpsc::channel(BATCH);
        let starter = Starter::new(shared.clone(), outcomes.downgrade(), tasks.clone(), handed);
        let handover = Handover::new(starter.clone(), waiting_jobs);
        let drained = start_taking(&shared, handover, outcomes, tasks);
        let committer = Committer::new(shared.clone(), waiting, tasks.clone());
        tasks.spawn(TaskKind::Committer, committer.run());
        tasks.spawn(TaskKind::Renewer, renewer.run(tasks.stopping().clone()));
        Self { shared, starter, drained }
    }

    /// Returns the starter, which starts jobs as soon as they are made.
    pub fn starter(&self) -> Starter {
        self.starter.clone()
    }

    /// Returns the number of attempts that are under way, or have ended and are not committed yet.
    pub fn running(&self) -> usize {
        self.shared.running.len()
    }

    /// Stops the executor after the first stage of a stop has begun. Waits for the attempts under
    /// way and their commits, for at most `grace`. Attempts that still run then are aborted and
    /// recorded as lost, so that another executor retries them (STOP-1). Returns `true` if none was
    /// aborted.
    pub async fn stop(&self, grace: Duration) -> bool {
        let idle = async {
            self.drained.cancelled().await;
            self.shared.running.idle().await;
        };
        tokio::select! {
            () = idle => true,
            () = self.shared.clock.sleep(grace) => {
                let left = self.shared.running.abort_all(Abort::Released);
                tracing::warn!(left, "grace period over, releasing running attempts");
                left == 0
            }
        }
    }
}

/// Starts the loops that take jobs. The returned token is cancelled when both have ended.
fn start_taking(
    shared: &Arc<Shared>,
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
        if let Err(error) = dispatcher.settle().await {
            tracing::warn!(%error, "the last claim failed, leaving its jobs to the sweep");
        }
        drop(ended);
    });
    tasks.spawn(TaskKind::Executor, async move {
        handover.run().await;
        drop(also_ended);
    });
    drained
}
