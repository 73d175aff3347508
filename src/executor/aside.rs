//! Outcomes whose rows somebody else holds: they keep no other outcome waiting.
//!
//! One task has them all, whichever batch they were in, so that they use one connection to the
//! store however many they are. It goes past what is still held; the last one alone is waited for.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::commit::{Commit, FASTEST_RETRY, SLOWEST_RETRY};
use super::ended::{Batch, Ended};
use super::running::Place;
use crate::runtime::{TaskKind, Tasks};
use crate::store::Locked;

/// The most that are set aside; the commits that find more wait until there is room.
const ROOM: usize = 4_096;
/// How often those are tried that are to be.
const STEP: Duration = FASTEST_RETRY;

/// Where outcomes are set aside.
#[derive(Clone)]
pub(super) struct Aside {
    room: Arc<Semaphore>,
    coming: mpsc::UnboundedSender<Ended<Held>>,
}

/// What an outcome has that waits for its rows.
struct Held {
    /// When it is tried, on the monotonic clock.
    at: Duration,
    /// How long it rests after that.
    pause: Duration,
    _place: Place,
    _room: OwnedSemaphorePermit,
}

/// The task that has them.
struct Keeper {
    commit: Commit,
    coming: mpsc::UnboundedReceiver<Ended<Held>>,
    held: Vec<Ended<Held>>,
}

impl Aside {
    /// Nothing yet. The task ends when nothing can be set aside any more and all is committed.
    pub(super) fn start(commit: Commit, tasks: &Tasks) -> (Self, JoinHandle<Option<()>>) {
        let (sender, coming) = mpsc::unbounded_channel();
        let keeper = Keeper { commit, coming, held: Vec::new() };
        let kept = tasks.spawn(TaskKind::Committer, keeper.run());
        (Self { room: Arc::new(Semaphore::new(ROOM)), coming: sender }, kept)
    }

    /// What a batch does about rows that somebody else holds: once it is known that there are such,
    /// no other waits for them.
    pub(super) fn locked(&self) -> Locked {
        let is_empty = self.room.available_permits() == ROOM;
        if is_empty { Locked::Awaited } else { Locked::PassedOver }
    }

    /// Sets outcomes aside, when there is room.
    pub(super) async fn put(&self, held: Vec<Ended>) {
        for Ended { completion, place } in held {
            let Ok(room) = self.room.clone().acquire_owned().await else { return };
            let (at, pause) = (Duration::ZERO, FASTEST_RETRY);
            let held = Held { at, pause, _place: place, _room: room };
            // Should the task be gone, the sweep takes over.
            let _ = self.coming.send(Ended { completion, place: held });
        }
    }
}

impl Keeper {
    async fn run(mut self) {
        let clock = self.commit.0.clock.clone();
        while !self.held.is_empty() || self.is_more_to_come().await {
            clock.sleep(STEP).await;
            while let Ok(one) = self.coming.try_recv() {
                self.held.push(one);
            }
            self.round(clock.monotonic()).await;
        }
    }

    /// Waits for the next one; there is none any more when no commit is under way.
    async fn is_more_to_come(&mut self) -> bool {
        let next = self.coming.recv().await;
        self.held.extend(next);
        !self.held.is_empty()
    }

    /// Tries those whose time has come.
    async fn round(&mut self, now: Duration) {
        let most = self.commit.0.commits.get();
        let is_due = |one: &mut Ended<Held>| one.place.at <= now;
        let due: Batch<Held> = self.held.extract_if(.., is_due).take(most).collect();
        if due.len() == 0 {
            return;
        }
        tracing::debug!(rows = due.len(), "others hold the rows of outcomes, trying again");
        let is_alone = due.len() == 1 && self.held.is_empty();
        let locked = if is_alone { Locked::Awaited } else { Locked::PassedOver };
        for mut one in self.commit.run(due, locked).await {
            one.place.at = now + one.place.pause;
            one.place.pause = (one.place.pause * 2).min(SLOWEST_RETRY);
            self.held.push(one);
        }
    }
}
