//! Gauges that are computed when they are shown, from values that were stored before.

use std::sync::atomic::{AtomicI64, Ordering};

use metrics::Recorder;

use super::LabelSet;
use super::handles::{Gauge, Metric, MetricDefinition};
use crate::domain::Timestamp;

/// The stored values from which a gauge is computed.
pub(super) trait GaugeValues: Sync {
    /// Returns the value of the series at `index` as of `now`.
    fn value(&self, index: usize, now: Timestamp) -> f64;
}

/// A gauge that is computed when it is shown.
pub struct Computed<L: LabelSet, V> {
    gauge: Gauge<L>,
    values: V,
}

impl<L: LabelSet, V: GaugeValues> Metric for Computed<L, V> {
    fn definition(&self) -> MetricDefinition {
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
        for index in 0..L::COUNT {
            self.gauge.set_at(index, self.values.value(index, now));
        }
    }
}

/// The seconds left until an end, negative after it, and NaN where no end is known. The value keeps
/// falling even if no code updates it any more.
pub type Countdown<L = ()> = Computed<L, CountdownEnds>;

/// The maximum number of series of a countdown.
const MAX_SERIES: usize = 8;
/// The stored value for an end that is unknown or does not exist.
const NEVER: i64 = i64::MAX;

/// The ends of a countdown, in milliseconds since 1970.
pub struct CountdownEnds([AtomicI64; MAX_SERIES]);

impl<L: LabelSet> Countdown<L> {
    pub(super) const fn new(definition: MetricDefinition) -> Self {
        assert!(L::COUNT <= MAX_SERIES, "too many series");
        let values = CountdownEnds([const { AtomicI64::new(NEVER) }; MAX_SERIES]);
        Self { gauge: Gauge::new(definition), values }
    }

    /// Sets the end of the series with these labels. `None` means that there is no end.
    pub fn end(&self, labels: L, at: Option<Timestamp>) {
        let at = at.map_or(NEVER, Timestamp::as_millis);
        self.values.0[labels.index()].store(at, Ordering::Relaxed);
    }
}

impl GaugeValues for CountdownEnds {
    fn value(&self, index: usize, now: Timestamp) -> f64 {
        match self.0[index].load(Ordering::Relaxed) {
            NEVER => f64::NAN,
            #[expect(clippy::cast_precision_loss, reason = "seconds, to the millisecond")]
            end => end.saturating_sub(now.as_millis()) as f64 / 1_000.0,
        }
    }
}

/// The maximum of all values that were passed to `raise_to`, at least 0.
pub type Peak = Computed<(), HighestValue>;

/// The stored value of a [`Peak`], which never falls.
pub struct HighestValue(AtomicI64);

impl Peak {
    pub(super) const fn new(definition: MetricDefinition) -> Self {
        Self { gauge: Gauge::new(definition), values: HighestValue(AtomicI64::new(0)) }
    }

    /// Raises the value to `value`, unless it is already higher.
    pub fn raise_to(&self, value: i64) {
        self.values.0.fetch_max(value, Ordering::Relaxed);
    }
}

impl GaugeValues for HighestValue {
    fn value(&self, _: usize, _: Timestamp) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
        let highest = self.0.load(Ordering::Relaxed) as f64;
        highest
    }
}

#[cfg(test)]
mod tests {
    use super::super::CertificateUse;
    use super::*;

    const DEFINITION: MetricDefinition =
        MetricDefinition { name: "punctual_test", help: "A test." };

    #[test]
    fn a_countdown_falls_below_zero_until_its_end_is_taken_back() {
        let countdown: Countdown<CertificateUse> = Countdown::new(DEFINITION);
        let at = |ms| Timestamp::from_millis(ms);
        let left = |now| countdown.values.value(CertificateUse::Store.index(), at(now));
        assert!(left(0).is_nan());
        countdown.end(CertificateUse::Store, Some(at(10_000)));
        assert!((left(7_500) - 2.5).abs() < 1e-9);
        assert!((left(11_000) + 1.0).abs() < 1e-9);
        assert!(countdown.values.value(CertificateUse::Mail.index(), at(0)).is_nan());
        countdown.end(CertificateUse::Store, None);
        assert!(left(0).is_nan());
    }

    #[test]
    fn a_peak_stays() {
        let peak = Peak::new(DEFINITION);
        for value in [3, 7, 5] {
            peak.raise_to(value);
        }
        assert!((peak.values.value(0, Timestamp::from_millis(0)) - 7.0).abs() < 1e-9);
    }
}
