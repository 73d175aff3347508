//! Starting jobs without the queue: the contract between a leader and the executor of its replica.

use std::time::Duration;

use async_trait::async_trait;

use crate::domain::JobId;
use crate::domain::ticket::Ticket;
use crate::store::{Fence, Fired, Firing, Result};

/// The executor of the same replica.
#[async_trait]
pub trait Starter: Send + Sync {
    /// Fires those of the firings for which the executor has free slots, and starts their jobs.
    /// Each firing has exactly one job, and comes with its ticket. The call may wait for free
    /// slots, at most for `patience`. `Err` returns all firings: there is no free slot.
    async fn fire(
        &self,
        fences: &[Fence],
        wanted: Vec<(Firing, Ticket)>,
        patience: Duration,
    ) -> std::result::Result<Started, Vec<(Firing, Ticket)>>;
}

/// The result of a call.
pub struct Started {
    /// The firings for which there was a free slot.
    pub fired: Vec<Firing>,
    /// The jobs that were made and started.
    pub started: Vec<JobId>,
    /// The result of firing them. It contains no tickets of started jobs.
    pub outcome: Result<Fired>,
    /// The firings for which there was no free slot.
    pub left: Vec<(Firing, Ticket)>,
    /// The duration of the store's statement.
    pub took: Duration,
}
