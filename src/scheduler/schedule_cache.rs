//! A cache of the schedules of the led shards after they have fired, so that the next firing need
//! not read them.
//!
//! The conditional write that fires a schedule detects changes by users and operators: the version
//! (expression, timezone, endpoint), the next tick, and the account's suspension or plan. Then the
//! schedule is read again. No other cached field decides: the store decides whether jobs may
//! overlap, and a schedule with a late tick, for which the catch-up policy matters, is always read.

use std::collections::HashMap;
use std::time::Duration;

use super::pending::DueTick;
use crate::domain::firing::late_before;
use crate::domain::{ScheduleId, Timestamp};
use crate::runtime::Mutex;
use crate::store::Candidate;

/// The maximum number of cached schedules, about 300 bytes each.
const MAX_CACHED_SCHEDULES: usize = 100_000;
/// The time for which a cached schedule is used before it is read again. Schedules that fire less
/// often are not cached. A change of an account's rights is reported to each shard; if that fails
/// and is not repeated, this time bounds how long the change stays unnoticed.
const TRUSTED: Duration = Duration::from_mins(10);

/// The cache of schedules that have fired.
#[derive(Default)]
pub(super) struct ScheduleCache {
    schedules: Mutex<HashMap<ScheduleId, LoadedSchedule>>,
}

/// A schedule as it was read.
#[derive(Clone)]
pub(super) struct LoadedSchedule {
    pub(super) candidate: Candidate,
    /// The time of the read, on the monotonic clock.
    at: Duration,
    /// `true` if the schedule comes from the cache: it has fired since it was read.
    pub(super) is_cached: bool,
}

impl LoadedSchedule {
    /// A schedule that was read at `at`.
    pub(super) fn new(candidate: Candidate, at: Duration) -> Self {
        Self { candidate, at, is_cached: false }
    }

    /// Returns the schedule as it is after it was fired.
    fn fired(self, next: Timestamp) -> Self {
        let Self { candidate, at, .. } = self;
        let candidate = Candidate { tick: next, catch_up_policy: None, ..candidate };
        Self { candidate, at, is_cached: true }
    }
}

impl ScheduleCache {
    /// Removes from the cache and returns the due schedules that can be fired without another read.
    pub(super) fn take(
        &self,
        due: &[DueTick],
        now: Timestamp,
        monotonic: Duration,
    ) -> Vec<LoadedSchedule> {
        let late_before = late_before(now);
        let mut schedules = self.schedules.lock();
        let taken = due.iter().filter_map(|DueTick { member, tick, .. }| {
            let read = schedules.remove(&member.schedule)?;
            let is_as_due = read.candidate.tick == *tick && *tick >= late_before;
            (is_as_due && monotonic.saturating_sub(read.at) < TRUSTED).then_some(read)
        });
        taken.collect()
    }

