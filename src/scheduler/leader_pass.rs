//! One pass of the leader: it serves all shards of this replica and fires their due ticks in
//! shared batches.
//!
//! A shard that cannot be served backs off for growing pauses, and does not delay the other shards.
//! Nor does a slow call: while the pass waits for it, the other shards are served again when they
//! are due.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::Notify;

use super::gathering::Gathering;
use super::isolate::{FiredBatch, fire};
use super::pass_report::PassReport;
use super::pending::{DueTick, PendingTicks};
use super::running_calls::{RunningCalls, SLOW_AFTER};
use super::shard_leadership::{LeaderParts, ShardLeadership, ShardTurn, most_due};
use crate::domain::Timestamp;
use crate::domain::shard::ShardId;
use crate::queue::OwnedSchedule;
use crate::runtime::{BatchSize, Clock, RunError};
use crate::store::Fence;

/// The maximum number of shards that are served at once. The queue's server works on the next ones
/// while the leader handles the ticks of the others.
const AT_ONCE: usize = 32;
/// The maximum number of shards per pass that may also do work that can wait.
pub(super) const DEFERRABLE_AT_ONCE: usize = 6;
/// The maximum number of batches that are fired at once. The scheduler has few connections to the
/// store, and the job rescuer and the sampling of the store's time need some of them.
const BATCHES_AT_ONCE: usize = 4;
/// The maximum number of schedules in a batch. It bounds the duration of a statement.
pub(super) const BATCH: usize = 500;
/// The time after the start of a pass from which shards are served again in it.
const AGAIN: Duration = Duration::from_millis(200);
/// The time after which a pass starts no more work, unless a call of the pass is slow.
const PASS: Duration = Duration::from_secs(1);

/// The state of one pass.
pub(super) struct LeaderPass<'a> {
    parts: LeaderParts<'a>,
    /// The shards that are not `away`. Those that are `away` are being served or wait for it.
    leaderships: &'a mut BTreeMap<ShardId, ShardLeadership>,
    away: BTreeSet<ShardId>,
    /// The fences of shards `away` for which the store reported a newer leader.
    overtaken: HashMap<ShardId, Fence>,
    fences: HashMap<ShardId, Fence>,
    pending: &'a mut PendingTicks,
    pace: &'a BatchSize,
    waiting: VecDeque<(ShardLeadership, Timestamp, ShardTurn)>,
    serving: FuturesUnordered<BoxFuture<'a, ServedShard>>,
    firing: FuturesUnordered<BoxFuture<'a, (u64, FiredBatch)>>,
    calls: RunningCalls,
    gathering: Option<Gathering>,
    report: PassReport,
}

/// A shard that has been served, and its due ticks.
struct ServedShard {
    call: u64,
    leadership: ShardLeadership,
    turn: ShardTurn,
    due: Result<Vec<(OwnedSchedule, Timestamp)>, RunError>,
}

impl<'a> LeaderPass<'a> {
    pub(super) fn new(
        parts: LeaderParts<'a>,
        leaderships: &'a mut BTreeMap<ShardId, ShardLeadership>,
        pending: &'a mut PendingTicks,
        pace: &'a BatchSize,
    ) -> Self {
        pending.release_all();
        // Ticks that an earlier pass has left have waited for the others already.
        let left = (pending.len() > 0).then(|| parts.context.clock.monotonic());
        Self {
            parts,
            leaderships,
            away: BTreeSet::new(),
            overtaken: HashMap::new(),
            fences: HashMap::new(),
            pending,
            pace,
            waiting: VecDeque::new(),
            serving: FuturesUnordered::new(),
            firing: FuturesUnordered::new(),
            calls: RunningCalls::default(),
            gathering: left.map(Gathering::over),
            report: PassReport::default(),
        }
    }

    /// Serves all shards that are not backing off, starting with number `first`, and fires their
    /// due ticks.
    pub(super) async fn run(mut self, now: Timestamp, first: usize) -> PassReport {
        let (clock, hint) = (&self.parts.context.clock, self.parts.context.queue.due_hint());
        let began = clock.monotonic();
        self.follow_terms(now);
        let mut shards: Vec<_> = self.awake(now).collect();
        let first = first % shards.len().max(1);
        shards.rotate_left(first);
        for (position, shard) in shards.into_iter().enumerate() {
            // Work that can wait must not delay firing, so only a few shards per pass may do it.
            self.line_up(shard, now, position < DEFERRABLE_AT_ONCE);
        }
        loop {
            let monotonic = clock.monotonic();
            self.release_slow(monotonic);
            let goes_on = monotonic < began + PASS || self.calls.is_any_slow(monotonic);
            if goes_on {
                self.begin();
                self.fire();
            }
            let is_idle = self.serving.is_empty() && self.firing.is_empty();
            if is_idle && (!goes_on || self.pending.len() == 0) {
                self.put_back_waiting();
                return self.report;
            }
            let next =
                self.awake(now).filter_map(|shard| Some(self.leaderships.get(&shard)?.due)).min();
            let pause = self.pause(monotonic);
            tokio::select! {
                Some(served) = self.serving.next() => self.put_back(served),
                Some((call, fired)) = self.firing.next() => self.end(call, fired),
                is_hinted = wake(clock, &hint, now.plus(AGAIN), next), if goes_on => {
                    self.go_on(clock.now(), is_hinted);
                }
                () = clock.sleep(pause) => {}
            }
        }
    }

