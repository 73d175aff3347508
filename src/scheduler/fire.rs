//! Firing a batch of due schedules.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::Context;
use super::decide::{Cadences, Decision, decide};
use super::quotas::{Allowed, Due, Quotas};
use crate::domain::plan::Plans;
use crate::domain::schedule::OverlapPolicy;
use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, ScheduleId, Timestamp};
use crate::runtime::RunError;
use crate::runtime::faults::{Defect, Point};
use crate::store::{Candidate, Fence, Fired, Firing, TickJob};
use crate::telemetry::metrics::{
    FENCED_WRITES, FIRE_BATCH_SECONDS, FIRE_BATCH_SIZE, SKIPS, TICKS_FIRED,
};

/// How long a schedule whose row is not free rests in the index before it is tried again. A change
/// by a user holds it for less.
const REST: Duration = Duration::from_millis(100);

/// What is known to decide by.
pub(super) struct Rules {
    cadences: Cadences,
    quotas: Quotas,
}

impl Rules {
    pub(super) fn new(plans: Arc<Plans>) -> Self {
        Self { cadences: Cadences::new(), quotas: Quotas::new(plans) }
    }
}

/// Fires the due ones of these schedules and brings index and run queue up to date. `false` if
/// a newer leader has the shard.
pub(super) async fn fire_batch(
    context: &Context,
    rules: &Rules,
    fence: Fence,
    now: Timestamp,
    ids: &[ScheduleId],
) -> Result<bool, RunError> {
    let candidates = context.store.candidates(fence.shard, ids).await?;
    let (decisions, mut index) = decide(&rules.cadences, &candidates, now);
    let (firings, allowed) = within_quotas(context, &rules.quotas, decisions, now).await?;
    let known: HashSet<_> = candidates.iter().map(|candidate| candidate.schedule).collect();
    index.extend(ids.iter().filter(|id| !known.contains(*id)).map(|id| (*id, None)));
    let mut tickets = Vec::new();
    if !firings.is_empty() {
        if Defect::EarlyTicket.is_there() {
            push_early(context, fence, &firings, now).await?;
        }
        Point::BeforeFire.reach();
        let began = context.clock.monotonic();
        let fired = context.store.fire(fence, now, &firings).await;
        let limited = limited(&candidates, &allowed);
        let fired = match fired {
            Ok(fired) => fired,
            Err(error) => {
                // They are fired again, and taken again, unless the answer alone was lost: that
                // costs nobody more than this batch.
                give_back(&rules.quotas, &limited, &firings, |_, _| false);
                return Err(error.into());
            }
        };
        FIRE_BATCH_SECONDS.record_span(context.clock.monotonic().saturating_sub(began));
        FIRE_BATCH_SIZE.record_count(firings.len());
        match fired {
            Fired::Fenced => {
                give_back(&rules.quotas, &limited, &firings, |_, _| false);
                FENCED_WRITES.add(1);
                return Ok(false);
            }
            Fired::Done { tickets: made, advanced, busy, .. } => {
                count(&firings, &advanced, made.len());
                give_back_unmade(&rules.quotas, &limited, &firings, &advanced, &made);
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

/// What shall be fired: of accounts whose plan limits their jobs, no more than that.
async fn within_quotas(
    context: &Context,
    quotas: &Quotas,
    decisions: Vec<Decision<'_>>,
    now: Timestamp,
) -> Result<(Vec<Firing>, Allowed), RunError> {
    let mut due = Due::default();
    for Decision { candidate, plan, .. } in &decisions {
        quotas.add(&mut due, candidate, plan.runs.len());
    }
    let mut allowed = quotas.take(&context.store, now, &due).await?;
    let firing = |decision: Decision<'_>| {
        let runs = decision.plan.runs.len();
        let may = allowed.take(decision.candidate.account, runs);
        decision.firing(may)
    };
    Ok((decisions.into_iter().map(firing).collect(), allowed))
}

/// The schedules of accounts whose plan limits their jobs.
type Limited<'a> = HashMap<ScheduleId, &'a Candidate>;

fn limited<'a>(candidates: &'a [Candidate], allowed: &Allowed) -> Limited<'a> {
    let limited = candidates.iter().filter(|candidate| allowed.limits(candidate.account));
    limited.map(|candidate| (candidate.schedule, candidate)).collect()
}

/// Gives back what was taken for jobs that were not made.
fn give_back(
    quotas: &Quotas,
    limited: &Limited<'_>,
    firings: &[Firing],
    made: impl Fn(&Candidate, &TickJob) -> bool,
) {
    for firing in firings {
        let Some(candidate) = limited.get(&firing.schedule) else { continue };
        let unmade = firing.jobs.iter().filter(|job| !made(candidate, job)).count();
        quotas.give_back(candidate.account, unmade as u64);
    }
}

/// The same after a firing: for jobs of schedules that were not fired, and those of the policy
/// `skip` that found another one active.
fn give_back_unmade(
    quotas: &Quotas,
    limited: &Limited<'_>,
    firings: &[Firing],
    advanced: &[(ScheduleId, Option<Timestamp>)],
    tickets: &[Ticket],
) {
    if limited.is_empty() {
        return;
    }
    let advanced: HashSet<_> = advanced.iter().map(|(schedule, _)| *schedule).collect();
    let started: HashSet<_> = tickets.iter().map(|ticket| ticket.job).collect();
    give_back(quotas, limited, firings, |candidate, job| {
        advanced.contains(&candidate.schedule)
            && (candidate.overlap_policy != OverlapPolicy::Skip || started.contains(&job.id))
    });
}

fn count(firings: &[Firing], advanced: &[(ScheduleId, Option<Timestamp>)], jobs: usize) {
    TICKS_FIRED.add(jobs as u64);
    let advanced: HashSet<_> = advanced.iter().map(|(schedule, _)| *schedule).collect();
    let fired = firings.iter().filter(|firing| advanced.contains(&firing.schedule));
    for (range, reason) in fired.flat_map(|firing| &firing.skips) {
        SKIPS.with(*reason).add(u64::from(range.count));
    }
}
