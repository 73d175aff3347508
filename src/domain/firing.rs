//! Decides which due ticks of a schedule run and which are skipped.

use std::time::Duration;

use super::Timestamp;
use super::cron::Recurrence;
use super::job::Trigger;
use super::schedule::{CatchUpPolicy, SKIP_COUNT_CAP};

/// A tick that is fired later than this is a `catch_up`.
const ON_TIME: Duration = Duration::from_secs(1);
/// Ticks that are at most this late always run, so that a change of leader never skips one.
const ALWAYS_RUNS_WITHIN: Duration = Duration::from_secs(60);
/// Ticks that are later than this never run: their history would be older than what the store
/// keeps.
const NEVER_RUNS_AFTER: Duration = Duration::from_secs(31 * 24 * 3_600);
/// The number of late ticks that `CatchUpPolicy::All` runs.
const MAX_CAUGHT_UP: usize = 100;

/// Ticks that do not become jobs: the first, the last and their number.
pub type SkippedTicks = (Timestamp, Timestamp, u32);

/// The decision about a schedule's due ticks. Every one of them is in `runs` or in `skipped`
/// (TICK-2), and none in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiringPlan {
    /// The ticks to run, oldest first.
    pub runs: Vec<(Timestamp, Trigger)>,
    /// The ticks that are too late, older than all in `runs`.
    pub skipped: Option<SkippedTicks>,
    /// The next tick after `now`.
    pub next: Option<Timestamp>,
}

/// Returns the instant from which on due ticks always run at `now`. For earlier ones the catch-up
/// policy decides.
pub fn late_before(now: Timestamp) -> Timestamp {
    now.minus(ALWAYS_RUNS_WITHIN)
}

/// Decides about a schedule whose next tick, `tick`, is due at `now`.
pub fn plan(
    recurrence: &Recurrence,
    policy: CatchUpPolicy,
    tick: Timestamp,
    now: Timestamp,
) -> FiringPlan {
    let late_before = late_before(now);
    let mut runs = Vec::new();
    let mut skipped = None;
    if tick < late_before {
        let late = late_ticks(recurrence, policy, tick, late_before, now);
        runs = late.0;
        skipped = late.1;
    }
    let mut recent = if tick < late_before {
        recurrence.next_after(just_before(late_before))
    } else {
        Some(tick)
    };
    while let Some(at) = recent.filter(|at| *at <= now) {
        runs.push(at);
        recent = recurrence.next_after(at);
    }
    let runs = runs.into_iter().map(|at| (at, trigger(at, now))).collect();
    FiringPlan { runs, skipped, next: recent }
}

/// Returns the due ticks up to `until`, none of which runs, and the next tick after them; `None` if
/// there are no such ticks.
pub fn pass_over(
    recurrence: &Recurrence,
    tick: Timestamp,
    until: Timestamp,
    now: Timestamp,
) -> Option<(SkippedTicks, Option<Timestamp>)> {
    let end = until.min(now);
    if tick > end {
        return None;
    }
    let last = recurrence.latest_within(tick, end).unwrap_or(tick);
    let count = recurrence.count_within(tick, end, u64::from(SKIP_COUNT_CAP)).max(1);
    let count = u32::try_from(count).unwrap_or(SKIP_COUNT_CAP);
    Some(((tick, last, count), recurrence.next_after(end)))
}

/// Splits the ticks from `first` to before `end` into those that run, oldest first, and the older
/// ones that do not.
fn late_ticks(
    recurrence: &Recurrence,
    policy: CatchUpPolicy,
    first: Timestamp,
    end: Timestamp,
    now: Timestamp,
) -> (Vec<Timestamp>, Option<SkippedTicks>) {
    let most = match policy {
        CatchUpPolicy::Last => 1,
        CatchUpPolicy::All => MAX_CAUGHT_UP,
        CatchUpPolicy::Skip => 0,
    };
    // The search goes backwards from the newest tick, so that a long outage costs no more than a
    // short one.
    // `first` is a stored tick: it counts even if the expression does not have it.
    let newest =
        |to: Timestamp| recurrence.latest_within(first, to).or((first <= to).then_some(first));
    let mut runs = Vec::new();
    let mut at = newest(just_before(end));
    while let Some(tick) =
        at.filter(|tick| runs.len() < most && *tick >= now.minus(NEVER_RUNS_AFTER))
    {
        runs.push(tick);
        at = newest(just_before(tick));
    }
    runs.reverse();
    let skipped = at.map(|last| {
        let count = recurrence.count_within(first, last, u64::from(SKIP_COUNT_CAP)).max(1);
        (first, last, u32::try_from(count).unwrap_or(SKIP_COUNT_CAP))
    });
    (runs, skipped)
}

fn trigger(tick: Timestamp, now: Timestamp) -> Trigger {
    if now.since(tick) > ON_TIME { Trigger::CatchUp } else { Trigger::Schedule }
}

