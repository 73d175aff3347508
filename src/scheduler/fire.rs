//! Firing a batch of due schedules.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::Context;
use super::batch::{Batch, Taken};
use super::decide::{Cadences, Decision, decide};
use super::known::{Known, Read};
use super::quotas::{Allowed, Due, Quotas};
use crate::domain::firing::late_before;
use crate::domain::plan::Plans;
use crate::domain::shard::ShardId;
use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, ScheduleId, Timestamp};
use crate::runtime::RunError;
use crate::runtime::faults::{Defect, Point};
use crate::store::{Fence, Firing};

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

/// Fires those of these schedules that are due as the index says, and brings index and run queue up
/// to date. `false` if a newer leader has the shard.
pub(super) async fn fire_batch(
    context: &Context,
    rules: &Rules,
    known: &mut Known,
    fence: Fence,
    now: Timestamp,
    due: &[(ScheduleId, Timestamp)],
) -> Result<bool, RunError> {
    let mut read = read(context, known, fence.shard, now, due).await?;
    let (decisions, mut index) = decide(&rules.cadences, &read, now);
    let Limited { firings, waiting, allowed } =
        within_quotas(context, &rules.quotas, decisions, now).await;
    index.extend(waiting);
    let found: HashSet<_> = read.iter().map(|read| read.candidate.schedule).collect();
    let gone = due.iter().filter(|(schedule, _)| !found.contains(schedule));
    index.extend(gone.map(|(schedule, _)| (*schedule, None)));
    let taken = Taken::of(&rules.quotas, &allowed, &read);
    let (tickets, advanced) = (Vec::new(), Vec::new());
    let mut batch = Batch { context, fence, now, taken, read: &read, index, advanced, tickets };
    if !firings.is_empty() {
        if Defect::EarlyTicket.is_there() {
            push_early(context, fence, &firings, now).await?;
        }
        Point::BeforeFire.reach();
        if !batch.fire(firings).await? {
            return Ok(false);
        }
    }
    let Batch { mut index, advanced, tickets, .. } = batch;
    index.extend(&advanced);
    // The tickets first: what is due starts before the index is moved on.
    let pushed = context.queue.push(&tickets).await;
    Point::AfterPush.reach();
    context.queue.set_due(fence.shard, fence.epoch, &index).await?;
    // What is reserved for an account is reserved by its plan as it is.
    read.retain(|read| !allowed.limits(read.candidate.account));
    known.keep(read, &advanced, now, context.clock.monotonic());
    pushed?;
    Ok(true)
}

/// The schedules as they are known, or as the store says: all by the same plans of their accounts.
async fn read(
    context: &Context,
    known: &mut Known,
    shard: ShardId,
    now: Timestamp,
    due: &[(ScheduleId, Timestamp)],
) -> Result<Vec<Read>, RunError> {
    let at = context.clock.monotonic();
    let from_store = async |ids: Vec<ScheduleId>| -> Result<Vec<Read>, RunError> {
        let candidates = context.store.candidates(shard, &ids, late_before(now)).await?;
        Ok(candidates.into_iter().map(|candidate| Read::new(candidate, at)).collect())
    };
    let all = || due.iter().map(|(schedule, _)| *schedule);
    let mut read = known.take(due, now, at);
    let ids: HashSet<_> = read.iter().map(|read| read.candidate.schedule).collect();
    let unknown: Vec<ScheduleId> = all().filter(|id| !ids.contains(id)).collect();
    if unknown.is_empty() {
        return Ok(read);
    }
    read.extend(from_store(unknown).await?);
    let suspensions = |read: &Read| read.candidate.suspensions;
    if read.first().map(suspensions) == read.last().map(suspensions) {
        return Ok(read);
    }
    from_store(all().collect()).await
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
