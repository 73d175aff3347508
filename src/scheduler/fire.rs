//! Firing a batch of due schedules.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::Context;
use super::decide::{Cadences, Decision, decide};
use super::quotas::{Allowed, Due, Quotas};
use crate::domain::plan::Plans;
use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp};
use crate::runtime::RunError;
use crate::runtime::faults::{Defect, Point};
use crate::store::{Candidate, Fence, Fired, Firing};
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
    let Limited { firings, waiting, allowed } =
        within_quotas(context, &rules.quotas, decisions, now).await;
    index.extend(waiting);
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
        let taken = Taken::of(&rules.quotas, &allowed, &candidates);
        let fired = match fired {
            Ok(fired) => fired,
            Err(error) => {
                // They are fired again, and taken again, unless the answer alone was lost: that
                // costs nobody more than this batch.
                taken.give_back(&firings, []);
                return Err(error.into());
            }
        };
        FIRE_BATCH_SECONDS.record_span(context.clock.monotonic().saturating_sub(began));
        FIRE_BATCH_SIZE.record_count(firings.len());
        match fired {
            Fired::Fenced => {
                taken.give_back(&firings, []);
                FENCED_WRITES.add(1);
                return Ok(false);
            }
            Fired::Done { tickets: made, held, advanced, busy, .. } => {
                count(&firings, &advanced, made.len());
                let started = made.iter().map(|ticket| ticket.job);
                taken.give_back(&firings, started.chain(held));
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

/// What shall become of due schedules by what the plans of their accounts allow.
struct Limited {
    /// What shall be fired.
    firings: Vec<Firing>,
    /// What stays due, and when it is looked at again.
    waiting: Vec<(ScheduleId, Option<Timestamp>)>,
    allowed: Allowed,
}

/// Of accounts whose plan limits their jobs, no more than that is fired.
async fn within_quotas(
    context: &Context,
    quotas: &Quotas,
    decisions: Vec<Decision<'_>>,
    now: Timestamp,
) -> Limited {
    let mut due = Due::default();
    for Decision { candidate, plan, .. } in &decisions {
        quotas.add(&mut due, candidate, plan.runs.len());
    }
    let mut allowed = quotas.take(context, now, &due).await;
    let (mut firings, mut waiting) = (Vec::with_capacity(decisions.len()), Vec::new());
    for decision in decisions {
        let runs = decision.plan.runs.len();
        match allowed.take(decision.candidate.account, runs) {
            Ok(may) => firings.push(decision.firing(may)),
            Err(wait) => {
                let again = context.clock.after(now, wait);
                waiting.push((decision.candidate.schedule, Some(again)));
            }
        }
    }
    Limited { firings, waiting, allowed }
}

/// What was taken for a batch, of schedules of accounts whose plan limits their jobs.
struct Taken<'a> {
    quotas: &'a Quotas,
    allowed: &'a Allowed,
    candidates: HashMap<ScheduleId, &'a Candidate>,
}

impl<'a> Taken<'a> {
    fn of(quotas: &'a Quotas, allowed: &'a Allowed, candidates: &'a [Candidate]) -> Self {
        let limited = candidates.iter().filter(|candidate| allowed.limits(candidate.account));
        let candidates = limited.map(|candidate| (candidate.schedule, candidate)).collect();
        Self { quotas, allowed, candidates }
    }

    /// Gives back what was taken for jobs that were not made: their schedule was not fired, or
    /// found another job active.
    fn give_back(&self, firings: &[Firing], made: impl IntoIterator<Item = JobId>) {
        if self.candidates.is_empty() {
            return;
        }
        let made: HashSet<_> = made.into_iter().collect();
        for firing in firings {
            let Some(candidate) = self.candidates.get(&firing.schedule) else { continue };
            let unmade = firing.jobs.iter().filter(|job| !made.contains(&job.id)).count();
            self.quotas.give_back(self.allowed, candidate.account, unmade as u64);
        }
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
