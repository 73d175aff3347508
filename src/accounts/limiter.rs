//! How many calls a subject may make.

use std::time::Duration;

use super::local_counters::LocalCounters;
use super::shared_counters::SharedCounters;
use crate::domain::Timestamp;
use crate::domain::plan::Plan;
use crate::queue::{SharedQueue, Standing, Verdict, Window};

/// How many calls a key, or a client address without one, may make in each of the two windows.
/// 0 switches a window off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// In a minute.
    pub per_minute: u32,
    /// In an hour.
    pub per_hour: u32,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self { per_minute: 100, per_hour: 1_000 }
    }
}

/// The windows that are switched on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Windows(Vec<Window>);

impl Windows {
    pub(super) fn of(limits: RateLimits) -> Self {
        let minute = Window { span: Duration::from_secs(60), limit: limits.per_minute };
        let hour = Window { span: Duration::from_secs(3_600), limit: limits.per_hour };
        Self([minute, hour].into_iter().filter(|window| window.limit > 0).collect())
    }
}

/// Whether a call is let through, and what its caller is told of the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Whether every window has room.
    pub allowed: bool,
    /// Where the caller stands in the window that is nearer to exhaustion; absent if no window is
    /// switched on.
    pub standing: Option<Standing>,
}

/// Counts calls over all replicas, in fixed windows: a caller that spends one window at its end
/// and the next at its start makes up to twice the calls in a short time, never more.
pub struct RateLimiter {
    queue: SharedQueue,
    limits: RateLimits,
    windows: Windows,
    local: LocalCounters,
    shared: SharedCounters,
}

impl RateLimiter {
    /// Counts in `queue`.
    pub fn new(queue: SharedQueue, limits: RateLimits) -> Self {
        let windows = Windows::of(limits);
        let (local, shared) = (LocalCounters::default(), SharedCounters::default());
        Self { queue, limits, windows, local, shared }
    }

    /// How many calls a key may make whose account is on this plan.
    pub fn limits_of(&self, plan: &Plan) -> RateLimits {
        RateLimits {
            per_minute: plan.requests_per_minute.unwrap_or(self.limits.per_minute),
            per_hour: plan.requests_per_hour.unwrap_or(self.limits.per_hour),
        }
    }

    /// Counts a call of a key, unless one of its windows is full.
    pub(super) async fn count(&self, key: &str, windows: &Windows, now: Timestamp) -> Admission {
        self.ask(key, &windows.0, windows.0.len(), now).await
    }

    /// Counts a call of a subject without a plan, such as a client address without a valid key,
    /// unless a window is full.
    pub(super) async fn count_subject(&self, subject: &str, now: Timestamp) -> Admission {
        self.count(subject, &self.windows, now).await
    }

    /// Takes back a call of a subject that was counted. One that cannot be taken back stays counted.
    pub(super) async fn give_back(&self, subject: &str, now: Timestamp) {
        let asked = self.queue.give_back(subject, &self.windows.0, now);
        if self.shared.ask(now, asked).await.is_none() {
            self.local.give_back(subject, &self.windows.0, now);
        }
    }

    /// Whether a call without a valid key could be made from a client address, without counting
    /// one.
    pub(super) async fn peek_subject(&self, address: &str, now: Timestamp) -> Admission {
        let Some(first) = self.windows.0.first() else {
            return self.count_subject(address, now).await;
        };
        // Nothing is counted anywhere if one window is full, and one that takes nothing always is.
        let mut windows = self.windows.0.clone();
        windows.push(Window { span: first.span, limit: 0 });
        let asked = self.ask(address, &windows, self.windows.0.len(), now).await;
        let room = asked.standing.is_some_and(|standing| standing.remaining > 0);
        Admission { allowed: room, ..asked }
    }

    /// The caller is told of the first `shown` windows.
    async fn ask(
        &self,
        subject: &str,
        windows: &[Window],
        shown: usize,
        now: Timestamp,
    ) -> Admission {
        if windows.is_empty() {
            return Admission { allowed: true, standing: None };
        }
        let verdict = self.shared.ask(now, self.queue.count(subject, windows, now)).await;
        let verdict = verdict.unwrap_or_else(|| self.local.count(subject, windows, now));
        Admission { allowed: verdict.allowed, standing: nearest(&verdict, shown) }
    }
}

/// The window with the fewest calls left; of equal ones the one that takes longer to renew.
fn nearest(verdict: &Verdict, shown: usize) -> Option<Standing> {
    let shown = verdict.standings.iter().take(shown);
    shown.min_by(|a, b| a.remaining.cmp(&b.remaining).then(b.resets_at.cmp(&a.resets_at))).copied()
}
