//! The ended leases of executors: decides when the claims under them may be closed.
//!
//! Danger: after an outage of the store or a jump of its time, the lease of a live executor looks
//! ended. The executor still runs its jobs; if the job rescuer closed its claims, the jobs would be
//! sent twice.
//!
//! Rule: a lease that ended while this replica watched is closed at once, because a live executor
//! would have renewed it. For any other ended lease, the replica waits for [`GRACE`] after it first
//! sees it, in which a live executor renews it.

use std::collections::HashMap;
use std::time::Duration;

use crate::domain::Timestamp;
use crate::runtime::Clock;
use crate::store::{ExecutorId, RecordedAttempt};

/// The maximum time that a live executor needs to renew its lease when the store is back. It does
/// not renew by a time that it does not trust, so it first samples the store's time, after the
/// longest pause of a failing loop, 2 s; its renewer runs every 2 s; and the calls take up to 1 s.
/// That is 5 s. The other 3 s are for a busy store or machine.
const GRACE: Duration = Duration::from_secs(8);
/// The longest pause between two looks at which this replica still counts as watching: two passes
/// of the job rescuer.
const MAX_PAUSE: Duration = Duration::from_secs(4);

/// The ended leases that this replica has seen.
#[derive(Default)]
pub(super) struct EndedLeases {
    /// The time of the last look.
    looked: Option<Timestamp>,
    /// The time of the last look that returned all ended leases.
    saw_all: Option<Timestamp>,
    /// The time from which the claims of an executor may be closed, on the monotonic clock.
    close_at: HashMap<ExecutorId, Duration>,
}

impl EndedLeases {
    /// Records the result of a look at `now`. `is_all`: `found` contains all ended leases.
    pub(super) fn note(
        &mut self,
        found: &[RecordedAttempt],
        is_all: bool,
        now: Timestamp,
        clock: &Clock,
    ) {
        let watches = self.looked.is_some_and(|looked| now <= clock.after(looked, MAX_PAUSE));
        let watched_since = self.saw_all.filter(|_| watches);
        let mut previous = std::mem::take(&mut self.close_at);
        if !watches {
            // The grace starts again, because the store was unreachable in the meantime.
            previous.clear();
        }
        let monotonic = clock.monotonic();
        for RecordedAttempt { executor, until, .. } in found {
            let is_watched = watched_since.is_some_and(|since| *until >= since);
            let close_at = if is_watched { monotonic } else { monotonic + GRACE };
            let close_at = previous.get(executor).copied().unwrap_or(close_at);
            self.close_at.insert(*executor, close_at);
        }
        self.looked = Some(now);
        if is_all {
            self.saw_all = Some(now);
        }
    }

    /// Returns `true` if the claims of an executor may be closed now.
    pub(super) fn may_close(&self, executor: ExecutorId, clock: &Clock) -> bool {
        self.close_at.get(&executor).is_some_and(|at| clock.monotonic() >= *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::JobId;

    const LOST: ExecutorId = ExecutorId(1);

    struct Watch {
        leases: EndedLeases,
        clock: Clock,
    }

    impl Watch {
        fn new() -> Self {
            let clock = Clock::manual(Timestamp::from_millis(1_900_000_000_000));
            Self { leases: EndedLeases::default(), clock }
        }

        /// Looks after a pause, at a lease that ended `ended_ago` seconds ago, or has not ended.
        /// Returns `true` if its claims may be closed.
        fn observe(&mut self, pause: u64, ended_ago: Option<u64>, is_all: bool) -> bool {
            self.clock.advance(Duration::from_secs(pause));
            let now = self.clock.now();
            let claim = |ago| RecordedAttempt {
                job: JobId::new(now, 1),
                attempt: 1,
                max_attempts: 1,
                executor: LOST,
                until: now.minus(Duration::from_secs(ago)),
            };
            let found: Vec<_> = ended_ago.map(claim).into_iter().collect();
            self.leases.note(&found, is_all, now, &self.clock);
            self.leases.may_close(LOST, &self.clock)
        }
    }

    #[test]
    fn a_lease_that_ends_while_it_is_watched_is_closed_at_once() {
        let mut watch = Watch::new();
        assert!(!watch.observe(0, None, true));
        assert!(!watch.observe(2, None, true));
        assert!(watch.observe(2, Some(1), true));
        assert!(watch.observe(2, Some(3), true), "what was left of it, too");
    }

    #[test]
    fn a_lease_that_ended_unwatched_is_given_time_to_be_renewed() {
        let mut watch = Watch::new();
        watch.observe(0, None, true);
        // The store was unreachable. The lease ended a moment before it was reachable again.
        assert!(!watch.observe(30, Some(1), true));
        for seen_for in [2, 4, 6] {
            assert!(!watch.observe(2, Some(1 + seen_for), true), "seen for {seen_for} s");
        }
        assert!(watch.observe(2, Some(9), true), "seen for 8 s");
        assert!(!watch.observe(2, None, true), "renewed");
    }

    #[test]
    fn a_replica_that_starts_and_a_clock_that_jumps_close_nothing_at_once() {
        let mut watch = Watch::new();
        assert!(!watch.observe(0, Some(3_600), true), "the first look of all");
        let mut watch = Watch::new();
        watch.observe(0, None, true);
        assert!(!watch.observe(2, Some(28), true), "it had not ended two seconds ago");
    }

    #[test]
    fn an_outage_within_the_grace_begins_it_anew() {
        let mut watch = Watch::new();
        watch.observe(0, Some(1), true);
        watch.observe(2, Some(3), true);
        assert!(!watch.observe(20, Some(23), true));
        for _ in 0..3 {
            assert!(!watch.observe(2, Some(30), true));
        }
        assert!(watch.observe(2, Some(31), true));
    }

    #[test]
    fn leases_beyond_an_earlier_page_count_as_watched() {
        let mut watch = Watch::new();
        watch.observe(0, None, true);
        assert!(!watch.observe(2, None, false), "a page full of others");
        assert!(watch.observe(1, Some(2), false));
    }
}
