//! The state of an outage of the shared queue, and the due indexes that have to be built because of
//! it.

use std::collections::HashSet;

use tokio::sync::Notify;

use crate::domain::shard::ShardId;
use crate::queue::QueueError;
use crate::runtime::Mutex;
use crate::telemetry::metrics::{DEGRADED, Server};

/// The location of a shard's due index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexLocation {
    /// The index is in the shared queue.
    Shared,
    /// The index is in this replica's memory.
    Own,
    /// The index must be rebuilt, in the place that [`Outage::is_on`] tells.
    Nowhere,
}

/// The state of the shared queue: it is unreachable or not.
#[derive(Default)]
pub(super) struct Outage {
    state: Mutex<OutageState>,
    /// Notified when an outage begins.
    pub(super) begun: Notify,
}

#[derive(Default)]
struct OutageState {
    is_on: bool,
    /// Set if the shared queue has failed to give tickets in this outage.
    gives_no_tickets: bool,
    /// The shards whose own due index was built in this outage.
    built: HashSet<ShardId>,
    /// The shards whose shared due index may have missed a write in an outage.
    stale: HashSet<ShardId>,
}

impl Outage {
    /// Returns `true` during an outage.
    pub(super) fn is_on(&self) -> bool {
        self.state.lock().is_on
    }

    /// Begins an outage, if there is none.
    pub(super) fn begin(&self, error: &QueueError) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_on, true) {
            return;
        }
        state.built.clear();
        DEGRADED.with(Server::Queue).set(1);
        tracing::warn!(%error, "queue unreachable, firing from the store (queue.url)");
        self.begun.notify_one();
    }

    /// Ends the outage.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        (state.is_on, state.gives_no_tickets) = (false, false);
        DEGRADED.with(Server::Queue).set(0);
        tracing::info!(shards = state.stale.len(), "queue reachable again, rebuilding due indexes");
    }

    /// Records that the shared queue has failed to give tickets.
    pub(super) fn record_no_tickets(&self, error: &QueueError) {
        self.begin(error);
        self.state.lock().gives_no_tickets = true;
    }

    /// Returns `true` if the shared queue has failed to give tickets in this outage. The tickets of
    /// the process must not wait until it fails again.
    pub(super) fn gives_no_tickets(&self) -> bool {
        self.state.lock().gives_no_tickets
    }

    /// Returns the shards whose shared due index may have missed a write.
    pub(super) fn stale(&self) -> Vec<ShardId> {
        self.state.lock().stale.iter().copied().collect()
    }

    /// Returns the location of the shard's due index. During an outage it also marks the shared
    /// index as stale, because that misses the caller's writes.
    pub(super) fn location(&self, shard: ShardId) -> IndexLocation {
        let mut state = self.state.lock();
        if state.is_on {
            state.stale.insert(shard);
            return if state.built.contains(&shard) {
                IndexLocation::Own
            } else {
                IndexLocation::Nowhere
            };
        }
        if state.stale.contains(&shard) { IndexLocation::Nowhere } else { IndexLocation::Shared }
    }

    /// Records that the shard's shared due index may have missed a write.
    pub(super) fn mark_stale(&self, shard: ShardId) {
        self.state.lock().stale.insert(shard);
    }

    /// Records that the shard's due index was built in the own queue.
    pub(super) fn mark_built_here(&self, shard: ShardId) {
        self.state.lock().built.insert(shard);
    }

    /// Records that the shard's due index was built in the shared queue.
    pub(super) fn mark_built_shared(&self, shard: ShardId) {
        self.state.lock().stale.remove(&shard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: ShardId = ShardId(1);

    #[test]
    fn an_index_is_built_anew_at_each_change() {
        let outage = Outage::default();
        let error = QueueError::new("due", "it is down");
        assert_eq!(outage.location(SHARD), IndexLocation::Shared);
        for _ in 0..2 {
            outage.begin(&error);
            assert_eq!(outage.location(SHARD), IndexLocation::Nowhere);
            outage.mark_built_here(SHARD);
            outage.begin(&error);
            assert_eq!(outage.location(SHARD), IndexLocation::Own, "it is the same outage");
            outage.end();
            assert_eq!(outage.location(SHARD), IndexLocation::Nowhere);
            outage.mark_built_shared(SHARD);
            assert_eq!(outage.location(SHARD), IndexLocation::Shared);
        }
        // An index that no caller asked for during the outage has missed nothing.
        outage.begin(&error);
        outage.end();
        assert_eq!(outage.location(SHARD), IndexLocation::Shared);
        outage.mark_stale(SHARD);
        assert_eq!(outage.location(SHARD), IndexLocation::Nowhere);
    }
}
