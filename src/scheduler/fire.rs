//! Firing a batch of due schedules.

use std::collections::HashSet;
use std::time::Duration;

use quick_cache::sync::Cache;

use super::Context;
use crate::domain::cron::Cadence;
use crate::domain::firing::{Plan, plan};
use crate::domain::schedule::SkipReason;
use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp};
use crate::runtime::faults::{Defect, Point};
use crate::runtime::{Random, RunError};
use crate::store::{Candidate, Fence, Fired, Firing, TickJob, TickRange};
use crate::telemetry::metrics::{
    FENCED_WRITES, FIRE_BATCH_SECONDS, FIRE_BATCH_SIZE, SKIPS, TICKS_FIRED,
};

/// How many parsed expressions are kept. Most schedules share theirs with many others.
const CACHED: usize = 10_000;

/// How long a schedule whose row is not free rests in the index before it is tried again. A change
/// by a user holds it for less.
const REST: Duration = Duration::from_millis(100);

/// Parsed expressions by timezone and text.
pub(super) struct Cadences(Cache<String, Cadence>);

impl Cadences {
    pub(super) fn new() -> Self {
        Self(Cache::new(CACHED))
    }

    fn of(&self, candidate: &Candidate) -> Option<Cadence> {
        let Candidate { timezone, cron_expression, .. } = candidate;
        let parse = || Cadence::parse(cron_expression, timezone);
        self.0.get_or_insert_with(&format!("{timezone} {cron_expression}"), parse).ok()
    }
}

/// Fires the due ones of these schedules and brings index and run queue up to date. `false` if
/// a newer leader has the shard.
pub(super) async fn fire_batch(
    context: &Context,
    cadences: &Cadences,
    fence: Fence,
    now: Timestamp,
    ids: &[ScheduleId],
) -> Result<bool, RunError> {
    let candidates = context.store.candidates(fence.shard, ids).await?;
    let (firings, mut index) = decide(cadences, &candidates, now);
    let known: HashSet<_> = candidates.iter().map(|candidate| candidate.schedule).collect();
    index.extend(ids.iter().filter(|id| !known.contains(*id)).map(|id| (*id, None)));
    let mut tickets = Vec::new();
    if !firings.is_empty() {
        if Defect::EarlyTicket.is_there() {
            push_early(context, fence, &firings, now).await?;
        }
        Point::BeforeFire.reach();
        let began = context.clock.monotonic();
        let fired = context.store.fire(fence, now, &firings).await?;
        FIRE_BATCH_SECONDS.record_span(context.clock.monotonic().saturating_sub(began));
        FIRE_BATCH_SIZE.record_count(firings.len());
        match fired {
            Fired::Fenced => {
                FENCED_WRITES.add(1);
                return Ok(false);
            }
            Fired::Done { tickets: made, advanced, busy, .. } => {
                count(&firings, &advanced, made.len());
                Point::AfterFire.reach();
                if !Defect::EarlyTicket.is_there() {
                    tickets = made;
                }
                index.extend(advanced);
                let again = context.clock.after(now, REST);
                index.extend(busy.into_iter().map(|schedule| (schedule, Some(again))));
            }
        }
    }
    // The tickets first: what is due starts before the index is moved on.
    let pushed = context.queue.push(&tickets).await;
    Point::AfterPush.reach();
    context.queue.set_due(fence.shard, fence.epoch, &index).await?;
    pushed?;
    Ok(true)
}

/// Queues jobs that are not there yet: [`Defect::EarlyTicket`]. It waits until somebody has taken
/// the tickets.
async fn push_early(
    context: &Context,
    fence: Fence,
    firings: &[Firing],
    start: Timestamp,
) -> Result<(), RunError> {
    let jobs = firings.iter().flat_map(|firing| &firing.jobs);
    let tickets: Vec<_> = jobs
        .map(|job| Ticket {
            job: job.id,
            shard: fence.shard,
            account: AccountId::from_bytes([0; 16]),
            host: HostKey(0),
            start,
        })
        .collect();
    context.queue.push(&tickets).await?;
    context.clock.sleep(Duration::from_millis(100)).await;
    Ok(())
}

/// What shall be fired, and what the index shall say of schedules that are not due after all.
fn decide(
    cadences: &Cadences,
    candidates: &[Candidate],
    now: Timestamp,
) -> (Vec<Firing>, Vec<(ScheduleId, Option<Timestamp>)>) {
    let mut firings = Vec::with_capacity(candidates.len());
    let mut index = Vec::new();
    for candidate in candidates {
        if candidate.tick > now {
            index.push((candidate.schedule, Some(candidate.tick)));
        } else if let Some(cadence) = cadences.of(candidate) {
            let plan = plan(&cadence, candidate.catch_up_policy, candidate.tick, now);
            firings.push(firing(candidate, plan));
        } else {
            // Checked when it was stored, so only a release that reads expressions differently
            // gets here. The schedule stays due in the store and fires once it can be read.
            tracing::error!(schedule = %candidate.schedule, "stored expression cannot be read");
            index.push((candidate.schedule, None));
        }
    }
    (firings, index)
}

fn firing(candidate: &Candidate, plan: Plan) -> Firing {
    let id = |tick| {
        if Defect::NoTickKey.is_there() {
            return JobId::new(tick, Random::system().bits());
        }
        JobId::of_tick(candidate.schedule, tick)
    };
    let job = |(tick, trigger)| TickJob { id: id(tick), trigger };
    let skip = |(first, last, count)| (TickRange { first, last, count }, SkipReason::CatchUp);
    Firing {
        schedule: candidate.schedule,
        version: candidate.version,
        tick: candidate.tick,
        overlap_policy: candidate.overlap_policy,
        next_tick: plan.next,
        jobs: plan.runs.into_iter().map(job).collect(),
        skips: plan.skipped.into_iter().map(skip).collect(),
    }
}

fn count(firings: &[Firing], advanced: &[(ScheduleId, Option<Timestamp>)], jobs: usize) {
    TICKS_FIRED.add(jobs as u64);
    let advanced: HashSet<_> = advanced.iter().map(|(schedule, _)| *schedule).collect();
    let fired = firings.iter().filter(|firing| advanced.contains(&firing.schedule));
    for (range, reason) in fired.flat_map(|firing| &firing.skips) {
        SKIPS.with(*reason).add(u64::from(range.count));
    }
}
