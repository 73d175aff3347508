//! The executor's lease. In the store, the executor's claims last as long as the lease.
//!
//! - The executor claims an attempt only if its last renewal is younger than a third of the claim
//!   time. The age of a renewal counts from its request.
//! - It sends the request of an attempt only within half of the claim time after the check of the
//!   lease. So it sends nothing after the lease has ended, however long the store, the network or
//!   this process makes the attempt wait.
//! - A failed call may mean that the store has lost writes, for example because another server has
//!   replaced the failed one. Then the executor claims nothing before it has renewed the lease.

use std::time::Duration;

use crate::runtime::{Clock, ClockMoment, Mutex};
use crate::store::{ExecutorId, SharedStore, StoreError, StoreErrorKind};

/// The reason why the executor may not claim now.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeaseError {
    /// The clock is not trusted. A lease that is set by a wrong clock could end early, or last for
    /// ever.
    #[error("the store's time is not known now")]
    UnknownTime,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The executor's lease.
pub(super) struct Lease {
    executor: ExecutorId,
    store: SharedStore,
    clock: Clock,
    /// The duration of the lease after each renewal.
    claim_time: Duration,
    state: Mutex<LeaseState>,
    renewing: tokio::sync::Mutex<()>,
}

#[derive(Clone, Copy, Default)]
struct LeaseState {
    /// The request time of the last renewal that is known to have taken effect.
    renewed: Option<ClockMoment>,
    /// The request time of the renewal since which the lease has not ended.
    held_since: Option<ClockMoment>,
    /// The number of failed calls that have put `renewed` in doubt.
    doubts: u64,
}

impl LeaseState {
    /// Records a renewal that has taken effect. The lease before it may have ended first.
    fn note_renewal(&mut self, asked: ClockMoment, clock: &Clock, claim_time: Duration) {
        let lasted = |renewed| clock.since(renewed) < claim_time;
        if !self.renewed.is_some_and(lasted) {
            self.held_since = Some(asked);
        }
        self.renewed = Some(asked);
    }

    fn is_held_since(&self, claimed: ClockMoment, clock: &Clock, claim_time: Duration) -> bool {
        // The claim's age is read last: a pause in between makes it older, and the answer `false`.
        self.held_since.is_some_and(|held| clock.since(held) >= clock.since(claimed))
            && self.renewed.is_some_and(|renewed| clock.since(renewed) < claim_time / 2)
    }
}

impl Lease {
    /// The lease of an executor, which is not renewed yet.
    pub(super) fn new(
        executor: ExecutorId,
        store: SharedStore,
        clock: Clock,
        claim_time: Duration,
    ) -> Self {
        let (state, renewing) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { executor, store, clock, claim_time, state, renewing }
    }

    /// Ensures that a renewal is young enough for a claim, and that the time is known. Returns the
    /// moment of the check: the time in which an attempt may be sent counts from there, however long
    /// the claim waits first.
    pub(super) async fn ensure(&self) -> Result<ClockMoment, LeaseError> {
        let at = self.clock.moment();
        self.check_time()?;
        self.renew(self.claim_time / 3).await?;
        Ok(at)
    }

    /// Renews the lease, unless the last renewal is younger than `age`.
    pub(super) async fn renew(&self, age: Duration) -> Result<(), LeaseError> {
        if self.is_younger(age) {
            return Ok(());
        }
        let _turn = self.renewing.lock().await;
        // Another task may have renewed the lease meanwhile.
        if self.is_younger(age) {
            return Ok(());
        }
        let (asked, doubts) = (self.clock.moment(), self.state.lock().doubts);
        let now = self.clock.now();
        // Checked after both are read: a suspension that follows makes the renewal old.
        self.check_time()?;
        let until = self.clock.after(now, self.claim_time);
        self.store.renew(self.executor, until, now).await?;
        let mut state = self.state.lock();
        if state.doubts == doubts {
            state.note_renewal(asked, &self.clock, self.claim_time);
        }
        Ok(())
    }

    /// Returns `true` if the lease has not ended since `claimed`, and does not end soon.
    pub(super) fn is_held_since(&self, claimed: ClockMoment) -> bool {
        let state = *self.state.lock();
        state.is_held_since(claimed, &self.clock, self.claim_time)
    }

    /// Takes note of a failed call of the store: the lease counts as not renewed if the store was
    /// unavailable.
    pub(super) fn invalidate(&self, error: &StoreError) {
        if error.kind() == StoreErrorKind::Unavailable {
            let mut state = self.state.lock();
            state.renewed = None;
            state.doubts += 1;
        }
    }

    fn check_time(&self) -> Result<(), LeaseError> {
        if self.clock.is_trusted() { Ok(()) } else { Err(LeaseError::UnknownTime) }
    }

    fn is_younger(&self, age: Duration) -> bool {
        self.state.lock().renewed.is_some_and(|renewed| self.clock.since(renewed) < age)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::Timestamp;
    use crate::store::sqlite::temporary;

    /// As after a suspension of the machine, until the store's time is read again.
    #[tokio::test]
    async fn while_the_time_is_unknown_nothing_is_claimed_and_no_lease_renewed() {
        let (store, _folder) = temporary::store().await;
        let (clock, claim_time) = (Clock::system(), Duration::from_secs(30));
        let lease = Lease::new(ExecutorId(1), Arc::new(store), clock.clone(), claim_time);
        lease.ensure().await.expect("renewed");
        let offset_us = clock.now().as_millis() * 1_000
            - i64::try_from(clock.monotonic().as_micros()).expect("a short time");
        clock.sync(offset_us, clock.moment(), Duration::ZERO);
        assert!(
            matches!(lease.ensure().await, Err(LeaseError::UnknownTime)),
            "its renewal is young"
        );
        let renewed = lease.renew(Duration::ZERO).await;
        assert!(matches!(renewed, Err(LeaseError::UnknownTime)), "{renewed:?}");
        clock.sync(offset_us, clock.moment(), claim_time);
        lease.ensure().await.expect("the time is known");
    }

    #[test]
    fn a_gap_between_renewals_ends_what_was_held() {
        let (clock, claim_time) =
            (Clock::manual(Timestamp::from_millis(0)), Duration::from_secs(10));
        let mut state = LeaseState::default();
        let claimed = clock.moment();
        assert!(!state.is_held_since(claimed, &clock, claim_time), "never renewed");
        state.note_renewal(clock.moment(), &clock, claim_time);
        clock.advance(Duration::from_secs(4));
        assert!(state.is_held_since(claimed, &clock, claim_time));
        clock.advance(Duration::from_secs(2));
        assert!(!state.is_held_since(claimed, &clock, claim_time), "it may end soon");

        state.note_renewal(clock.moment(), &clock, claim_time);
        assert!(state.is_held_since(claimed, &clock, claim_time), "renewed before it ended");

        clock.advance(claim_time);
        state.note_renewal(clock.moment(), &clock, claim_time);
        assert!(!state.is_held_since(claimed, &clock, claim_time), "it may have ended before");
        assert!(state.is_held_since(clock.moment(), &clock, claim_time));
    }
}
