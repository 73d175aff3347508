//! The three types of metrics. They are constants, and recording costs one atomic operation.

use std::marker::PhantomData;
use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Key, Metadata, Recorder};

use super::LabelSet;
use crate::domain::Timestamp;

/// The static description of a metric.
#[derive(Clone, Copy, Debug)]
pub struct MetricDefinition {
    /// The full name, which ends with the unit.
    pub name: &'static str,
    /// The help text: one sentence.
    pub help: &'static str,
}

/// The interface between the exporter and a metric.
pub(super) trait Metric: Sync {
    fn definition(&self) -> MetricDefinition;
    /// Returns its type, in the terms of Prometheus.
    fn kind(&self) -> &'static str;
    /// Returns the labels of each of its series.
    fn labels(&self) -> Vec<Vec<metrics::Label>>;
    /// Returns the upper bounds of the buckets, if this is a histogram.
    fn buckets(&self) -> Option<&'static [f64]> {
        None
    }
    /// Registers all its series with `recorder`.
    fn register(&self, recorder: &dyn Recorder);
    /// Updates values that depend on the time at which they are shown.
    fn refresh(&self, _now: Timestamp) {}
}

const METADATA: Metadata<'static> =
    Metadata::new("punctual", metrics::Level::INFO, Some(module_path!()));

fn all_labels<L: LabelSet>() -> Vec<Vec<metrics::Label>> {
    (0..L::COUNT).map(L::labels).collect()
}

/// The handles of the series, in the order of `LabelSet::index`.
struct Series<H>(OnceLock<Box<[H]>>);

impl<H> Series<H> {
    const fn new() -> Self {
        Self(OnceLock::new())
    }

    fn get(&self, index: usize) -> Option<&H> {
        self.0.get()?.get(index)
    }

    fn register<L: LabelSet>(&self, name: &'static str, handle: impl Fn(&Key) -> H) {
        self.0.get_or_init(|| {
            (0..L::COUNT).map(|index| handle(&Key::from_parts(name, L::labels(index)))).collect()
        });
    }
}

/// A metric whose value only increases.
pub struct Counter<L: LabelSet = ()> {
    definition: MetricDefinition,
    series: Series<metrics::Counter>,
    labels: PhantomData<fn(L)>,
}

impl<L: LabelSet> Counter<L> {
    pub(super) const fn new(definition: MetricDefinition) -> Self {
        Self { definition, series: Series::new(), labels: PhantomData }
    }

    /// Returns the series with these labels.
    pub fn with(&self, labels: L) -> CounterSeries<'_> {
        CounterSeries(self.series.get(labels.index()))
    }
}

impl Counter {
    /// Increases the value by `count`.
    pub fn add(&self, count: u64) {
        self.with(()).add(count);
    }
}

/// One series of a counter.
#[derive(Clone, Copy)]
pub struct CounterSeries<'a>(Option<&'a metrics::Counter>);

impl CounterSeries<'_> {
    /// Increases the value by `count`.
    pub fn add(self, count: u64) {
        if let Some(handle) = self.0 {
            handle.increment(count);
        }
    }
}

impl<L: LabelSet> Metric for Counter<L> {
    fn definition(&self) -> MetricDefinition {
        self.definition
    }

    fn kind(&self) -> &'static str {
        "counter"
    }

    fn labels(&self) -> Vec<Vec<metrics::Label>> {
        all_labels::<L>()
    }

    fn register(&self, recorder: &dyn Recorder) {
        let MetricDefinition { name, help } = self.definition;
        recorder.describe_counter(name.into(), None, help.into());
        self.series.register::<L>(name, |key| recorder.register_counter(key, &METADATA));
    }
}

/// A metric whose value can increase and decrease.
pub struct Gauge<L: LabelSet = ()> {
    definition: MetricDefinition,
    series: Series<metrics::Gauge>,
    labels: PhantomData<fn(L)>,
}

impl<L: LabelSet> Gauge<L> {
    pub(super) const fn new(definition: MetricDefinition) -> Self {
        Self { definition, series: Series::new(), labels: PhantomData }
    }

    /// Returns the series with these labels.
    pub fn with(&self, labels: L) -> GaugeSeries<'_> {
        GaugeSeries(self.series.get(labels.index()))
    }

    /// Sets the series at `index`.
    pub(super) fn set_at(&self, index: usize, value: f64) {
        GaugeSeries(self.series.get(index)).set_to(value);
    }
}

