//! One batch that is being fired: which jobs start at once, which get a ticket, and how the results
//! of both are recorded.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::future::join_all;
use tracing::field::display;

use super::SchedulerContext;
use super::backlog::Backlog;
use super::pending::DueTick;
use super::quotas::{AllowedJobs, Quotas};
use super::schedule_cache::LoadedSchedule;
use crate::domain::schedule::{SKIP_COUNT_CAP, SkipReason};
use crate::domain::shard::ShardId;
use crate::domain::ticket::Ticket;
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp};
use crate::local_executor::LocalFiring;
use crate::runtime::RunError;
use crate::runtime::faults::FaultPoint;
use crate::store::{self, Candidate, Fence, Fired, Firing, StoreErrorKind, TickJob, TickRange};
use crate::telemetry::metrics::{
    FENCED_WRITES, FIRE_BATCH_SECONDS, FIRE_BATCH_SIZE, FIRING_LAG_SECONDS, SKIPS, TICKS_FIRED,
    TICKS_LATE,
};
use crate::telemetry::traces::{JobSubject, MadeSpan, trace_id};

/// The pause in the index of a schedule whose row is locked, before the next try. A change by a
/// user holds the lock for less.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// The maximum time that firings wait for a busy executor. They wait only if no other one is known.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// A tick whose job is made later than this after its instant counts as late.
const LATE: Duration = Duration::from_secs(1);
/// If fewer jobs than this were started after a wait, the rest of the batch goes to the queue.
const WORTH_REPEATING: usize = 100;

/// A batch that is being fired.
pub(super) struct FiringBatch<'a> {
    pub(super) context: &'a SchedulerContext,
    pub(super) backlog: &'a Backlog,
    pub(super) fences: &'a [Fence],
    pub(super) now: Timestamp,
    pub(super) quotas: &'a Quotas,
    /// The reservations for accounts with a quota.
    pub(super) allowed: &'a AllowedJobs,
    /// The schedules as they were read.
    pub(super) read: &'a [LoadedSchedule],
    pub(super) candidates: HashMap<ScheduleId, &'a Candidate>,
    /// The updates of the due indexes, apart from the next ticks of `advanced`.
    pub(super) index: Vec<(ScheduleId, Option<Timestamp>)>,
    /// The schedules that were advanced, and their next ticks.
    pub(super) advanced: Vec<(ScheduleId, Option<Timestamp>)>,
    /// The tickets for the run queue.
    pub(super) tickets: Vec<Ticket>,
    /// The shards that have a newer leader.
    pub(super) fenced: Vec<ShardId>,
}

