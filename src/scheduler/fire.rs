//! Firing one batch of due schedules of all led shards.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::SchedulerContext;
use super::backlog::Backlog;
use super::decide::{FiringDecision, RecurrenceCache, decide};
use super::firing_batch::FiringBatch;
use super::pending::DueTick;
use super::quotas::{AllowedJobs, DueJobs, Quotas};
use super::schedule_cache::{LoadedSchedule, ScheduleCache};
use crate::domain::firing::late_before;
use crate::domain::plan::Plans;
use crate::domain::shard::ShardId;
use crate::domain::{ScheduleId, Timestamp};
use crate::runtime::RunError;
use crate::runtime::faults::FaultPoint;
use crate::store::{Fence, Firing};

/// The caches and rules that decisions need, and the limits on jobs.
pub(super) struct FiringRules {
    recurrences: RecurrenceCache,
    quotas: Quotas,
    cache: ScheduleCache,
    backlog: Backlog,
}

impl FiringRules {
    pub(super) fn new(plans: Arc<Plans>) -> Self {
        let (recurrences, quotas) = (RecurrenceCache::new(), Quotas::new(plans.clone()));
        Self { recurrences, quotas, cache: ScheduleCache::default(), backlog: Backlog::new(plans) }
    }
}

/// Fires those of these schedules that are due, and updates the indexes and the run queue. Returns
/// the shards that have a newer leader.
pub(super) async fn fire_batch(
    context: &SchedulerContext,
    rules: &FiringRules,
    fences: &[Fence],
    now: Timestamp,
    due: &[DueTick],
) -> Result<Vec<ShardId>, RunError> {
    let mut read = read(context, &rules.cache, now, due).await?;
    let (decisions, mut index) = decide(&rules.recurrences, &read, now);
    let (firings, allowed) =
        within_quotas(context, &rules.quotas, decisions, now, &mut index).await;
    let candidates = read.iter().map(|read| (read.candidate.schedule, &read.candidate));
    let candidates: HashMap<_, _> = candidates.collect();
    let gone = due.iter().map(|due| due.member.schedule).filter(|id| !candidates.contains_key(id));
    index.extend(gone.map(|schedule| (schedule, None)));
    let (tickets, advanced, fenced) = (Vec::new(), Vec::new(), Vec::new());
    let mut batch = FiringBatch {
        context,
        fences,
        now,
        quotas: &rules.quotas,
        allowed: &allowed,
        backlog: &rules.backlog,
        read: &read,
        candidates,
        index,
        advanced,
        tickets,
        fenced,
    };
    if !firings.is_empty() {
        FaultPoint::BeforeFire.reach();
        batch.fire(firings).await?;
    }
    // The tickets are pushed first, so that due jobs do not wait for the update of the indexes.
    let pushed = context.queue.push(&batch.tickets).await;
    FaultPoint::AfterPush.reach();
    batch.set_due(due).await?;
    let FiringBatch { advanced, fenced, .. } = batch;
    // Schedules under a quota are not cached: each reservation must use the account's current plan.
    read.retain(|read| !allowed.limits(read.candidate.account));
    rules.cache.keep(read, &advanced, now, context.clock.monotonic());
    pushed?;
    Ok(fenced)
}

/// Returns the schedules from the cache or from the store. In the result, all schedules of one
/// account have the same plan and suspension.
async fn read(
    context: &SchedulerContext,
    cache: &ScheduleCache,
    now: Timestamp,
    due: &[DueTick],
) -> Result<Vec<LoadedSchedule>, RunError> {
    let at = context.clock.monotonic();
    let from_store =
        async |ids: Vec<(ShardId, ScheduleId)>| -> Result<Vec<LoadedSchedule>, RunError> {
            if ids.is_empty() {
                return Ok(Vec::new());
            }
            let candidates = context.store.candidates(&ids, late_before(now)).await?;
            Ok(candidates.into_iter().map(|candidate| LoadedSchedule::new(candidate, at)).collect())
        };
    let mut read = cache.take(due, now, at);
    let ids: HashSet<_> = read.iter().map(|read| read.candidate.schedule).collect();
    let unknown = due.iter().filter(|due| !ids.contains(&due.member.schedule));
    let new = from_store(unknown.map(|due| (due.shard, due.member.schedule)).collect()).await?;
    let plans: HashMap<_, _> = new.iter().map(|new| (new.candidate.account, plan(new))).collect();
    let is_old = |read: &mut LoadedSchedule| {
        plans.get(&read.candidate.account).is_some_and(|newer| *newer != plan(read))
    };
    let old = read.extract_if(.., is_old).map(|old| (old.candidate.shard, old.candidate.schedule));
    let again = from_store(old.collect()).await?;
    read.extend(new.iter().cloned());
    read.extend(again);
    Ok(read)
}

/// Returns the account's plan and suspension, as they were read with the schedule.
fn plan(read: &LoadedSchedule) -> (Option<&str>, Option<Timestamp>) {
    (read.candidate.plan.as_deref(), read.candidate.suspended_until)
}

/// Limits the jobs of accounts with a quota to the number that they may have. Returns the firings
/// that may take place. The other schedules stay due: `index` gets the time of their next try.
async fn within_quotas(
    context: &SchedulerContext,
    quotas: &Quotas,
    decisions: Vec<FiringDecision<'_>>,
    now: Timestamp,
    index: &mut Vec<(ScheduleId, Option<Timestamp>)>,
) -> (Vec<Firing>, AllowedJobs) {
    let mut due = DueJobs::default();
    for FiringDecision { candidate, plan, .. } in &decisions {
        quotas.add(&mut due, candidate, plan.runs.len());
    }
    let mut allowed = quotas.take(context, now, &due).await;
    let mut firings = Vec::with_capacity(decisions.len());
    for decision in decisions {
        let runs = decision.plan.runs.len();
        match allowed.take(decision.candidate.account, runs) {
            Ok(may) => firings.push(decision.firing(may)),
            Err(wait) => {
                let again = context.clock.after(now, wait);
                index.push((decision.candidate.schedule, Some(again)));
            }
        }
    }
    (firings, allowed)
}
