//! The executor's lease: its claims last as long as that does in the store.
//!
//! What is claimed may be sent for half of the time that the lease is renewed for, and is claimed
//! only while a renewal is known that is younger than a third of it: so nothing is sent after the
//! lease has ended, whatever the store, the network or this process have waited for. A renewal counts
//! from when it was asked for. A store that has failed a call may have lost what it knew, as one does
//! that another one stands in for: then nothing is claimed before the lease is renewed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Shared;
use crate::runtime::Moment;
use crate::store::{StoreError, StoreErrorKind};

/// The executor's lease.
#[derive(Default)]
pub(super) struct Lease {
    state: Mutex<State>,
    renewing: tokio::sync::Mutex<()>,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// When the last renewal was asked for that is known to have taken effect.
    renewed: Option<Moment>,
    /// When the first renewal was asked for since which the lease has not ended.
    held_since: Option<Moment>,
    /// How often that came into doubt.
    doubts: u64,
}

impl Lease {
    /// Ensures that a renewal is young enough for a claim. Returns the moment at which it was: the time
    /// in which a claim may be sent counts from there, whatever the claim waits for first.
    pub(super) async fn ensure(&self, shared: &Shared) -> Result<Moment, StoreError> {
        let at = shared.clock.moment();
        self.renew(shared, shared.settings.claim_time / 3).await?;
        Ok(at)
    }

    /// Renews it, unless that was done less than `age` ago.
    pub(super) async fn renew(&self, shared: &Shared, age: Duration) -> Result<(), StoreError> {
        if self.is_younger(shared, age) {
            return Ok(());
        }
        let _turn = self.renewing.lock().await;
        // Another task may have renewed it meanwhile.
        if self.is_younger(shared, age) {
            return Ok(());
        }
        let (asked, doubts) = (shared.clock.moment(), self.lock().doubts);
        let now = shared.clock.now();
        let until = shared.clock.after(now, shared.settings.claim_time);
        shared.store.renew(shared.id, until, now).await?;
        let mut state = self.lock();
        if state.doubts == doubts {
            // The renewal took effect by now, and the lease before it may have ended first.
            let lasted = |renewed| shared.clock.since(renewed) < shared.settings.claim_time;
            if !state.renewed.is_some_and(lasted) {
                state.held_since = Some(asked);
            }
            state.renewed = Some(asked);
        }
        Ok(())
    }

    /// Returns `true` if the lease has not ended since `claimed`, and does not end soon.
    pub(super) fn is_held_since(&self, shared: &Shared, claimed: Moment) -> bool {
        let (clock, half) = (&shared.clock, shared.settings.claim_time / 2);
        let State { renewed, held_since, .. } = *self.lock();
        // The claim's age is read last: a pause in between makes it older, and the answer `false`.
        held_since.is_some_and(|held| clock.since(held) >= clock.since(claimed))
            && renewed.is_some_and(|renewed| clock.since(renewed) < half)
    }

    /// A call of the store has failed.
    pub(super) fn doubt(&self, error: &StoreError) {
        if error.kind() == StoreErrorKind::Unavailable {
            let mut state = self.lock();
            state.renewed = None;
            state.doubts += 1;
        }
    }

    fn is_younger(&self, shared: &Shared, age: Duration) -> bool {
        self.lock().renewed.is_some_and(|renewed| shared.clock.since(renewed) < age)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
