//! The scheduler: fires the ticks of the shards that this replica leads, and finds lost jobs.
//!
//! Place in the flow:
//! - The due indexes (hints) provide the due schedules and their accounts.
//! - The due ticks of all led shards are fired in batches, in which the accounts take turns
//!   (`pending`).
//! - The definitions come from the store, unless they are cached since the last tick.
//!   `domain::firing` decides.
//! - The store is written in fenced statements, each for a batch. Such a statement also claims the
//!   jobs for which this replica's executor has free slots. These start without a ticket.
//! - Then the tickets of the other jobs are pushed, and the indexes are moved on.
//!
//! Invariants: TICK-1 to TICK-4 and LEAD-1, all kept by the store's conditional writes. A crash
//! between any two steps loses nothing. An index that was not moved on contains a fired tick, which
//! the store reports as stale. The job rescuer finds tickets that were not pushed, and the claims
//! of an executor that died with its leader.
//!
//! A change that a user makes reaches the shard's leader:
//! - Normally at once, by a hint. A hint that the queue does not accept is kept by the replica that
//!   made the change, and sent within a second of the queue's return. A hint that the leader has
//!   taken and could not apply is put back.
//! - After a comparison of the whole index with the store, if the leader has just taken over the
//!   shard or rebuilt its index (a previous leader may have received the hint), if the queue failed
//!   (it may have lost hints), or if hints were dropped. This comparison makes no pauses, and reads
//!   a few pages of 1,000 ticks between two looks at the due ticks.
//! - By the periodic comparison of one page in 10 s, if the loss of the hint is not noticed,
//!   because the replica died between the change and the hint or the queue's server lost the hint.
//!   This takes up to 10 s per 1,000 schedules of the shard: 160 s with a million schedules in 64
//!   shards.
//! - By comparisons of the whole index, one after the other, while the queue is unreachable from
//!   this replica or from another one: then the hints of other replicas do not arrive.
//!
//! On failure a run ends with an error and is retried, with pauses that grow to 2 s. A shard that
//! fails or is slow does not stop the others from firing. The ticks of a slow batch are tried in
//! another batch. A schedule that cannot be fired is found by halving its batch, and is parked
//! alone (`isolate`).

mod account_eraser;
mod backlog;
mod batch_limits;
mod decide;
mod ended_leases;
mod fire;
mod firing_batch;
mod gathering;
mod history_pruner;
mod index;
mod isolate;
mod job_rescuer;
mod leader;
mod leader_pass;
mod pace;
mod pass_report;
mod pending;
mod quotas;
mod replace;
mod reserving;
mod restored;
mod running_calls;
mod schedule_cache;
mod shard_leadership;

pub use account_eraser::AccountEraser;
pub use history_pruner::{HistoryPruner, HistoryPrunerSettings};
pub use job_rescuer::JobRescuer;
pub use leader::Leader;
pub use replace::LeaderReplacer;
pub use restored::{PassOverError, PassedOver, pass_over_due};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cluster::SharedCluster;
use crate::local_executor::LocalStarter;
use crate::queue::SharedQueue;
use crate::runtime::Clock;
use crate::store::SharedStore;

/// The dependencies of the scheduler's loops.
#[derive(Clone)]
pub struct SchedulerContext {
    /// The store, which is the only truth.
    pub store: SharedStore,
    /// The due index and the run queue.
    pub queue: SharedQueue,
    /// The cluster, which assigns the shards to lead.
    pub cluster: SharedCluster,
    /// The clock. Its monotonic time bounds the trust in a term.
    pub clock: Clock,
    /// The executor of this replica, if it has one.
    pub starter: Option<Arc<dyn LocalStarter>>,
    /// The name of this replica, which is recorded with the epochs that it raises.
    pub replica: String,
    /// `true` while another replica is alive that cannot reach the queue, so that its hints do not
    /// arrive. [`LeaderReplacer`] learns it from the leases in the store.
    pub others_lack_queue: Arc<AtomicBool>,
}

impl SchedulerContext {
    /// Returns `true` if hints of other replicas may not arrive for now.
    fn misses_hints(&self) -> bool {
        self.queue.is_away() || self.others_lack_queue.load(Ordering::Relaxed)
    }
}