impl FiringBatch<'_> {
    /// Fires and starts the jobs for which this replica's executor has free slots. Then fires the
    /// others, which start by their tickets.
    pub(super) async fn fire(&mut self, firings: Vec<Firing>) -> Result<(), RunError> {
        let rest = self.start(firings).await?;
        if rest.is_empty() {
            return Ok(());
        }
        let rest = self.within_backlog(rest).await?;
        let clock = &self.context.clock;
        let began = clock.monotonic();
        let fired = self.context.store.fire(self.fences, self.now, &rest).await;
        let took = clock.monotonic().saturating_sub(began);
        if fired.is_err() {
            self.backlog.forget(&rest);
        }
        self.keep(&rest, fired, &[], took)?;
        FaultPoint::AfterFire.reach();
        Ok(())
    }

    /// Fires and starts as many jobs as this replica's executor has free slots for. Returns the
    /// other firings.
    async fn start(&mut self, firings: Vec<Firing>) -> Result<Vec<Firing>, RunError> {
        let context = self.context;
        let Some(starter) = &context.starter else { return Ok(firings) };
        let (mut wanted, mut rest) = self.with_tickets(firings);
        let until = context.clock.monotonic() + timeout(context.clock.now(), &wanted);
        // The first try takes only slots that are free now. Later ones may wait for slots.
        let mut timeout = Duration::ZERO;
        while !wanted.is_empty() {
            let started = match starter.fire(self.fences, wanted, timeout).await {
                Ok(LocalFiring { fired, started, outcome, left, took }) => {
                    let before = self.advanced.len();
                    let kept = self.keep(&fired, outcome, &started, took);
                    if let Err(error) = kept {
                        rest.extend(left.into_iter().map(|(firing, _)| firing));
                        self.give_back(&rest, &HashSet::new());
                        return Err(error);
                    }
                    wanted = left;
                    Some(self.advanced.len() - before)
                }
                Err(left) => {
                    wanted = left;
                    None
                }
            };
            let has_waited = !timeout.is_zero();
            timeout = until.saturating_sub(context.clock.monotonic());
            // If no schedule was advanced, the due ticks that were read are outdated. The rest was
            // read no later, so it is outdated, too.
            let is_vain = started == Some(0);
            let is_little = has_waited && started.is_none_or(|started| started < WORTH_REPEATING);
            if timeout.is_zero() || is_vain || is_little {
                break;
            }
        }
        rest.extend(wanted.into_iter().map(|(firing, _)| firing));
        Ok(rest)
    }

    /// Turns the newest jobs that exceed the backlog limit of their schedule into skips.
    async fn within_backlog(&self, mut firings: Vec<Firing>) -> Result<Vec<Firing>, RunError> {
        let plan = |firing: &Firing| self.candidates.get(&firing.schedule)?.plan.as_deref();
        let taken = self.backlog.take(&self.context.store, self.fences, plan, &firings).await;
        let taken = taken.inspect_err(|_| self.give_back(&firings, &HashSet::new()))?;
        let mut unmade = Vec::new();
        for (firing, taken) in firings.iter_mut().zip(taken) {
            let over = firing.jobs.split_off(taken);
            if let [first, .., last] | [first @ last] = &over[..] {
                let (first, last) = (first.id.timestamp(), last.id.timestamp());
                let count = u32::try_from(over.len()).unwrap_or(SKIP_COUNT_CAP);
                let range = TickRange { first, last, count };
                unmade.push(Firing { jobs: over, ..firing.clone() });
                firing.skips.push((range, SkipReason::Backlog));
            }
        }
        self.give_back(&unmade, &HashSet::new());
        Ok(firings)
    }

    /// Returns the firings of exactly one job that can start at once, each with the ticket that the
    /// job would get, and all other firings.
    fn with_tickets(&self, firings: Vec<Firing>) -> (Vec<(Firing, Ticket)>, Vec<Firing>) {
        let (mut wanted, mut rest) = (Vec::with_capacity(firings.len()), Vec::new());
        for firing in firings {
            let Candidate { shard, account, host, .. } = *self.candidates[&firing.schedule];
            match firing.jobs[..] {
                [TickJob { id: job, .. }] if firing.is_plain() => {
                    wanted.push((firing, Ticket { job, shard, account, host, start: self.now }));
                }
                _ => rest.push(firing),
            }
        }
        (wanted, rest)
    }

    /// Records the result of a firing statement.
    fn keep(
        &mut self,
        firings: &[Firing],
        fired: store::Result<Fired>,
        started: &[JobId],
        took: Duration,
    ) -> Result<(), RunError> {
        let started = started.iter().copied();
        let fired = match fired {
            Ok(fired) => fired,
            Err(error) => {
                // The firings will be repeated with new reservations. So these are given back,
                // unless the jobs may have been made and only the response was lost.
                let started = started.collect();
                count_made(firings, &started, self.context.clock.now());
                match error.kind() {
                    StoreErrorKind::Unavailable if !error.is_void() => {
                        self.hold_uncertain(firings, &started);
                    }
                    _ => self.give_back(firings, &started),
                }
                return Err(error.into());
            }
        };
        FIRE_BATCH_SECONDS.record_span(took);
        FIRE_BATCH_SIZE.record_count(firings.len());
        let Fired { mut tickets, held, overlapped, advanced, busy, fenced, .. } = fired;
        let queued = tickets.iter().map(|ticket| ticket.job);
        let made = queued.chain(held).chain(started).collect();
        self.note(firings, &made);
        count_made(firings, &made, self.context.clock.now());
        SKIPS.with(SkipReason::Overlap).add(overlapped);
        count_skips(firings, &advanced);
        FENCED_WRITES.add(fenced.len() as u64);
        self.resolve_uncertain(firings, &made, &busy, &fenced);
        self.give_back(firings, &made);
        self.tickets.append(&mut tickets);
        self.advanced.extend(advanced);
        self.postpone(&busy);
        self.fenced.extend(fenced);
        Ok(())
    }

    /// Sets the next ticks of the schedules in the indexes of their shards.
    pub(super) async fn set_due(&self, due: &[DueTick]) -> Result<(), RunError> {
        let ticks: HashMap<_, _> = due.iter().map(|due| (due.member.schedule, due)).collect();
        let mut of_shards: HashMap<ShardId, Vec<_>> = HashMap::new();
        for (schedule, tick) in self.index.iter().chain(&self.advanced) {
            let Some(DueTick { shard, member, .. }) = ticks.get(schedule) else { continue };
            of_shards.entry(*shard).or_default().push((*member, *tick));
        }
        let fences = self.fences.iter();
        let shards = fences.filter_map(|fence| Some((fence, of_shards.get(&fence.shard)?)));
        let set = shards.map(|(fence, entries)| {
            // If another leader owns the index by now, this shard's next turn rebuilds it.
            self.context.queue.set_due(fence.shard, fence.epoch, entries)
        });
        for set in join_all(set).await {
            set?;
        }
        Ok(())
    }

    /// Records the jobs that were made in traces and in the log.
    fn note(&self, firings: &[Firing], made: &HashSet<JobId>) {
        let recorded_at = self.context.clock.now();
        for firing in firings {
            for job in firing.jobs.iter().filter(|job| made.contains(&job.id)) {
                let (id, trigger, schedule) = (job.id, job.trigger, firing.schedule);
                let trace_id = trace_id(id).map(display);
                tracing::debug!(job = %id, %schedule, %trigger, trace_id, "job made");
                let subject = JobSubject { job: id, schedule: Some(schedule), account: None };
                MadeSpan { subject, trigger, recorded_at }.end();
            }
        }
    }

    /// Delays the next try of schedules whose rows were locked. Schedules from the cache stay due:
    /// the next try reads them from the store at once.
    fn postpone(&mut self, busy: &[ScheduleId]) {
        if busy.is_empty() {
            return;
        }
        let cached = self.read.iter().filter(|read| read.is_cached);
        let cached: HashSet<_> = cached.map(|read| read.candidate.schedule).collect();
        let again = self.context.clock.after(self.now, RETRY_AFTER);
        let read = busy.iter().filter(|schedule| !cached.contains(schedule));
        self.index.extend(read.map(|schedule| (*schedule, Some(again))));
    }

    /// Gives back the reservations of jobs that were not made, because their schedule was not fired
    /// or another job was active.
    fn give_back(&self, firings: &[Firing], made: &HashSet<JobId>) {
        for (account, firing) in self.of_limited(firings) {
            let unmade = firing.jobs.iter().filter(|job| !made.contains(&job.id)).count();
            self.quotas.give_back(self.allowed, account, unmade as u64);
        }
    }

    /// Keeps the reservations of jobs that may have been made. The quota holds in either case, and
    /// the next try of the jobs shows whether they were made.
    fn hold_uncertain(&self, firings: &[Firing], started: &HashSet<JobId>) {
        for (account, firing) in self.of_limited(firings) {
            for job in firing.jobs.iter().filter(|job| !started.contains(&job.id)) {
                self.quotas.hold_uncertain(self.allowed, account, job.id);
            }
        }
    }

    /// Ends the doubt about the jobs on which the store has decided, which excludes schedules that
    /// were busy and shards that have another leader.
    fn resolve_uncertain(
        &self,
        firings: &[Firing],
        made: &HashSet<JobId>,
        busy: &[ScheduleId],
        fenced: &[ShardId],
    ) {
        for (account, firing) in self.of_limited(firings) {
            let is_told = !busy.contains(&firing.schedule) && !fenced.contains(&firing.shard);
            for job in firing.jobs.iter().filter(|_| is_told) {
                self.quotas.resolve_uncertain(account, job.id, made.contains(&job.id));
            }
        }
    }

    /// Returns the firings of accounts with a quota.
    fn of_limited<'b>(
        &self,
        firings: &'b [Firing],
    ) -> impl Iterator<Item = (AccountId, &'b Firing)> {
        firings.iter().filter_map(|firing| {
            let account = self.candidates.get(&firing.schedule)?.account;
            self.allowed.limits(account).then_some((account, firing))
        })
    }
}

