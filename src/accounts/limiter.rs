//! How many calls a subject may make.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::local_counters::LocalCounters;
use crate::domain::Timestamp;
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
    windows: Vec<Window>,
    local: LocalCounters,
    alone: AtomicBool,
}

impl RateLimiter {
    /// Counts in `queue`.
    pub fn new(queue: SharedQueue, limits: RateLimits) -> Self {
        let minute = Window { span: Duration::from_secs(60), limit: limits.per_minute };
        let hour = Window { span: Duration::from_secs(3_600), limit: limits.per_hour };
        let windows = [minute, hour].into_iter().filter(|window| window.limit > 0).collect();
        Self { queue, windows, local: LocalCounters::default(), alone: AtomicBool::new(false) }
    }

    /// Counts a call of `subject`, unless a window is full.
    pub async fn count(&self, subject: &str, now: Timestamp) -> Admission {
        self.ask(subject, &self.windows, now).await
    }

    /// Whether `subject` could make a call, without counting one.
    pub async fn peek(&self, subject: &str, now: Timestamp) -> Admission {
        let Some(first) = self.windows.first() else { return self.count(subject, now).await };
        // Nothing is counted anywhere if one window is full, and one that takes nothing always is.
        let mut windows = self.windows.clone();
        windows.push(Window { span: first.span, limit: 0 });
        let asked = self.ask(subject, &windows, now).await;
        let room = asked.standing.is_some_and(|standing| standing.remaining > 0);
        Admission { allowed: room, ..asked }
    }

    async fn ask(&self, subject: &str, windows: &[Window], now: Timestamp) -> Admission {
        if windows.is_empty() {
            return Admission { allowed: true, standing: None };
        }
        let verdict = match self.queue.count(subject, windows, now).await {
            Ok(verdict) => {
                if self.alone.swap(false, Ordering::Relaxed) {
                    tracing::info!("calls are counted over all replicas again");
                }
                verdict
            }
            Err(error) => {
                if !self.alone.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "calls are counted by this replica alone");
                }
                self.local.count(subject, windows, now)
            }
        };
        Admission { allowed: verdict.allowed, standing: self.nearest(&verdict) }
    }

    /// The window with the fewest calls left; of equal ones the one that takes longer to renew.
    fn nearest(&self, verdict: &Verdict) -> Option<Standing> {
        let own = verdict.standings.iter().take(self.windows.len());
        own.min_by(|a, b| a.remaining.cmp(&b.remaining).then(b.resets_at.cmp(&a.resets_at)))
            .copied()
    }
}
