//! One round of the leader: all its shards are served, some at once.
//!
//! Those that cannot be served rest, ever longer, and keep no other from firing. Nor does one that
//! takes long: while the round waits for it, the others are served again when they are due.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::Notify;

use super::led::{Led, Parts};
use crate::domain::Timestamp;
use crate::domain::shard::ShardId;
use crate::runtime::{Clock, RunError};

/// The most shards served at once: each is a chain of short round trips, and the scheduler's few
/// connections to the store have to do for the sweep and the time too.
pub(super) const AT_ONCE: usize = 6;
/// From when on a round has taken long, and a shard in it.
const SLOW: Duration = Duration::from_millis(200);

/// A round.
pub(super) struct Round<'a> {
    parts: Parts<'a>,
    /// The shards but those `away`, which are being served or about to be.
    led: &'a mut BTreeMap<ShardId, Led>,
    away: BTreeSet<ShardId>,
    waiting: VecDeque<Turn>,
    serving: FuturesUnordered<BoxFuture<'a, Served>>,
    /// How many have yet to be served for the first time: the round ends with them.
    firsts: usize,
    /// Those that took long, and are not served again in this round.
    slow: BTreeSet<ShardId>,
    report: Report,
}

/// What has come of a round.
#[derive(Default)]
pub(super) struct Report {
    /// How often a shard has been served.
    pub(super) served: usize,
    /// Why it could not be.
    pub(super) failed: Vec<RunError>,
    /// Whether a hint has come that not all may have seen.
    pub(super) is_hinted: bool,
}

/// A shard that waits to be served.
struct Turn {
    led: Led,
    now: Timestamp,
    is_first: bool,
    /// Whether it may do what can wait too.
    is_long: bool,
}

/// One that has been served.
struct Served {
    led: Led,
    outcome: Result<(), RunError>,
    is_first: bool,
    is_slow: bool,
}

impl<'a> Round<'a> {
    pub(super) fn new(parts: Parts<'a>, led: &'a mut BTreeMap<ShardId, Led>) -> Self {
        Self {
            parts,
            led,
            away: BTreeSet::new(),
            waiting: VecDeque::new(),
            serving: FuturesUnordered::new(),
            firsts: 0,
            slow: BTreeSet::new(),
            report: Report::default(),
        }
    }

    /// Serves all that do not rest, beginning with the `first`.
    pub(super) async fn run(mut self, now: Timestamp, first: usize) -> Report {
        let (clock, hint) = (&self.parts.context.clock, self.parts.context.queue.due_hint());
        self.follow_terms(now);
        let mut shards: Vec<_> = self.awake(now).collect();
        let first = first % shards.len().max(1);
        shards.rotate_left(first);
        self.firsts = shards.len();
        for (place, shard) in shards.into_iter().enumerate() {
            // What can wait must not make firing wait: as much as is done at once, and no more.
            self.line_up(shard, now, true, place < AT_ONCE);
        }
        loop {
            self.begin();
            let next = self.awake(now).filter_map(|shard| Some(self.led.get(&shard)?.due)).min();
            tokio::select! {
                served = self.serving.next() => match served {
                    Some(served) => self.put_back(served),
                    None => return self.report,
                },
                is_hinted = wake(clock, &hint, now.plus(SLOW), next), if self.firsts > 0 => {
                    self.go_on(clock.now(), is_hinted);
                }
            }
        }
    }

    /// Begins with the shards of new terms and lets go of those whose term has ended.
    fn follow_terms(&mut self, now: Timestamp) {
        let terms = self.parts.terms.borrow().clone();
        self.led
            .retain(|shard, led| terms.get(shard).map(|term| term.number) == Some(led.term.number));
        for (shard, term) in terms.into_iter().filter(|(shard, _)| !self.away.contains(shard)) {
            self.led.entry(shard).or_insert_with(|| Led::new(shard, term, now)).term = term;
        }
    }

    /// The shards that can be served.
    fn awake(&self, now: Timestamp) -> impl Iterator<Item = ShardId> {
        let led = self.led.values();
        let awake = led.filter(move |led| !led.rests(now) && !self.slow.contains(&led.shard));
        awake.map(|led| led.shard)
    }

    fn line_up(&mut self, shard: ShardId, now: Timestamp, is_first: bool, is_long: bool) {
        if let Some(led) = self.led.remove(&shard) {
            self.away.insert(shard);
            self.waiting.push_back(Turn { led, now, is_first, is_long });
        }
    }

    /// Begins to serve as many as can be at once.
    fn begin(&mut self) {
        while self.serving.len() < AT_ONCE
            && let Some(turn) = self.waiting.pop_front()
        {
            self.serving.push(serve(self.parts, turn).boxed());
        }
    }

    fn put_back(&mut self, Served { led, outcome, is_first, is_slow }: Served) {
        self.report.served += 1;
        self.report.failed.extend(outcome.err());
        self.firsts -= usize::from(is_first);
        if is_slow {
            self.slow.insert(led.shard);
        }
        self.away.remove(&led.shard);
        self.led.insert(led.shard, led);
    }

    /// Serves those again that are due, or all if there may be something new in any.
    fn go_on(&mut self, now: Timestamp, is_hinted: bool) {
        if is_hinted {
            self.report.is_hinted = true;
            self.follow_terms(now);
        }
        let is_due = |shard: &ShardId| is_hinted || self.led[shard].due <= now;
        let shards: Vec<_> = self.awake(now).filter(is_due).collect();
        for shard in shards {
            self.line_up(shard, now, false, false);
        }
    }
}

async fn serve(parts: Parts<'_>, Turn { mut led, now, is_first, is_long }: Turn) -> Served {
    let clock = &parts.context.clock;
    let began = clock.monotonic();
    let outcome = led.serve(parts, now, is_long).await;
    let is_slow = clock.monotonic().saturating_sub(began) >= SLOW;
    Served { led, outcome, is_first, is_slow }
}

/// Waits from then on for the next instant or for a hint; says whether there is one.
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
