//! The rate limiter for API calls and sign-in attempts.

use std::time::Duration;

use super::local_counters::LocalCounters;
use super::shared_counters::SharedCounters;
use crate::domain::Timestamp;
use crate::domain::plan::Plan;
use crate::queue::{RateVerdict, RateWindow, SharedQueue, WindowState};

/// The rate limits of a key, or of a client address without a valid key. 0 disables a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// The maximum number of calls per minute.
    pub per_minute: u32,
    /// The maximum number of calls per hour.
    pub per_hour: u32,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self { per_minute: 100, per_hour: 1_000 }
    }
}

/// The enabled windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RateWindows(Vec<RateWindow>);

impl RateWindows {
    pub(super) fn of(limits: RateLimits) -> Self {
        let minute = RateWindow { span: Duration::from_secs(60), limit: limits.per_minute };
        let hour = RateWindow { span: Duration::from_secs(3_600), limit: limits.per_hour };
        Self([minute, hour].into_iter().filter(|window| window.limit > 0).collect())
    }
}

/// The decision on a call and the limit state that is reported to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// `true` if every window has capacity.
    pub allowed: bool,
    /// The state of the window that is closest to exhaustion; absent if no window is enabled.
    pub window_state: Option<WindowState>,
}

/// Counts calls over all replicas in fixed windows. A caller that uses up one window at its end and
/// the next one at its start can make up to twice the limit in a short time, never more.
pub struct RateLimiter {
    queue: SharedQueue,
    limits: RateLimits,
    windows: RateWindows,
    local: LocalCounters,
    shared: SharedCounters,
}

impl RateLimiter {
    /// Creates a limiter that counts in `queue`.
    pub fn new(queue: SharedQueue, limits: RateLimits) -> Self {
        let windows = RateWindows::of(limits);
        let (local, shared) = (LocalCounters::default(), SharedCounters::default());
        Self { queue, limits, windows, local, shared }
    }

    /// Returns the limits of a key whose account has this plan.
    pub fn limits_of(&self, plan: &Plan) -> RateLimits {
        RateLimits {
            per_minute: plan.requests_per_minute.unwrap_or(self.limits.per_minute),
            per_hour: plan.requests_per_hour.unwrap_or(self.limits.per_hour),
        }
    }

    /// Counts a call of a key, unless one of its windows is full.
    pub(super) async fn count(
        &self,
        key: &str,
        windows: &RateWindows,
        now: Timestamp,
    ) -> Admission {
        self.ask(key, &windows.0, windows.0.len(), now).await
    }

    /// Counts a call of a subject without a plan, such as a client address without a valid key,
    /// unless a window is full.
    pub(super) async fn count_subject(&self, subject: &str, now: Timestamp) -> Admission {
        self.count(subject, &self.windows, now).await
    }

    /// Subtracts a call that was counted for a subject. If the shared counters cannot be reached,
    /// the call stays counted there.
    pub(super) async fn give_back(&self, subject: &str, now: Timestamp) {
        let asked = self.queue.give_back(subject, &self.windows.0, now);
        if self.shared.ask(now, asked).await.is_none() {
            self.local.give_back(subject, &self.windows.0, now);
        }
    }

    /// Returns the admission that a call from a client address would get, without counting a call.
    pub(super) async fn peek_subject(&self, address: &str, now: Timestamp) -> Admission {
        let Some(first) = self.windows.0.first() else {
            return self.count_subject(address, now).await;
        };
        // A call is counted in no window if one window is full. A window with limit 0 is always
        // full.
        let mut windows = self.windows.0.clone();
        windows.push(RateWindow { span: first.span, limit: 0 });
        let asked = self.ask(address, &windows, self.windows.0.len(), now).await;
        let allowed = asked.window_state.is_some_and(|window_state| window_state.remaining > 0);
        Admission { allowed, ..asked }
    }

    /// Counts a call. The reported window_state considers only the first `shown` windows.
    async fn ask(
        &self,
        subject: &str,
        windows: &[RateWindow],
        shown: usize,
        now: Timestamp,
    ) -> Admission {
        if windows.is_empty() {
            return Admission { allowed: true, window_state: None };
        }
        let verdict = self.shared.ask(now, self.queue.count(subject, windows, now)).await;
        let verdict = verdict.unwrap_or_else(|| self.local.count(subject, windows, now));
        Admission { allowed: verdict.allowed, window_state: nearest(&verdict, shown) }
    }
}

/// Returns the window with the fewest remaining calls; of equal ones, the one that resets later.
fn nearest(verdict: &RateVerdict, shown: usize) -> Option<WindowState> {
    let shown = verdict.window_states.iter().take(shown);
    shown.min_by(|a, b| a.remaining.cmp(&b.remaining).then(b.resets_at.cmp(&a.resets_at))).copied()
}