/// Returns how long firings can wait for a free slot: at most a quarter of the time to the earliest
/// next tick, so that no tick is mistaken for a missed one.
fn timeout(now: Timestamp, wanted: &[(Firing, Ticket)]) -> Duration {
    let next = wanted.iter().filter_map(|(firing, _)| firing.next_tick).min();
    next.map_or(MAX_WAIT, |next| (next.since(now) / 4).min(MAX_WAIT))
}

/// Counts the jobs that were made, including held ones, and records the lag from their ticks to the
/// commit at `now`.
fn count_made(firings: &[Firing], made: &HashSet<JobId>, now: Timestamp) {
    TICKS_FIRED.add(made.len() as u64);
    let mut late = 0;
    let jobs = firings.iter().flat_map(|firing| &firing.jobs);
    for job in jobs.filter(|job| made.contains(&job.id)) {
        let lag = now.since(job.id.timestamp());
        FIRING_LAG_SECONDS.record_span(lag);
        late += u64::from(lag > LATE);
    }
    TICKS_LATE.add(late);
}

/// Counts the ticks that the decision skipped, of schedules that were advanced.
fn count_skips(firings: &[Firing], advanced: &[(ScheduleId, Option<Timestamp>)]) {
    if firings.iter().all(|firing| firing.skips.is_empty()) {
        return;
    }
    let advanced: HashSet<_> = advanced.iter().map(|(schedule, _)| *schedule).collect();
    let fired = firings.iter().filter(|firing| advanced.contains(&firing.schedule));
    for (range, reason) in fired.flat_map(|firing| &firing.skips) {
        SKIPS.with(*reason).add(u64::from(range.count));
    }
}
