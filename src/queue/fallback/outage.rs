//! Whether the shared queue is used, and which due indexes have to be built because of that.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::domain::shard::ShardId;
use crate::queue::QueueError;
use crate::telemetry::metrics::{DEGRADED, Server};

/// Where the due index of a shard is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the shared queue.
    Shared,
    /// In the own one.
    Own,
    /// Where [`Outage::is_on`] says, once it has been built anew.
    Nowhere,
}

/// An outage of the shared queue, or none.
#[derive(Default)]
pub(super) struct Outage {
    state: Mutex<State>,
    /// Notified when one begins.
    pub(super) begun: Notify,
}

#[derive(Default)]
struct State {
    is_on: bool,
    /// Whether the shared queue has failed to give tickets in this outage.
    is_mute: bool,
    /// The shards whose own due index was built in this outage.
    built: HashSet<ShardId>,
    /// The shards whose shared due index has missed something in an outage.
    stale: HashSet<ShardId>,
}

impl Outage {
    /// Whether there is one.
    pub(super) fn is_on(&self) -> bool {
        self.state().is_on
    }

    /// Begins, if there is none.
    pub(super) fn begin(&self, error: &QueueError) {
        let mut state = self.state();
        if std::mem::replace(&mut state.is_on, true) {
            return;
        }
        state.built.clear();
        DEGRADED.with(Server::Queue).set(1);
        tracing::warn!(%error, "the queue is away: ticks go on from the store (queue.url)");
        self.begun.notify_one();
    }

    /// Ends.
    pub(super) fn end(&self) {
        let mut state = self.state();
        (state.is_on, state.is_mute) = (false, false);
        DEGRADED.with(Server::Queue).set(0);
        tracing::info!(shards = state.stale.len(), "the queue is back, rebuilding due indexes");
    }

    /// The shared queue has failed to give tickets.
    pub(super) fn fail_to_give(&self, error: &QueueError) {
        self.begin(error);
        self.state().is_mute = true;
    }

    /// Whether it has, in this outage: tickets of the process must not wait until it fails again.
    pub(super) fn is_mute(&self) -> bool {
        self.state().is_mute
    }

    /// The shards whose shared due index has missed something.
    pub(super) fn stale(&self) -> Vec<ShardId> {
        self.state().stale.iter().copied().collect()
    }

    /// Where the shard's due index is. What is asked of it in an outage, the shared one misses.
    pub(super) fn place(&self, shard: ShardId) -> Place {
        let mut state = self.state();
        if state.is_on {
            state.stale.insert(shard);
            return if state.built.contains(&shard) { Place::Own } else { Place::Nowhere };
        }
        if state.stale.contains(&shard) { Place::Nowhere } else { Place::Shared }
    }

    /// The shard's shared due index may have missed a write.
    pub(super) fn has_missed(&self, shard: ShardId) {
        self.state().stale.insert(shard);
    }

    /// The shard's due index was built in the own queue.
    pub(super) fn was_built(&self, shard: ShardId) {
        self.state().built.insert(shard);
    }

    /// The shard's due index was built in the shared queue.
    pub(super) fn was_shared(&self, shard: ShardId) {
        self.state().stale.remove(&shard);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        assert_eq!(outage.place(SHARD), Place::Shared);
        for _ in 0..2 {
            outage.begin(&error);
            assert_eq!(outage.place(SHARD), Place::Nowhere);
            outage.was_built(SHARD);
            outage.begin(&error);
            assert_eq!(outage.place(SHARD), Place::Own, "it is the same outage");
            outage.end();
            assert_eq!(outage.place(SHARD), Place::Nowhere);
            outage.was_shared(SHARD);
            assert_eq!(outage.place(SHARD), Place::Shared);
        }
        // One that nobody asked for in the outage has missed nothing.
        outage.begin(&error);
        outage.end();
        assert_eq!(outage.place(SHARD), Place::Shared);
        outage.has_missed(SHARD);
        assert_eq!(outage.place(SHARD), Place::Nowhere);
    }
}
