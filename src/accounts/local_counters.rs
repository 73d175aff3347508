//! Rate-limit counters of this process alone, used while the shared counters are unavailable.

use std::collections::HashMap;
use std::time::Duration;

use crate::domain::Timestamp;
use crate::queue::{RateVerdict, RateWindow, WindowState};
use crate::runtime::Mutex;

/// The maximum number of subjects per window; all further subjects share one count.
const SUBJECTS: usize = 50_000;
/// The name of the shared count; no subject has this name.
const OTHERS: &str = "";

/// Counters in fixed windows that are aligned to the Unix epoch.
#[derive(Default)]
pub(super) struct LocalCounters {
    spans: Mutex<HashMap<Duration, WindowCounts>>,
}

/// The counts of a window's current period.
#[derive(Default)]
struct WindowCounts {
    period: i64,
    counts: HashMap<String, u32>,
}

impl LocalCounters {
    /// Counts a call in all windows, or in none if one is full.
    pub(super) fn count(
        &self,
        subject: &str,
        windows: &[RateWindow],
        now: Timestamp,
    ) -> RateVerdict {
        let mut spans = self.spans.lock();
        let mut window_states: Vec<_> =
            windows.iter().map(|window| window_state(&mut spans, subject, *window, now)).collect();
        let allowed = window_states.iter().all(|window_state| window_state.remaining > 0);
        if allowed {
            for window_state in &mut window_states {
                window_state.remaining -= 1;
                if let Some(span) = spans.get_mut(&window_state.window.span) {
                    span.add(subject);
                }
            }
        }
        RateVerdict { window_states, allowed }
    }

    /// Subtracts a counted call from the current period of each window.
    pub(super) fn give_back(&self, subject: &str, windows: &[RateWindow], now: Timestamp) {
        let mut spans = self.spans.lock();
        for window in windows {
            let (_, span) = present(&mut spans, *window, now);
            span.give_back(subject);
        }
    }
}

impl WindowCounts {
    fn name<'a>(&self, subject: &'a str) -> &'a str {
        let known = self.counts.contains_key(subject);
        if known || self.counts.len() < SUBJECTS { subject } else { OTHERS }
    }

    fn used(&self, subject: &str) -> u32 {
        self.counts.get(self.name(subject)).copied().unwrap_or(0)
    }

    fn give_back(&mut self, subject: &str) {
        if let Some(count) = self.counts.get_mut(self.name(subject)) {
            *count = count.saturating_sub(1);
        }
    }

    fn add(&mut self, subject: &str) {
        *self.counts.entry(self.name(subject).to_owned()).or_default() += 1;
    }
}

fn window_state(
    spans: &mut HashMap<Duration, WindowCounts>,
    subject: &str,
    window: RateWindow,
    now: Timestamp,
) -> WindowState {
    let (resets_at, span) = present(spans, window, now);
    WindowState { window, remaining: window.limit.saturating_sub(span.used(subject)), resets_at }
}

/// Returns the counts of a window's current period and the end of that period.
fn present(
    spans: &mut HashMap<Duration, WindowCounts>,
    window: RateWindow,
    now: Timestamp,
) -> (Timestamp, &mut WindowCounts) {
    let span_ms = i64::try_from(window.span.as_millis()).unwrap_or(i64::MAX).max(1);
    let period = now.as_millis() / span_ms;
    let span = spans.entry(window.span).or_default();
    if span.period != period {
        *span = WindowCounts { period, counts: HashMap::new() };
    }
    (Timestamp::from_millis((period + 1).saturating_mul(span_ms)), span)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: RateWindow = RateWindow { span: Duration::from_secs(60), limit: 2 };
    const HOUR: RateWindow = RateWindow { span: Duration::from_secs(3_600), limit: 3 };

    fn remaining(verdict: &RateVerdict) -> Vec<u32> {
        verdict.window_states.iter().map(|window_state| window_state.remaining).collect()
    }

    #[test]
    fn a_refused_call_is_counted_in_no_window() {
        let counters = LocalCounters::default();
        let start = Timestamp::from_millis(7_200_000);
        assert_eq!(remaining(&counters.count("a", &[MINUTE, HOUR], start)), [1, 2]);
        assert_eq!(remaining(&counters.count("a", &[MINUTE, HOUR], start)), [0, 1]);
        let refused = counters.count("a", &[MINUTE, HOUR], start);
        assert!(!refused.allowed);
        assert_eq!(remaining(&refused), [0, 1], "the refused call is not counted in the hour");
        assert_eq!(remaining(&counters.count("b", &[MINUTE, HOUR], start)), [1, 2]);
        let next = start.plus(Duration::from_secs(60));
        assert_eq!(remaining(&counters.count("a", &[MINUTE, HOUR], next)), [1, 0]);
        assert!(!counters.count("a", &[MINUTE, HOUR], next).allowed);
        counters.give_back("a", &[MINUTE, HOUR], next);
        counters.give_back("nobody", &[MINUTE, HOUR], next);
        assert_eq!(remaining(&counters.count("a", &[MINUTE, HOUR], next)), [1, 0]);
    }

    #[test]
    fn the_number_of_subjects_is_bounded() {
        let counters = LocalCounters::default();
        let now = Timestamp::from_millis(0);
        for subject in 0..SUBJECTS {
            assert!(counters.count(&subject.to_string(), &[MINUTE], now).allowed);
        }
        assert!(counters.count("late", &[MINUTE], now).allowed);
        assert!(counters.count("later", &[MINUTE], now).allowed);
        assert!(!counters.count("latest", &[MINUTE], now).allowed, "they share one count");
        assert!(counters.count("0", &[MINUTE], now).allowed, "an old one keeps its own");
    }
}
