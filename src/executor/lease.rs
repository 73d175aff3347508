//! The executor's lease. In the store, the executor's claims last as long as the lease.
//!
//! An attempt may be sent for half of the claim time, and is claimed only if a renewal is known
//! that is younger than a third of it. So nothing is sent after the lease has ended, however long
//! the store, the network or this process made it wait. A renewal counts from the moment of its
//! request. After a failed call the store may have lost writes, as a server does that takes the
//! place of another one: then nothing is claimed before the lease is renewed.

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
    /// The request time of the last renewal that is known to have taken effect.
    renewed: Option<Moment>,
    /// The request time of the renewal since which the lease has not ended.
    held_since: Option<Moment>,
    /// The number of failed calls that have put `renewed` in doubt.
    doubts: u64,
}

impl Lease {
    /// Ensures that a renewal is young enough for a claim. Returns the moment of the check: the
    /// time in which an attempt may be sent counts from there, however long the claim waits first.
    pub(super) async fn ensure(&self, shared: &Shared) -> Result<Moment, StoreError> {
        let at = shared.clock.moment();
        self.renew(shared, shared.settings.claim_time / 3).await?;
        Ok(at)
    }

    /// Renews the lease, unless the last renewal is younger than `age`.
    pub(super) async fn renew(&self, shared: &Shared, age: Duration) -> Result<(), StoreError> {
        if self.is_younger(shared, age) {
            return Ok(());
        }
        let _turn = self.renewing.lock().await;
        // Another task may have renewed the lease meanwhile.
        if self.is_younger(shared, age) {
            return Ok(());
        }
        let (asked, doubts) = (shared.clock.moment(), self.lock().doubts);
        let now = shared.clock.now();
        let until = shared.clock.after(now, shared.settings.claim_time);
        shared.store.renew(shared.id, until, now).await?;
        let mut state = self.lock();
        if state.doubts == doubts {
            // The renewal has taken effect by now, and the lease before it may have ended first.
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

    /// Takes note of a failed call of the store: the lease counts as not renewed if the store was
    /// unavailable.
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