    /// Caches those of the schedules that were advanced, with their new ticks.
    pub(super) fn keep(
        &self,
        read: Vec<LoadedSchedule>,
        advanced: &[(ScheduleId, Option<Timestamp>)],
        now: Timestamp,
        monotonic: Duration,
    ) {
        let mut schedules = self.schedules.lock();
        if schedules.len() + read.len() > MAX_CACHED_SCHEDULES {
            // Deleted and disabled schedules are never taken, so their ticks pass. They make room
            // first.
            schedules.retain(|_, read| read.candidate.tick >= now);
        }
        let next = advanced.iter().filter_map(|(schedule, next)| Some((*schedule, (*next)?)));
        let next: HashMap<ScheduleId, Timestamp> = next.collect();
        for read in read {
            let schedule = read.candidate.schedule;
            let Some(next) = next.get(&schedule) else { continue };
            let age = monotonic.saturating_sub(read.at) + next.since(now);
            if age < TRUSTED && schedules.len() < MAX_CACHED_SCHEDULES {
                schedules.insert(schedule, read.fired(*next));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::schedule::OverlapPolicy;
    use crate::domain::shard::ShardId;
    use crate::domain::ticket::HostKey;
    use crate::domain::{AccountId, VersionId};
    use crate::queue::OwnedSchedule;

    const TICK: Timestamp = Timestamp::from_millis(1_700_000_000_000);
    const MINUTE: Duration = Duration::from_mins(1);
    const AT: Duration = Duration::from_secs(5);

    fn read(schedule: u8) -> LoadedSchedule {
        let candidate = Candidate {
            schedule: ScheduleId::from_bytes([schedule; 16]),
            shard: ShardId(0),
            account: AccountId::from_bytes([1; 16]),
            host: HostKey(1),
            plan: None,
            suspended_until: None,
            suspensions: 0,
            version: VersionId::from_bytes([1; 16]),
            tick: TICK.minus(MINUTE),
            cron_expression: "* * * * *".to_owned(),
            timezone: "UTC".to_owned(),
            overlap_policy: OverlapPolicy::Allow,
            catch_up_policy: None,
        };
        LoadedSchedule::new(candidate, AT)
    }

    /// Caches schedules that were read [`AT`] and whose next tick is [`TICK`], a minute later.
    fn cache_of(read: Vec<LoadedSchedule>) -> ScheduleCache {
        let cache = ScheduleCache::default();
        keep(&cache, read, TICK);
        cache
    }

    fn keep(cache: &ScheduleCache, read: Vec<LoadedSchedule>, next: Timestamp) {
        let ids = read.iter().map(|read| read.candidate.schedule);
        let advanced: Vec<_> = ids.map(|id| (id, Some(next))).collect();
        cache.keep(read, &advanced, TICK.minus(MINUTE), AT);
    }

    /// Returns the schedules that the cache provides when they are due at `tick`, the time is
    /// `now`, and they were read `age` ago.
    fn taken(
        cache: &ScheduleCache,
        ids: &[u8],
        tick: Timestamp,
        now: Timestamp,
        age: Duration,
    ) -> Vec<u8> {
        let due = |id: &u8| {
            let schedule = ScheduleId::from_bytes([*id; 16]);
            let member = OwnedSchedule { schedule, account: AccountId::from_bytes([1; 16]) };
            DueTick { shard: ShardId(0), member, tick }
        };
        let due: Vec<_> = ids.iter().map(due).collect();
        let taken = cache.take(&due, now, AT + age);
        taken.iter().map(|read| read.candidate.schedule.to_bytes()[0]).collect()
    }

    #[test]
    fn fired_schedules_are_cached_once() {
        let cache = cache_of(vec![read(1), read(2)]);
        let take = |ids: &[u8]| taken(&cache, ids, TICK, TICK, MINUTE);
        assert_eq!(take(&[1, 3]), [1]);
        assert_eq!(take(&[1, 2]), [2], "until it is kept again");
        let (two, none) = (vec![read(1), read(2)], [(read(2).candidate.schedule, None)]);
        cache.keep(two, &none, TICK, AT);
        assert!(cache.schedules.lock().is_empty(), "not what was not fired, or has no next tick");
    }

    #[test]
    fn another_tick_a_late_one_or_one_read_long_ago_is_not_known() {
        for (tick, now, age, is_cached) in [
            (TICK, TICK, TRUSTED - MINUTE, true),
            (TICK, TICK, TRUSTED, false),
            (TICK.minus(MINUTE), TICK, MINUTE, false),
            (TICK, TICK.plus(Duration::from_hours(1)), MINUTE, false),
        ] {
            let cache = cache_of(vec![read(1)]);
            let taken = taken(&cache, &[1], tick, now, age);
            assert_eq!(!taken.is_empty(), is_cached, "{tick} {now}");
        }
    }

    #[test]
    fn rare_schedules_are_not_cached() {
        for (next, count) in [(TICK.plus(TRUSTED - MINUTE * 2), 1), (TICK.plus(TRUSTED), 0)] {
            let cache = ScheduleCache::default();
            keep(&cache, vec![read(1)], next);
            assert_eq!(cache.schedules.lock().len(), count, "{next}");
        }
    }

    #[test]
    fn there_are_never_more_than_the_most_and_dead_ones_leave_first() {
        let many = |from: usize, count: usize| -> Vec<LoadedSchedule> {
            let one = |n: usize| {
                let schedule = ScheduleId::from_bytes((n as u128).to_be_bytes());
                let LoadedSchedule { candidate, at, .. } = read(1);
                LoadedSchedule::new(Candidate { schedule, ..candidate }, at)
            };
            (from..from + count).map(one).collect()
        };
        let cache = cache_of(many(0, MAX_CACHED_SCHEDULES));
        keep(&cache, many(MAX_CACHED_SCHEDULES, 1), TICK);
        assert_eq!(cache.schedules.lock().len(), MAX_CACHED_SCHEDULES);
        let later = many(MAX_CACHED_SCHEDULES, 3);
        let next: Vec<_> =
            later.iter().map(|r| (r.candidate.schedule, Some(TICK.plus(MINUTE)))).collect();
        cache.keep(later, &next, TICK.plus(Duration::from_millis(1)), AT + MINUTE);
        assert_eq!(cache.schedules.lock().len(), 3, "the others were due, and no leader took them");
    }
}
