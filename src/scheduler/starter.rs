//! Starting jobs past the queue: what a leader asks of an executor beside it.

use std::time::Duration;

use async_trait::async_trait;

use crate::domain::JobId;
use crate::domain::ticket::Ticket;
use crate::store::{Fence, Fired, Firing, Result};

/// An executor of the same replica.
#[async_trait]
pub trait Starter: Send + Sync {
    /// Fires those of the firings, each of one job with its ticket, whose jobs the executor has room
    /// for, and starts these. It may wait for room, at most for `patience`. `Err` gives all back:
    /// there is no room.
    async fn fire(
        &self,
        fences: &[Fence],
        wanted: Vec<(Firing, Ticket)>,
        patience: Duration,
    ) -> std::result::Result<Started, Vec<(Firing, Ticket)>>;
}

/// What has come of firings.
pub struct Started {
    /// Those that there was room for.
    pub fired: Vec<Firing>,
    /// The jobs that have been made and started.
    pub started: Vec<JobId>,
    /// What firing them has done; the jobs that have been started have no tickets in it.
    pub outcome: Result<Fired>,
    /// Those that there was no room for.
    pub left: Vec<(Firing, Ticket)>,
    /// How long the store took.
    pub took: Duration,
}
