//! Measures how long background loops have been overdue.
//!
//! Each loop reports the start of a pass, and after the pass the due time of the next one. When the
//! metrics are shown, the delay is computed from the last report. A loop that hangs in a pass, or
//! whose task is not scheduled, reports nothing, so its delay grows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::{LOOP_IDLE_SECONDS, Label, Loop};

/// The loops of the process, each with the instant at which it is due.
static LOOPS: Mutex<Vec<(Loop, Weak<AtomicU64>)>> = Mutex::new(Vec::new());

/// The heartbeat of one loop. The loop is no longer measured once this is dropped.
pub struct LoopHeartbeat(Arc<AtomicU64>);

impl LoopHeartbeat {
    /// Registers a loop that starts its first pass at `now`, on the monotonic clock.
    pub fn start(kind: Loop, now: Duration) -> Self {
        let due = Arc::new(AtomicU64::new(millis(now)));
        let mut loops = LOOPS.lock().unwrap_or_else(PoisonError::into_inner);
        loops.retain(|(_, due)| due.strong_count() > 0);
        loops.push((kind, Arc::downgrade(&due)));
        Self(due)
    }

    /// Reports that a pass starts or is due at `at`, on the monotonic clock.
    pub fn due(&self, at: Duration) {
        self.0.store(millis(at), Ordering::Relaxed);
    }
}

fn millis(at: Duration) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
}

/// Sets the gauge to the delay at `now`. Of several loops of one kind, the longest delay counts.
pub(super) fn refresh(now: Duration) {
    let now = millis(now);
    let mut late = [0; <Loop as Label>::COUNT];
    for (kind, due) in LOOPS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        if let Some(due) = due.upgrade() {
            let late = &mut late[kind.value_index()];
            *late = now.saturating_sub(due.load(Ordering::Relaxed)).max(*late);
        }
    }
    for (index, late) in late.into_iter().enumerate() {
        LOOP_IDLE_SECONDS.set_at(index, Duration::from_millis(late).as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::install;

    #[test]
    fn a_loop_is_idle_from_when_it_should_have_begun() {
        let exporter = install();
        let read = || {
            let text = exporter.render();
            let line = text.lines().find_map(|line| {
                line.strip_prefix("punctual_loop_idle_seconds{loop=\"renewer\"} ")
            });
            line.expect("the loop is measured").parse::<f64>().expect("a number")
        };
        let second = Duration::from_secs(1);
        let beat = LoopHeartbeat::start(Loop::Renewer, second * 10);
        refresh(second * 13);
        assert!((read() - 3.0).abs() < 1e-9, "a pass takes three seconds");
        beat.due(second * 20);
        refresh(second * 15);
        assert!(read() < 1e-9, "it pauses as it means to");
        refresh(second * 24);
        assert!((read() - 4.0).abs() < 1e-9);
        drop(beat);
        refresh(second * 99);
        assert!(read() < 1e-9, "it has ended");
    }
}
