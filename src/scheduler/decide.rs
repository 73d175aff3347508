//! Decides how each schedule of a batch fires.

use quick_cache::sync::Cache;

use super::schedule_cache::LoadedSchedule;
use crate::domain::cron::Recurrence;
use crate::domain::firing::{FiringPlan, SkippedTicks, pass_over, plan};
use crate::domain::schedule::{CatchUpPolicy, SKIP_COUNT_CAP, SkipReason};
use crate::domain::{JobId, ScheduleId, Timestamp};
use crate::store::{Candidate, Firing, TickJob, TickRange};

/// The maximum number of cached expressions. Most schedules share theirs with many others.
const CACHED: usize = 10_000;

/// A cache of parsed expressions, by timezone and text.
pub(super) struct RecurrenceCache(Cache<String, Recurrence>);

impl RecurrenceCache {
    pub(super) fn new() -> Self {
        Self(Cache::new(CACHED))
    }

    pub(super) fn of(&self, candidate: &Candidate) -> Option<Recurrence> {
        let Candidate { timezone, cron_expression, .. } = candidate;
        let parse = || Recurrence::parse(cron_expression, timezone);
        self.0.get_or_insert_with(&format!("{timezone} {cron_expression}"), parse).ok()
    }
}

/// The decision about the due ticks of a schedule.
pub(super) struct FiringDecision<'a> {
    pub(super) candidate: &'a Candidate,
    pub(super) plan: FiringPlan,
    /// The ticks that do not run because the account is or was suspended.
    suspended: Option<SkippedTicks>,
}

impl<'a> FiringDecision<'a> {
    fn of(candidate: &'a Candidate, recurrence: &Recurrence, now: Timestamp) -> Self {
        let until = candidate.suspended_until;
        let passed = until.and_then(|until| pass_over(recurrence, candidate.tick, until, now));
        // The policy is not read if no tick is late enough for it to matter.
        let policy = candidate.catch_up_policy.unwrap_or(CatchUpPolicy::Last);
        let decide = |tick| plan(recurrence, policy, tick, now);
        let (plan, suspended) = match passed {
            None => (decide(candidate.tick), None),
            Some((skipped, Some(next))) if next <= now => (decide(next), Some(skipped)),
            Some((skipped, next)) => {
                (FiringPlan { runs: Vec::new(), skipped: None, next }, Some(skipped))
            }
        };
        Self { candidate, plan, suspended }
    }

    /// Returns a firing that makes the oldest `allowed` of the due jobs. The others become skips.
    pub(super) fn firing(self, allowed: usize) -> Firing {
        let Self { candidate, plan, suspended } = self;
        let FiringPlan { mut runs, skipped, next } = plan;
        let over = runs.split_off(allowed.min(runs.len()));
        let over = over.first().zip(over.last()).map(|((first, _), (last, _))| {
            (*first, *last, u32::try_from(over.len()).unwrap_or(SKIP_COUNT_CAP))
        });
        let skips = [
            (suspended, SkipReason::Suspended),
            (skipped, SkipReason::CatchUp),
            (over, SkipReason::Quota),
        ];
        let job =
            |(tick, trigger)| TickJob { id: JobId::of_tick(candidate.schedule, tick), trigger };
        let skip = |(ticks, reason): (Option<SkippedTicks>, _)| {
            ticks.map(|(first, last, count)| (TickRange { first, last, count }, reason))
        };
        Firing {
            schedule: candidate.schedule,
            shard: candidate.shard,
            version: candidate.version,
            tick: candidate.tick,
            suspensions: candidate.suspensions,
            overlap_policy: candidate.overlap_policy,
            next_tick: next,
            jobs: runs.into_iter().map(job).collect(),
            skips: skips.into_iter().filter_map(skip).collect(),
        }
    }
}

/// Returns the decisions about the due schedules, and the index entries of the others: schedules
/// that are not due after all, or whose expression cannot be read.
pub(super) fn decide<'a>(
    recurrences: &RecurrenceCache,
    read: &'a [LoadedSchedule],
    now: Timestamp,
) -> (Vec<FiringDecision<'a>>, Vec<(ScheduleId, Option<Timestamp>)>) {
    let mut decisions = Vec::with_capacity(read.len());
    let mut index = Vec::new();
    for LoadedSchedule { candidate, .. } in read {
        if candidate.tick > now {
            index.push((candidate.schedule, Some(candidate.tick)));
        } else if let Some(recurrence) = recurrences.of(candidate) {
            decisions.push(FiringDecision::of(candidate, &recurrence, now));
        } else {
            // The expression was checked when it was stored, so only a release that parses
            // expressions differently gets here. The schedule stays due in the store and fires once
            // it can be read.
            tracing::error!(schedule = %candidate.schedule, "stored expression cannot be read");
            index.push((candidate.schedule, None));
        }
    }
    (decisions, index)
}
