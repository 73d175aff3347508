//! The executor: runs due jobs.
//!
//! Place in the flow: it takes no more tickets than it has free slots, claims their jobs in the
//! store (which records the attempts before a byte is sent), sends the requests through the egress
//! guard, and commits the outcomes in batches. The tickets of retries go back to the queue after
//! the commit. Jobs that a leader of the same replica fires, or a user of it asks for, start without
//! a ticket, as long as there are free slots and no ticket waits for one.
//!
//! Invariants: JOB-1 and JOB-2 by the store's conditional writes; JOB-3 with the sweep's help:
//! claims end with the executor's lease (`lease`) if that is not renewed, and the sweep closes the
//! attempts; those that a living executor has lost it closes itself (`orphans`). STOP-1 by [`Executor::stop`].
//!
//! On failure: a batch that cannot be claimed is left to the sweep. Outcomes that cannot be
//! committed are kept and tried again while their claims last. One bad row does not keep a batch
//! from being committed: that job alone ends FAILED `INTERNAL`, and so does one whose request cannot
//! be read. Rows that another transaction holds, or that take the store too long, delay only their own
//! jobs: the completions are deferred, and retried until they are committed (`deferred`). The lease is renewed until all outcomes are committed.

mod attempt;
mod commit;
mod committer;
mod deferred;
mod dispatcher;
mod ended;
mod handover;
mod lease;
mod line;
mod orphans;
mod renewer;
mod request;
mod running;
mod shares;
mod slots;
mod start;
mod starter;

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

use committer::Committer;
use dispatcher::Dispatcher;
use ended::Ended;
use handover::Handover;
use lease::Lease;
use renewer::Renewer;
use running::{Abort, Running};
use shares::Shares;
use slots::Slots;

pub use starter::{Started, Starter};

/// The most jobs claimed, and outcomes committed, at once.
const BATCH: usize = 500;

/// How much an executor does at once, and for how long it claims.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Attempts under way at once.
    pub slots: usize,
    /// Of them, of one account.
    pub per_account: usize,
    /// Of them, to one host.
    pub per_host: usize,
    /// How long its claims last unless it renews its lease.
    pub claim_time: Duration,
    /// When failed jobs are tried again.
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

/// What the executor's tasks share.
struct Shared {
    id: ExecutorId,
    settings: Settings,
    store: SharedStore,
    queue: SharedQueue,
    client: Client,
    clock: Clock,
    random: Random,
    slots: Arc<Slots>,
    shares: Shares,
    running: Arc<Running>,
    lease: Lease,
    /// How many jobs are claimed, and outcomes committed, at once.
    claims: BatchSize,
    commits: BatchSize,
    alerts: Arc<Notify>,
}

impl Shared {
    /// Whether what was claimed at a moment may still be sent: later the lease may end before it is
    /// renewed, and somebody else could send too.
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

/// What an executor works with.
pub struct Parts {
    /// Where jobs are.
    pub store: SharedStore,
    /// Where tickets are.
    pub queue: SharedQueue,
    /// Who else executes.
    pub cluster: SharedCluster,
    /// What the others call this replica.
    pub replica: String,
    /// What accounts may have under way.
    pub plans: Arc<Plans>,
    /// What sends requests.
    pub client: Client,
    /// What time it is.
    pub clock: Clock,
    /// Where ids come from.
    pub random: Random,
    /// Rung when a commit has raised events for the notifier.
    pub alerts: Arc<Notify>,
}

/// A running executor.
pub struct Executor {
    shared: Arc<Shared>,
    starter: Starter,
    /// Set when neither the dispatcher nor the handover begins an attempt any more.
    drained: CancellationToken,
}

/// Outcomes that may wait for their commit; when they are as many, attempts wait to hand in
/// theirs and hold their slots.
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
            shares: Shares::new(plans, store.clone(), cluster, replica),
            running: Arc::new(Running::default()),
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

    /// What starts jobs in the moment in which they are made.
    pub fn starter(&self) -> Starter {
        self.starter.clone()
    }

    /// How many attempts are under way, or have ended and are not committed yet.
    pub fn running(&self) -> usize {
        self.shared.running.len()
    }

    /// Waits for the attempts under way after the first stage of a stop has begun, and for their
    /// commits, at most for `grace`. What still runs then is aborted and recorded as lost, so that
    /// another executor goes on with it (STOP-1). Returns whether none was aborted.
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

/// Starts the loops that take jobs; the token is set when they have ended.
fn start_taking(
    shared: &Arc<Shared>,
    handover: Handover,
    outcomes: mpsc::Sender<Ended>,
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