impl Gauge {
    /// Sets the value to `value`.
    pub fn set(&self, value: usize) {
        self.with(()).set(value);
    }

    /// Sets the value to a number that may be negative, fractional or NaN.
    pub fn set_to(&self, value: f64) {
        self.with(()).set_to(value);
    }

    /// Increases the value by one until the guard is dropped.
    pub fn hold(&'static self) -> GaugeGuard {
        self.with(()).hold()
    }
}

/// A guard that keeps a gauge increased by one while it lives.
#[must_use = "the gauge falls again when this is dropped"]
pub struct GaugeGuard(Option<&'static metrics::Gauge>);

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        if let Some(handle) = self.0 {
            handle.decrement(1.0);
        }
    }
}

/// One series of a gauge.
#[derive(Clone, Copy)]
pub struct GaugeSeries<'a>(Option<&'a metrics::Gauge>);

impl GaugeSeries<'_> {
    /// Sets the value to `value`.
    pub fn set(self, value: usize) {
        if let Some(handle) = self.0 {
            // The conversion is exact up to 2^32, and a larger count would be a bug anyway.
            handle.set(f64::from(u32::try_from(value).unwrap_or(u32::MAX)));
        }
    }

    /// Sets the value to a number that may be negative, fractional or NaN.
    pub fn set_to(self, value: f64) {
        if let Some(handle) = self.0 {
            handle.set(value);
        }
    }
}

impl GaugeSeries<'static> {
    /// Increases the value by one until the guard is dropped.
    pub fn hold(self) -> GaugeGuard {
        if let Some(handle) = self.0 {
            handle.increment(1.0);
        }
        GaugeGuard(self.0)
    }
}

impl<L: LabelSet> Metric for Gauge<L> {
    fn definition(&self) -> MetricDefinition {
        self.definition
    }

    fn kind(&self) -> &'static str {
        "gauge"
    }

    fn labels(&self) -> Vec<Vec<metrics::Label>> {
        all_labels::<L>()
    }

    fn register(&self, recorder: &dyn Recorder) {
        let MetricDefinition { name, help } = self.definition;
        recorder.describe_gauge(name.into(), None, help.into());
        self.series.register::<L>(name, |key| recorder.register_gauge(key, &METADATA));
    }
}

/// A metric of the distribution of values.
pub struct Histogram<L: LabelSet = ()> {
    definition: MetricDefinition,
    buckets: &'static [f64],
    series: Series<metrics::Histogram>,
    labels: PhantomData<fn(L)>,
}

impl<L: LabelSet> Histogram<L> {
    pub(super) const fn new(definition: MetricDefinition, buckets: &'static [f64]) -> Self {
        Self { definition, buckets, series: Series::new(), labels: PhantomData }
    }

    /// Returns the series with these labels.
    pub fn with(&self, labels: L) -> HistogramSeries<'_> {
        HistogramSeries(self.series.get(labels.index()))
    }
}

impl Histogram {
    /// Records one value, in the unit at the end of the name.
    pub fn record(&self, value: f64) {
        self.with(()).record(value);
    }

    /// Records a duration, for a histogram of seconds.
    pub fn record_span(&self, span: Duration) {
        self.with(()).record_span(span);
    }

    /// Records the size of a batch.
    pub fn record_count(&self, count: usize) {
        self.record(f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
    }
}

/// One series of a histogram.
#[derive(Clone, Copy)]
pub struct HistogramSeries<'a>(Option<&'a metrics::Histogram>);

impl HistogramSeries<'_> {
    /// Records one value, in the unit at the end of the name.
    pub fn record(self, value: f64) {
        if let Some(handle) = self.0 {
            handle.record(value);
        }
    }

    /// Records a duration, for a histogram of seconds.
    pub fn record_span(self, span: Duration) {
        self.record(span.as_secs_f64());
    }
}

impl<L: LabelSet> Metric for Histogram<L> {
    fn definition(&self) -> MetricDefinition {
        self.definition
    }

    fn kind(&self) -> &'static str {
        "histogram"
    }

    fn labels(&self) -> Vec<Vec<metrics::Label>> {
        all_labels::<L>()
    }

    fn buckets(&self) -> Option<&'static [f64]> {
        Some(self.buckets)
    }

    fn register(&self, recorder: &dyn Recorder) {
        let MetricDefinition { name, help } = self.definition;
        recorder.describe_histogram(name.into(), None, help.into());
        self.series.register::<L>(name, |key| recorder.register_histogram(key, &METADATA));
    }
}
