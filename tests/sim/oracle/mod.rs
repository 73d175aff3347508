//! The oracle: compares the store and the requests at the target after a run with the actions of
//! the users. It derives all expectations without code of the service.

mod attempts;
mod overlap;
mod ticks;

use std::collections::{BTreeMap, HashSet};

use punctual::domain::hours::AccountHour;
use punctual::domain::job::{Attempt, Job, JobStatus, Trigger};
use punctual::domain::outcome::ErrorCode;
use punctual::domain::schedule::Skip;
use punctual::domain::{ScheduleId, Timestamp};

use crate::alerts;
use crate::history::KnownSchedule;
use crate::target::Hit;
use crate::world::World;

/// A job and all facts about it.
pub struct Seen {
    pub job: Job,
    pub attempts: Vec<Attempt>,
    /// The requests in their order of arrival.
    pub hits: Vec<Hit>,
}

impl Seen {
    /// Returns `true` if a tick made the job.
    pub fn is_of_tick(&self) -> bool {
        matches!(self.job.trigger, Trigger::Schedule | Trigger::CatchUp)
    }
}

/// A schedule and all facts about it.
pub struct Case<'a> {
    pub id: ScheduleId,
    pub known: &'a KnownSchedule,
    /// Oldest first.
    pub jobs: Vec<&'a Seen>,
    pub skips: Vec<Skip>,
    pub now: Timestamp,
}

impl Case<'_> {
    /// Returns the jobs that ticks made, oldest first.
    pub fn tick_jobs(&self) -> impl Iterator<Item = &Seen> {
        self.jobs.iter().copied().filter(|seen| seen.is_of_tick())
    }
}

/// Checks a finished run. Returns the number of its jobs.
pub async fn judge(world: &mut World) -> usize {
    let mut hits: BTreeMap<_, Vec<Hit>> = BTreeMap::new();
    for hit in world.target.hits() {
        hits.entry(hit.job).or_default().push(hit);
    }
    let mut seen = Vec::new();
    for job in world.jobs().await {
        let attempts = world.attempts(job.id).await;
        let hits = hits.remove(&job.id).unwrap_or_default();
        seen.push(Seen { job, attempts, hits });
    }
    seen.reverse();
    let mut broken = Vec::new();
    broken.extend(hits.keys().map(|job| format!("a hit of the unknown {job}")));
    broken.extend(world.target.wrong().into_iter().map(|what| format!("a strange hit: {what}")));
    broken.extend(world.outside.takeovers.judge());
    broken.extend(promises(world, &seen));
    broken.extend(counts(&world.hours().await, &seen));
    for seen in &seen {
        broken.extend(attempts::judge(world, seen));
    }
    let (now, known) = (world.clock.now(), world.history.schedules.clone());
    for (id, known) in &known {
        let skips = if known.deleted.is_some() { Vec::new() } else { world.skips(*id).await };
        let jobs = seen.iter().filter(|seen| seen.job.schedule_id == *id).collect();
        let case = Case { id: *id, known, jobs, skips, now };
        broken.extend(ticks::judge(&case));
        broken.extend(overlap::judge(&case));
    }
    let jobs: Vec<Job> = seen.iter().map(|seen| seen.job.clone()).collect();
    broken.extend(alerts::judge(world, &jobs).await);
    for what in broken {
        world.record_violation(what);
    }
    seen.len()
}

/// Requires that each finished job is counted once, in the hour of its end and with its outcome.
fn counts(hours: &[AccountHour], seen: &[Seen]) -> Vec<String> {
    let mut expected: BTreeMap<i64, (u64, u64, u64)> = BTreeMap::new();
    for Seen { job, .. } in seen.iter().filter(|seen| seen.job.status.is_final()) {
        let ended_at = job.completed_at.map_or(0, Timestamp::as_millis);
        let (succeeded, failed, cancelled) =
            expected.entry(ended_at - ended_at % 3_600_000).or_default();
        match (job.status, job.error_code) {
            (JobStatus::Success, _) => *succeeded += 1,
            (_, Some(ErrorCode::Cancelled)) => *cancelled += 1,
            _ => *failed += 1,
        }
    }
    let counted: BTreeMap<_, _> = hours
        .iter()
        .map(|hour| (hour.start.as_millis(), (hour.succeeded, hour.failed, hour.cancelled)))
        .collect();
    let is_right = counted == expected;
    (!is_right).then(|| format!("hours count {counted:?}, not {expected:?}")).into_iter().collect()
}

/// Requires one job for each trigger or retry with a response, and at most one for each without.
fn promises(world: &World, seen: &[Seen]) -> Vec<String> {
    let mut broken = Vec::new();
    let by_users: HashSet<_> =
        seen.iter().filter(|seen| !seen.is_of_tick()).map(|seen| seen.job.id).collect();
    for promised in world.history.promised.iter().filter(|job| !by_users.contains(job)) {
        broken.push(format!("{promised} was promised and is not there"));
    }
    let promised: HashSet<_> = world.history.promised.iter().copied().collect();
    let extra = by_users.difference(&promised).count();
    if extra > world.history.unanswered {
        broken.push(format!("{extra} jobs without a request"));
    }
    broken
}