fn just_before(at: Timestamp) -> Timestamp {
    at.minus(Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("an instant")
    }

    fn decide(policy: CatchUpPolicy, tick: &str, now: &str) -> FiringPlan {
        let recurrence = Recurrence::parse("*/5 * * * *", "UTC").expect("valid");
        plan(&recurrence, policy, at(tick), at(now))
    }

    #[test]
    fn ticks_up_to_an_instant_are_passed_over() {
        let recurrence = Recurrence::parse("*/5 * * * *", "UTC").expect("valid");
        let (tick, now) = (at("2030-01-01T00:05:00Z"), at("2030-01-01T00:31:00Z"));
        let for_ever = Timestamp::from_millis(i64::MAX);
        let (passed, next) = pass_over(&recurrence, tick, for_ever, now).expect("due");
        assert_eq!(passed, (tick, at("2030-01-01T00:30:00Z"), 6));
        assert_eq!(next, Some(at("2030-01-01T00:35:00Z")));
        let until = at("2030-01-01T00:10:00Z");
        let (passed, next) = pass_over(&recurrence, tick, until, now).expect("due");
        assert_eq!((passed, next), ((tick, until, 2), Some(at("2030-01-01T00:15:00Z"))));
        assert_eq!(pass_over(&recurrence, tick, at("2030-01-01T00:04:59Z"), now), None);
    }

    #[test]
    fn a_tick_on_time_runs() {
        let plan = decide(CatchUpPolicy::Skip, "2030-01-01T00:05:00Z", "2030-01-01T00:05:00.003Z");
        assert_eq!(plan.runs, [(at("2030-01-01T00:05:00Z"), Trigger::Schedule)]);
        assert_eq!((plan.skipped, plan.next), (None, Some(at("2030-01-01T00:10:00Z"))));
    }

    #[test]
    fn up_to_a_minute_late_runs_under_every_policy() {
        for policy in CatchUpPolicy::ALL {
            let plan = decide(*policy, "2030-01-01T00:05:00Z", "2030-01-01T00:06:00Z");
            assert_eq!(plan.runs, [(at("2030-01-01T00:05:00Z"), Trigger::CatchUp)], "{policy}");
            assert_eq!(plan.skipped, None);
        }
    }

    #[test]
    fn the_last_of_many_late_ticks_runs_and_the_others_are_skipped() {
        let plan = decide(CatchUpPolicy::Last, "2030-01-01T00:05:00Z", "2030-01-01T01:02:00Z");
        assert_eq!(plan.runs, [(at("2030-01-01T01:00:00Z"), Trigger::CatchUp)]);
        let skipped = (at("2030-01-01T00:05:00Z"), at("2030-01-01T00:55:00Z"), 11);
        assert_eq!(plan.skipped, Some(skipped));
        assert_eq!(plan.next, Some(at("2030-01-01T01:05:00Z")));
    }

    #[test]
    fn a_late_and_a_recent_tick_both_run() {
        let plan = decide(CatchUpPolicy::Last, "2030-01-01T00:05:00Z", "2030-01-01T00:10:30Z");
        let ticks: Vec<_> = plan.runs.iter().map(|(tick, _)| *tick).collect();
        assert_eq!(ticks, [at("2030-01-01T00:05:00Z"), at("2030-01-01T00:10:00Z")]);
        assert_eq!(plan.skipped, None);
    }

    #[test]
    fn the_policy_skip_runs_no_late_tick() {
        let plan = decide(CatchUpPolicy::Skip, "2030-01-01T00:05:00Z", "2030-01-01T00:13:00Z");
        assert_eq!(plan.runs, []);
        let skipped = (at("2030-01-01T00:05:00Z"), at("2030-01-01T00:10:00Z"), 2);
        assert_eq!(plan.skipped, Some(skipped));
    }

    #[test]
    fn all_runs_the_newest_hundred() {
        let plan = decide(CatchUpPolicy::All, "2030-01-01T00:05:00Z", "2030-01-02T00:02:00Z");
        assert_eq!(plan.runs.len(), 100);
        assert!(plan.runs.is_sorted_by_key(|(tick, _)| *tick));
        let skipped = plan.skipped.expect("the older ones");
        assert_eq!((skipped.0, skipped.2), (at("2030-01-01T00:05:00Z"), 288 - 100));
        assert_eq!(skipped.1.plus(Duration::from_secs(300)), plan.runs[0].0);
    }

    #[test]
    fn a_tick_over_31_days_old_never_runs() {
        let recurrence = Recurrence::parse("0 0 1 1 *", "UTC").expect("valid");
        let (tick, now) = (at("2030-01-01T00:00:00Z"), at("2030-02-01T00:00:01Z"));
        let plan = plan(&recurrence, CatchUpPolicy::Last, tick, now);
        assert_eq!((plan.runs, plan.skipped), (Vec::new(), Some((tick, tick, 1))));
        assert_eq!(plan.next, Some(at("2031-01-01T00:00:00Z")));
    }

    #[test]
    fn a_stored_tick_that_the_expression_does_not_have_still_ends_as_one() {
        let plan = decide(CatchUpPolicy::Last, "2030-01-01T00:07:00Z", "2030-01-01T00:09:00Z");
        assert_eq!(plan.runs, [(at("2030-01-01T00:07:00Z"), Trigger::CatchUp)]);
    }
}