    /// Adds the shards of new terms and drops those whose term has ended.
    fn follow_terms(&mut self, now: Timestamp) {
        let terms = self.parts.terms.borrow().clone();
        let mut gone = HashSet::new();
        self.leaderships.retain(|shard, leadership| {
            let is_there = terms.get(shard).map(|term| term.number) == Some(leadership.term.number);
            gone.extend((!is_there).then_some(*shard));
            is_there
        });
        if !gone.is_empty() {
            self.pending.forget(&gone);
        }
        for (shard, term) in terms.into_iter().filter(|(shard, _)| !self.away.contains(shard)) {
            self.leaderships
                .entry(shard)
                .or_insert_with(|| ShardLeadership::new(shard, term, now))
                .term = term;
        }
        self.fences = self.fences.drain().filter(|(shard, _)| self.away.contains(shard)).collect();
        let fences = self
            .leaderships
            .values()
            .filter_map(|leadership| Some((leadership.shard, leadership.fence()?)));
        self.fences.extend(fences);
    }

    /// Returns the shards that are neither backing off nor being served.
    fn awake(&self, now: Timestamp) -> impl Iterator<Item = ShardId> {
        let leaderships = self.leaderships.values();
        leaderships
            .filter(move |leadership| !leadership.is_backing_off(now))
            .map(|leadership| leadership.shard)
    }

    fn line_up(&mut self, shard: ShardId, now: Timestamp, may_do_deferrable: bool) {
        if let Some(leadership) = self.leaderships.remove(&shard) {
            self.away.insert(shard);
            let has_fired_all = self.pending.has_none_of(shard);
            let most = most_due(self.leaderships.len() + self.away.len());
            self.waiting.push_back((
                leadership,
                now,
                ShardTurn { may_do_deferrable, has_fired_all, most },
            ));
        }
    }

    /// Starts to serve waiting shards, up to the limit.
    fn begin(&mut self) {
        while self.serving.len() < AT_ONCE
            && let Some((mut leadership, now, turn)) = self.waiting.pop_front()
        {
            let (parts, call) = (self.parts, self.start_call(Vec::new()));
            let served = async move {
                let due = leadership.serve(parts, now, turn).await;
                ServedShard { call, leadership, turn, due }
            };
            self.serving.push(served.boxed());
        }
    }

    /// Starts to fire batches, up to the limit, once enough ticks have arrived or no more will
    /// arrive soon.
    fn fire(&mut self) {
        let size = self.pace.get();
        let clock = &self.parts.context.clock;
        while self.firing.len() < BATCHES_AT_ONCE && self.pending.len() > 0 {
            let monotonic = clock.monotonic();
            let gathering =
                self.gathering.get_or_insert_with(|| Gathering::new(monotonic, self.pending.len()));
            let is_more_to_come = !self.serving.is_empty() && monotonic < gathering.until;
            if is_more_to_come {
                return;
            }
            let mut due = self.pending.take(size);
            let (fences, others) = self.fences_of(&due);
            if !others.is_empty() {
                let (mine, gone): (Vec<_>, Vec<_>) =
                    due.into_iter().partition(|due| !others.contains(&due.shard));
                self.pending.done(&gone);
                due = mine;
            }
            if due.is_empty() {
                continue;
            }
            let (parts, call) = (self.parts, self.start_call(due.clone()));
            let now = clock.now();
            self.firing.push(async move { (call, fire(parts, fences, now, due).await) }.boxed());
        }
        if self.pending.len() == 0 {
            self.gathering = None;
        }
    }

    /// Returns the fences of the due ticks, and the shards that this replica no longer leads.
    fn fences_of(&self, due: &[DueTick]) -> (Vec<Fence>, HashSet<ShardId>) {
        let is_trusted = self.parts.context.clock.is_trusted();
        let terms = self.parts.terms.borrow();
        let shards: HashSet<ShardId> = due.iter().map(|due| due.shard).collect();
        let (mut fences, mut others) = (Vec::new(), HashSet::new());
        for shard in shards {
            match self.fences.get(&shard).filter(|_| is_trusted && terms.contains_key(&shard)) {
                Some(fence) => fences.push(*fence),
                None => drop(others.insert(shard)),
            }
        }
        (fences, others)
    }

    fn start_call(&mut self, due: Vec<DueTick>) -> u64 {
        self.calls.start(self.parts.context.clock.monotonic(), due)
    }

