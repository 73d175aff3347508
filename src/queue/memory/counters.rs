//! Counters of requests in windows that begin with a subject's first request.

use std::collections::HashMap;

use crate::domain::Timestamp;
use crate::queue::{RateVerdict, RateWindow, WindowState};

/// The minimum number of counters at which those of past windows are removed.
const MIN_COUNTERS: usize = 1_024;

/// Counters by subject and window.
#[derive(Default)]
pub(super) struct Counters {
    counters: HashMap<(String, u64), WindowCounter>,
    clean_at: usize,
}

struct WindowCounter {
    resets_at: Timestamp,
    used: u32,
}

impl Counters {
    pub(super) fn count(
        &mut self,
        subject: &str,
        windows: &[RateWindow],
        now: Timestamp,
    ) -> RateVerdict {
        let mut window_states: Vec<_> =
            windows.iter().map(|window| self.window_state(subject, *window, now)).collect();
        let allowed = window_states.iter().all(|window_state| window_state.remaining > 0);
        if allowed {
            for window_state in &mut window_states {
                window_state.remaining -= 1;
                self.add(subject, window_state, now);
            }
        }
        RateVerdict { window_states, allowed }
    }

    pub(super) fn give_back(&mut self, subject: &str, windows: &[RateWindow], now: Timestamp) {
        for window in windows {
            let counter = self.counters.get_mut(&key(subject, *window));
            if let Some(counter) = counter.filter(|counter| counter.resets_at > now) {
                counter.used = counter.used.saturating_sub(1);
            }
        }
    }

    fn window_state(&self, subject: &str, window: RateWindow, now: Timestamp) -> WindowState {
        let counter = self.counters.get(&key(subject, window));
        match counter.filter(|counter| counter.resets_at > now) {
            Some(counter) => {
                let remaining = window.limit.saturating_sub(counter.used);
                WindowState { window, remaining, resets_at: counter.resets_at }
            }
            None => {
                WindowState { window, remaining: window.limit, resets_at: now.plus(window.span) }
            }
        }
    }

    fn add(&mut self, subject: &str, window_state: &WindowState, now: Timestamp) {
        let resets_at = window_state.resets_at;
        let counter = self
            .counters
            .entry(key(subject, window_state.window))
            .or_insert(WindowCounter { resets_at, used: 0 });
        if counter.resets_at != resets_at {
            *counter = WindowCounter { resets_at, used: 0 };
        }
        counter.used += 1;
        if self.counters.len() > self.clean_at.max(MIN_COUNTERS) {
            self.counters.retain(|_, counter| counter.resets_at > now);
            self.clean_at = self.counters.len() * 2;
        }
    }
}

fn key(subject: &str, window: RateWindow) -> (String, u64) {
    (subject.to_owned(), window.span.as_secs())
}
