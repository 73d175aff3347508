//! Schedules as they are once they have fired, so that they need not be read before they fire again.
//!
//! What somebody else changes in between is found when they are fired, by the conditions of that
//! write: the version (expression, timezone, endpoint), the next tick, the number of changes to what
//! accounts may do. Then the schedule is read anew. Nothing else of what is kept decides: whether
//! jobs may overlap is as the store says, and a late tick, for which the catch-up policy matters, is
//! always read.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quick_cache::sync::Cache;

use crate::domain::firing::late_before;
use crate::domain::shard::ShardId;
use crate::domain::{ScheduleId, Timestamp};
use crate::store::Candidate;

/// How many schedules are kept: those that fire most often, some 300 bytes each.
const CACHED: usize = 100_000;
/// How long a schedule is not read again. Who changes what an account may do tells each shard, and
/// fails if that fails; should nobody try again, it is known all the same after this time.
const TRUSTED: Duration = Duration::from_mins(10);

/// Schedules that have fired.
pub(super) struct Known {
    schedules: Cache<ScheduleId, Read>,
    /// The newest number that was read in each shard: what was read with an older one is stale.
    suspensions: Mutex<HashMap<ShardId, i64>>,
}

/// A schedule as it was read.
#[derive(Clone)]
pub(super) struct Read {
    pub(super) candidate: Candidate,
    /// When, on the monotonic clock.
    at: Duration,
    /// Whether it has been fired since.
    pub(super) is_known: bool,
}

impl Read {
    /// One that was read just now.
    pub(super) fn new(candidate: Candidate, at: Duration) -> Self {
        Self { candidate, at, is_known: false }
    }

    /// It after it has been fired.
    fn fired(self, next: Timestamp) -> Self {
        let Self { candidate, at, .. } = self;
        let candidate = Candidate { tick: next, catch_up_policy: None, ..candidate };
        Self { candidate, at, is_known: true }
    }
}

impl Known {
    pub(super) fn new() -> Self {
        Self { schedules: Cache::new(CACHED), suspensions: Mutex::default() }
    }

    /// Takes out those of the due schedules that can be fired as they are known.
    pub(super) fn take(
        &self,
        shard: ShardId,
        due: &[(ScheduleId, Timestamp)],
        now: Timestamp,
        monotonic: Duration,
    ) -> Vec<Read> {
        let newest = self.suspensions().get(&shard).copied();
        let late_before = late_before(now);
        let known = due.iter().filter_map(|(schedule, tick)| {
            let (_, read) = self.schedules.remove(schedule)?;
            let is_as_due = read.candidate.tick == *tick && *tick >= late_before;
            let is_new = Some(read.candidate.suspensions) == newest;
            let is_trusted = monotonic.saturating_sub(read.at) < TRUSTED;
            (is_as_due && is_new && is_trusted).then_some(read)
        });
        known.collect()
    }

    /// Keeps those of the schedules that have been advanced, as they are now.
    pub(super) fn keep(
        &self,
        shard: ShardId,
        read: Vec<Read>,
        advanced: &[(ScheduleId, Option<Timestamp>)],
    ) {
        let newest = read.iter().map(|read| read.candidate.suspensions).max();
        let newest = {
            let mut suspensions = self.suspensions();
            let newest = newest.max(suspensions.get(&shard).copied());
            newest.map(|newest| suspensions.insert(shard, newest));
            newest
        };
        let next = advanced.iter().filter_map(|(schedule, next)| Some((*schedule, (*next)?)));
        let next: HashMap<ScheduleId, Timestamp> = next.collect();
        for read in read {
            let schedule = read.candidate.schedule;
            if Some(read.candidate.suspensions) == newest
                && let Some(next) = next.get(&schedule)
            {
                self.schedules.insert(schedule, read.fired(*next));
            }
        }
    }

    fn suspensions(&self) -> MutexGuard<'_, HashMap<ShardId, i64>> {
        self.suspensions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::schedule::OverlapPolicy;
    use crate::domain::ticket::HostKey;
    use crate::domain::{AccountId, VersionId};

    const SHARD: ShardId = ShardId(3);
    const TICK: Timestamp = Timestamp::from_millis(1_700_000_000_000);
    const AT: Duration = Duration::from_secs(5);

    fn read(schedule: u8, suspensions: i64) -> Read {
        let candidate = Candidate {
            schedule: ScheduleId::from_bytes([schedule; 16]),
            account: AccountId::from_bytes([1; 16]),
            host: HostKey(1),
            plan: None,
            suspended_until: None,
            suspensions,
            version: VersionId::from_bytes([1; 16]),
            tick: TICK.minus(Duration::from_mins(1)),
            cron_expression: "* * * * *".to_owned(),
            timezone: "UTC".to_owned(),
            overlap_policy: OverlapPolicy::Allow,
            catch_up_policy: None,
        };
        Read::new(candidate, AT)
    }

    /// Keeps schedules whose next tick is [`TICK`] by now.
    fn keep(known: &Known, shard: ShardId, read: Vec<Read>) {
        let advanced: Vec<_> =
            read.iter().map(|read| (read.candidate.schedule, Some(TICK))).collect();
        known.keep(shard, read, &advanced);
    }

    /// Which of the schedules are known when they are due at `tick`, at `now`, so long after they
    /// were read.
    fn taken(known: &Known, ids: &[u8], tick: Timestamp, now: Timestamp, age: Duration) -> Vec<u8> {
        let due: Vec<_> = ids.iter().map(|id| (ScheduleId::from_bytes([*id; 16]), tick)).collect();
        let taken = known.take(SHARD, &due, now, AT + age);
        taken.iter().map(|read| read.candidate.schedule.to_bytes()[0]).collect()
    }

    #[test]
    fn what_has_fired_is_known_once() {
        let known = Known::new();
        keep(&known, SHARD, vec![read(1, 0), read(2, 0)]);
        let take = |ids: &[u8]| taken(&known, ids, TICK, TICK, Duration::ZERO);
        assert_eq!(take(&[1, 3]), [1]);
        assert_eq!(take(&[1, 2]), [2], "until it is kept again");
        known.keep(SHARD, vec![read(1, 0), read(2, 0)], &[(read(2, 0).candidate.schedule, None)]);
        assert_eq!(take(&[1, 2]), [0; 0], "not what has not been fired, or has no next tick");
    }

    #[test]
    fn another_tick_a_late_one_or_one_read_long_ago_is_not_known() {
        let second = Duration::from_secs(1);
        let late = TICK.plus(Duration::from_hours(1));
        for (tick, now, age, is_known) in [
            (TICK, TICK, TRUSTED - second, true),
            (TICK, TICK, TRUSTED, false),
            (TICK.minus(second), TICK, Duration::ZERO, false),
            (TICK, late, Duration::ZERO, false),
        ] {
            let known = Known::new();
            keep(&known, SHARD, vec![read(1, 0)]);
            assert_eq!(!taken(&known, &[1], tick, now, age).is_empty(), is_known, "{tick} {now}");
        }
    }

    #[test]
    fn what_was_read_before_an_account_changed_is_not_known() {
        let known = Known::new();
        keep(&known, SHARD, vec![read(1, 4), read(2, 4), read(3, 5)]);
        keep(&known, SHARD, vec![read(4, 4)]);
        assert_eq!(taken(&known, &[1, 2, 3, 4], TICK, TICK, Duration::ZERO), [3]);
        keep(&known, ShardId(4), vec![read(5, 4)]);
        let of_another = taken(&known, &[5], TICK, TICK, Duration::ZERO);
        assert_eq!(of_another, [0; 0], "each shard has its own");
    }
}
