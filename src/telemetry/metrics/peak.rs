//! A gauge that shows the highest value there has been.

use std::sync::atomic::{AtomicI64, Ordering};

use metrics::Recorder;

use super::handles::{Definition, Gauge, Metric};

/// The highest of all values that it was raised to, or 0.
pub struct Peak {
    gauge: Gauge,
    highest: AtomicI64,
}

impl Peak {
    pub(super) const fn new(definition: Definition) -> Self {
        Self { gauge: Gauge::new(definition), highest: AtomicI64::new(0) }
    }

    /// Raises it to `value`, unless it is higher.
    pub fn raise_to(&self, value: i64) {
        self.highest.fetch_max(value, Ordering::Relaxed);
    }
}

impl Metric for Peak {
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

    fn refresh(&self, _now: crate::domain::Timestamp) {
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
        self.gauge.set_to(self.highest.load(Ordering::Relaxed) as f64);
    }
}
