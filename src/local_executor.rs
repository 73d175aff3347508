//! Starting jobs without the queue: the contracts of the executor in the same replica, which
//! leaders and commands use when it has free slots.

use std::time::Duration;

use async_trait::async_trait;

use crate::domain::JobId;
use crate::domain::ticket::Ticket;
use crate::store::{Fence, Fired, Firing, Result};

/// The executor as a leader sees it.
#[async_trait]
pub trait LocalStarter: Send + Sync {
    /// Fires those of the firings for which the executor has free slots, and starts their jobs.
    /// Each firing has exactly one job, and comes with its ticket. If no other executor is alive,
    /// the call waits for free slots, for at most `timeout`. `Err` returns all firings: there is
    /// no free slot.
    async fn fire(
        &self,
        fences: &[Fence],
        wanted: Vec<(Firing, Ticket)>,
        timeout: Duration,
    ) -> std::result::Result<LocalFiring, Vec<(Firing, Ticket)>>;
}

/// The result of firing with [`LocalStarter::fire`].
pub struct LocalFiring {
    /// The firings for which there was a free slot.
    pub fired: Vec<Firing>,
    /// The jobs that were made and started.
    pub started: Vec<JobId>,
    /// The store's answer to the firings. It contains no tickets of started jobs.
    pub outcome: Result<Fired>,
    /// The firings for which there was no free slot.
    pub left: Vec<(Firing, Ticket)>,
    /// The duration of the store's statement.
    pub took: Duration,
}

/// The executor as a command sees it.
pub trait LocalHandover: Send + Sync {
    /// Takes over waiting jobs that may start now. Returns those for which it has no free slot, so
    /// that the caller can push them to the queue.
    fn accept(&self, tickets: &[Ticket]) -> Vec<Ticket>;
}
