//! Gauges of the time that is left until something ends. They are computed when they are shown, so
//! that they fall even if nothing tells anything any more.

use std::sync::atomic::{AtomicI64, Ordering};

use metrics::Recorder;

use super::LabelSet;
use super::handles::{Definition, Gauge, Metric};
use crate::domain::Timestamp;

/// The most series of a countdown.
const MOST: usize = 8;
/// The end of what has none, or is not known to.
const NEVER: i64 = i64::MAX;

/// Seconds that are left, below zero afterwards; NaN where no end is known.
pub struct Countdown<L: LabelSet = ()> {
    gauge: Gauge<L>,
    /// In milliseconds since 1970.
    ends: [AtomicI64; MOST],
}

impl<L: LabelSet> Countdown<L> {
    pub(super) const fn new(definition: Definition) -> Self {
        assert!(L::COUNT <= MOST, "too many series");
        Self { gauge: Gauge::new(definition), ends: [const { AtomicI64::new(NEVER) }; MOST] }
    }

    /// What these labels name ends then.
    pub fn end(&self, labels: L, at: Timestamp) {
        self.ends[labels.index()].store(at.as_millis(), Ordering::Relaxed);
    }
}

impl<L: LabelSet> Metric for Countdown<L> {
    fn definition(&self) -> Definition {
        self.gauge.definition()
    }

    fn kind(&self) -> &'static str {
        self.gauge.kind()
    }

    fn labels(&self) -> Vec<Vec<metrics::Label>> {
        self.gauge.labels()
    }

    fn register(&self, recorder: &dyn Recorder) {
        self.gauge.register(recorder);
    }

    fn refresh(&self, now: Timestamp) {
        for (index, end) in self.ends.iter().enumerate().take(L::COUNT) {
            let left = match end.load(Ordering::Relaxed) {
                NEVER => f64::NAN,
                #[expect(clippy::cast_precision_loss, reason = "seconds, to the millisecond")]
                end => end.saturating_sub(now.as_millis()) as f64 / 1_000.0,
            };
            self.gauge.set_at(index, left);
        }
    }
}
