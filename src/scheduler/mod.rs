//! The scheduler: fires the ticks of the shards that this replica leads, and sweeps up what others
//! lost.
//!
//! Place in the flow: the due indexes (hints) say which schedules are due and whose they are; what is
//! due in all led shards is fired in batches that go round the accounts (`pending`); the store gives
//! the definitions, unless they are known from when they fired last; `domain::firing` decides; the
//! store is written in fenced statements, each of a batch; then the indexes are moved on and tickets
//! are pushed. What an executor of the same replica has room for is claimed for it by that statement, and
//! starts without a ticket.
//!
//! Invariants: TICK-1 to TICK-4 and LEAD-1, all kept by the store's conditional writes. Dying
//! between any two steps loses nothing: an index that was not moved on names a schedule whose tick
//! has been fired, which the store answers as stale; tickets that were not pushed are found by the
//! sweep, and so are claims of an executor that died with its leader.
//!
//! How late a change that a user makes is known to the shard's leader:
//! - At once, by its hint. One that the queue does not take is kept by the replica that made the
//!   change, and left within a second of the queue's return; one that the leader has taken and
//!   could not follow is left again.
//! - If the leader has just taken the shard over or built its index anew, so that one before it may
//!   have been told; or has met an error of the queue, which may have taken hints along; or is told
//!   that hints were dropped: after a comparison of the whole index with the store, which makes no pause
//!   and reads a few pages of 1,000 between two looks at what is due.
//! - If nobody knows that the hint is lost, because the replica died between the change and its
//!   hint, or the queue's server lost what it had taken: by the comparison of one page in 10 s, so
//!   within 10 s for each 1,000 schedules of the shard; 160 s with a million of them in 64 shards.
//!
//! On failure a run ends with an error and is tried again, ever slower up to two seconds. A shard
//! that cannot be served, or takes long, does so by itself: the others fire on. So does a batch that
//! takes long: what is in it is tried by another one. A schedule that cannot be fired is found by
//! halving its batch, and rests by itself (`isolate`).

mod backlog;
mod batch;
mod decide;
mod ended_leases;
mod erase;
mod fire;
mod flights;
mod index;
mod isolate;
mod known;
mod leader;
mod led;
mod pace;
mod pending;
mod prune;
mod quotas;
mod replace;
mod reserving;
mod restored;
mod round;
mod starter;
mod sweep;

pub use erase::Eraser;
pub use leader::Leader;
pub use prune::{Pruner, PrunerSettings};
pub use replace::LeaderReplacer;
pub use restored::{PassOverError, PassedOver, pass_over_due};
pub use starter::{Started, Starter};
pub use sweep::Sweeper;

use std::sync::Arc;

use crate::cluster::SharedCluster;
use crate::queue::SharedQueue;
use crate::runtime::Clock;
use crate::store::SharedStore;

/// What the scheduler's loops work with.
#[derive(Clone)]
pub struct Context {
    /// The truth.
    pub store: SharedStore,
    /// The due index and the run queue.
    pub queue: SharedQueue,
    /// Says which shards to lead.
    pub cluster: SharedCluster,
    /// Tells monotonic time for the trust in a term.
    pub clock: Clock,
    /// What runs jobs in this replica, if anything does.
    pub starter: Option<Arc<dyn Starter>>,
    /// This replica's name, for the record of who raised an epoch.
    pub replica: String,
}