    fn put_back(&mut self, ServedShard { call, mut leadership, turn, due }: ServedShard) {
        self.calls.finish(call);
        let shard = leadership.shard;
        match due {
            Ok(due) => {
                self.report.served += 1;
                let has_brought_ticks = !due.is_empty();
                self.pending.add(shard, due);
                if has_brought_ticks
                    && self.firing.is_empty()
                    && let Some(gathering) = &mut self.gathering
                {
                    gathering.extend(self.parts.context.clock.monotonic(), self.pending.len());
                }
                // All batches that were being fired when this read started have ended or were
                // released. The read skipped the entries before its starting point, so the index is
                // read again as a whole.
                if !turn.has_fired_all && self.pending.has_none_of(shard) {
                    leadership.look_again(self.parts.context.clock.now());
                }
            }
            Err(error) => {
                self.report.unserved += 1;
                self.report.error = Some(error);
            }
        }
        if let Some(fence) = self.overtaken.remove(&shard)
            && leadership.fence() == Some(fence)
        {
            leadership.step_down(fence);
        }
        match leadership.fence() {
            Some(fence) => drop(self.fences.insert(shard, fence)),
            None => drop(self.fences.remove(&shard)),
        }
        self.away.remove(&shard);
        self.leaderships.insert(shard, leadership);
    }

    /// Puts back the shards whose turn did not come.
    fn put_back_waiting(&mut self) {
        for (leadership, ..) in self.waiting.drain(..) {
            self.leaderships.insert(leadership.shard, leadership);
        }
    }

    /// Processes the result of a batch.
    fn end(&mut self, call: u64, FiredBatch { due, outcome, is_slow }: FiredBatch) {
        let now = self.parts.context.clock.now();
        self.pending.done(&self.calls.finish(call));
        let shards: HashSet<ShardId> = due.iter().map(|due| due.shard).collect();
        self.pace.adapt(outcome.is_ok() && !is_slow);
        match outcome {
            Ok(fenced) => {
                self.report.fired += 1;
                for shard in shards.iter().filter(|shard| self.pending.has_none_of(**shard)) {
                    if let Some(leadership) = self.leaderships.get_mut(shard) {
                        leadership.reset_after_firing(now);
                    }
                }
                self.step_down(&fenced);
            }
            Err(error) => {
                self.report.unfired += 1;
                self.report.error = Some(error);
                self.pending.forget(&shards);
                for shard in &shards {
                    if let Some(leadership) = self.leaderships.get_mut(shard) {
                        leadership.fail(self.parts);
                    }
                }
            }
        }
    }

    fn step_down(&mut self, fenced: &[Fence]) {
        if fenced.is_empty() {
            return;
        }
        for fence in fenced {
            self.fences.remove(&fence.shard);
            match self
                .leaderships
                .get_mut(&fence.shard)
                .filter(|leadership| leadership.fence() == Some(*fence))
            {
                Some(leadership) => leadership.step_down(*fence),
                None => drop(self.overtaken.insert(fence.shard, *fence)),
            }
        }
        self.pending.forget(&fenced.iter().map(|fence| fence.shard).collect());
    }

    /// Releases the ticks of slow batches, so that another batch tries them.
    fn release_slow(&mut self, monotonic: Duration) {
        let now = self.parts.context.clock.now();
        let due = self.calls.release_slow(monotonic);
        self.pending.done(&due);
        for DueTick { shard, .. } in due {
            if let Some(leadership) = self
                .leaderships
                .get_mut(&shard)
                .filter(|leadership| !leadership.is_backing_off(now))
            {
                leadership.look_again(now);
            }
        }
    }

    /// Returns the time until the next step that does not depend on a running call.
    fn pause(&self, monotonic: Duration) -> Duration {
        let gather = self.gathering.filter(|_| self.firing.len() < BATCHES_AT_ONCE);
        let gather = gather.map(|gathering| gathering.until).filter(|until| *until > monotonic);
        let next = self.calls.next_slow(monotonic).into_iter().chain(gather).min();
        next.map_or(SLOW_AFTER, |next| next.saturating_sub(monotonic))
    }

    /// Serves the shards again that are due, or all of them after a hint.
    fn go_on(&mut self, now: Timestamp, is_hinted: bool) {
        if is_hinted {
            self.report.is_hinted = true;
            self.follow_terms(now);
        }
        let is_due = |shard: &ShardId| is_hinted || self.leaderships[shard].due <= now;
        let shards: Vec<_> = self.awake(now).filter(is_due).collect();
        for shard in shards {
            self.line_up(shard, now, false);
        }
    }
}

/// Waits until `from`, and then for `next` or a hint. Returns `true` for a hint.
async fn wake(clock: &Clock, hint: &Notify, from: Timestamp, next: Option<Timestamp>) -> bool {
    clock.sleep_until(from).await;
    let due = async {
        match next {
            Some(next) => clock.sleep_until(next).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = hint.notified() => true,
        () = due => false,
    }
}
