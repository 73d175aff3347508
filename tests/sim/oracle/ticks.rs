//! Checks ticks: TICK-1 to TICK-4 and the catch-up policies.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use punctual::domain::Timestamp;
use punctual::domain::job::Trigger;
use punctual::domain::schedule::CatchUpPolicy;

use super::{Case, Seen};

/// A tick that is at most this late always runs.
const ALWAYS_RUNS: Duration = Duration::from_secs(60);

pub fn judge(case: &Case) -> Vec<String> {
    let mut broken = Vec::new();
    let ticks: BTreeSet<_> = case.known.ticks(case.now).into_iter().collect();
    let mut jobs = BTreeMap::new();
    for seen in case.tick_jobs() {
        let tick = seen.job.scheduled_run_at;
        if jobs.insert(tick, seen).is_some() {
            broken.push(format!("TICK-1: two jobs of {} for {tick}", case.id));
        }
        if !ticks.contains(&tick) {
            broken.push(format!("TICK-4: {} has a job for {tick}, which is no tick", case.id));
        }
        broken.extend(early(seen));
    }
    match &case.known.deleted {
        Some((at, then)) => {
            let now: HashSet<_> = case.jobs.iter().map(|seen| seen.job.id).collect();
            for job in now.difference(then) {
                broken.push(format!("TICK-4: {job} was made after the delete at {at}"));
            }
        }
        None => broken.extend(none_vanishes(case, &ticks, &jobs)),
    }
    broken.extend(catch_up(case));
    broken
}

fn early(seen: &Seen) -> Option<String> {
    let job = &seen.job;
    let late = job.created_at.since(job.scheduled_run_at);
    let trigger = if late > Duration::from_secs(1) { Trigger::CatchUp } else { Trigger::Schedule };
    if job.created_at < job.scheduled_run_at || job.started_at.is_some_and(|at| at < job.created_at)
    {
        return Some(format!("TICK-3: {} is early: {job:?}", job.id));
    }
    (job.trigger != trigger).then(|| format!("{} is {late:?} late and {}", job.id, job.trigger))
}

/// TICK-2: each tick is in exactly one job or one skip, and skips contain nothing else.
fn none_vanishes(
    case: &Case,
    ticks: &BTreeSet<Timestamp>,
    jobs: &BTreeMap<Timestamp, &Seen>,
) -> Vec<String> {
    let mut broken = Vec::new();
    for tick in ticks {
        let covering = case.skips.iter().filter(|skip| (skip.first..=skip.last).contains(tick));
        let records = covering.count() + usize::from(jobs.contains_key(tick));
        if records != 1 {
            broken.push(format!("TICK-2: {} has {tick} in {records} records", case.id));
        }
    }
    for skip in &case.skips {
        let held = ticks.range(skip.first..=skip.last).count();
        let ends = [skip.first, skip.last];
        if held != skip.count as usize || ends.iter().any(|end| !ticks.contains(end)) {
            broken.push(format!("TICK-2: {} has {held} ticks in {skip:?}", case.id));
        }
    }
    broken
}

/// The policy decides which ticks run that are more than one minute late. This is checked only for
/// schedules whose policy never changed.
fn catch_up(case: &Case) -> Vec<String> {
    let policies: HashSet<_> = case.known.catch_ups.iter().map(|policy| policy.as_str()).collect();
    if policies.len() > 1 {
        return Vec::new();
    }
    let most = match case.known.catch_ups[0] {
        CatchUpPolicy::Last => 1,
        CatchUpPolicy::All => 100,
        CatchUpPolicy::Skip => 0,
    };
    let mut late: BTreeMap<Timestamp, u32> = BTreeMap::new();
    for seen in case.tick_jobs() {
        if seen.job.created_at.since(seen.job.scheduled_run_at) > ALWAYS_RUNS {
            *late.entry(seen.job.created_at).or_default() += 1;
        }
    }
    let too_many = late.into_iter().filter(|(_, count)| *count > most);
    let tell = |(at, count)| format!("{} caught up on {count} ticks at {at}, most {most}", case.id);
    too_many.map(tell).collect()
}
