//! The three types of metrics, as constants that cost an atomic operation to use.

use std::marker::PhantomData;
use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Key, Metadata, Recorder};

use super::LabelSet;
use crate::domain::Timestamp;

/// What is known of a metric before anything was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// The whole name, unit last.
    pub name: &'static str,
    /// One sentence for its reader.
    pub help: &'static str,
}

/// What the exporter needs of every metric.
pub(super) trait Metric: Sync {
    fn definition(&self) -> Definition;
    /// Its type, as Prometheus calls it.
    fn kind(&self) -> &'static str;
    /// The labels of each of its series.
    fn labels(&self) -> Vec<Vec<metrics::Label>>;
    /// Upper bounds of a histogram's buckets.
    fn buckets(&self) -> Option<&'static [f64]> {
        None
    }
    /// Makes all its series in `recorder`.
    fn register(&self, recorder: &dyn Recorder);
    /// Computes what depends on the time at which it is shown.
    fn refresh(&self, _now: Timestamp) {}
}

const METADATA: Metadata<'static> =
    Metadata::new("punctual", metrics::Level::INFO, Some(module_path!()));

fn all_labels<L: LabelSet>() -> Vec<Vec<metrics::Label>> {
    (0..L::COUNT).map(L::labels).collect()
}

/// One handle per series, in the order of `LabelSet::index`.
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

/// A number that only grows.
pub struct Counter<L: LabelSet = ()> {
    definition: Definition,
    series: Series<metrics::Counter>,
    labels: PhantomData<fn(L)>,
}

impl<L: LabelSet> Counter<L> {
    pub(super) const fn new(definition: Definition) -> Self {
        Self { definition, series: Series::new(), labels: PhantomData }
    }

    /// The series with these labels.
    pub fn with(&self, labels: L) -> CounterSeries<'_> {
        CounterSeries(self.series.get(labels.index()))
    }
}

impl Counter {
    /// Counts `count` more.
    pub fn add(&self, count: u64) {
        self.with(()).add(count);
    }
}

/// One series of a counter.
#[derive(Clone, Copy)]
pub struct CounterSeries<'a>(Option<&'a metrics::Counter>);

impl CounterSeries<'_> {
    /// Counts `count` more.
    pub fn add(self, count: u64) {
        if let Some(handle) = self.0 {
            handle.increment(count);
        }
    }
}

impl<L: LabelSet> Metric for Counter<L> {
    fn definition(&self) -> Definition {
        self.definition
    }

    fn kind(&self) -> &'static str {
        "counter"
    }

    fn labels(&self) -> Vec<Vec<metrics::Label>> {
        all_labels::<L>()
    }

    fn register(&self, recorder: &dyn Recorder) {
        let Definition { name, help } = self.definition;
        recorder.describe_counter(name.into(), None, help.into());
        self.series.register::<L>(name, |key| recorder.register_counter(key, &METADATA));
    }
}

/// A number that rises and falls.
pub struct Gauge<L: LabelSet = ()> {
    definition: Definition,
    series: Series<metrics::Gauge>,
    labels: PhantomData<fn(L)>,
}

impl<L: LabelSet> Gauge<L> {
    pub(super) const fn new(definition: Definition) -> Self {
        Self { definition, series: Series::new(), labels: PhantomData }
    }

    /// The series with these labels.
    pub fn with(&self, labels: L) -> GaugeSeries<'_> {
        GaugeSeries(self.series.get(labels.index()))
    }

    /// Sets the series at `index`.
    pub(super) fn set_at(&self, index: usize, value: f64) {
        GaugeSeries(self.series.get(index)).set_to(value);
    }
}

impl Gauge {
    /// Sets it to `value`.
    pub fn set(&self, value: usize) {
        self.with(()).set(value);
    }

    /// Sets it to a number that need not be a count.
    pub fn set_to(&self, value: f64) {
        self.with(()).set_to(value);
    }

    /// Raises it by one until the guard is dropped.
    pub fn hold(&'static self) -> Held {
        self.with(()).hold()
    }
}

/// Keeps a gauge one higher while it lives.
#[must_use = "the gauge falls again when this is dropped"]
pub struct Held(Option<&'static metrics::Gauge>);

impl Drop for Held {
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
    /// Sets it to `value`.
    pub fn set(self, value: usize) {
        if let Some(handle) = self.0 {
            // A count beyond 2^32 would be a fault anyhow; up to there the value is exact.
            handle.set(f64::from(u32::try_from(value).unwrap_or(u32::MAX)));
        }
    }

    /// Sets it to a number that need not be a count.
    pub fn set_to(self, value: f64) {
        if let Some(handle) = self.0 {
            handle.set(value);
        }
    }
}

impl GaugeSeries<'static> {
    /// Raises it by one until the guard is dropped.
    pub fn hold(self) -> Held {
        if let Some(handle) = self.0 {
            handle.increment(1.0);
        }
        Held(self.0)
    }
}

impl<L: LabelSet> Metric for Gauge<L> {
    fn definition(&self) -> Definition {
        self.definition
    }

    fn kind(&self) -> &'static str {
        "gauge"
    }

    fn labels(&self) -> Vec<Vec<metrics::Label>> {
        all_labels::<L>()
    }

    fn register(&self, recorder: &dyn Recorder) {
        let Definition { name, help } = self.definition;
        recorder.describe_gauge(name.into(), None, help.into());
        self.series.register::<L>(name, |key| recorder.register_gauge(key, &METADATA));
    }
}

/// How values are spread.
pub struct Histogram<L: LabelSet = ()> {
    definition: Definition,
    buckets: &'static [f64],
    series: Series<metrics::Histogram>,
    labels: PhantomData<fn(L)>,
}

impl<L: LabelSet> Histogram<L> {
    pub(super) const fn new(definition: Definition, buckets: &'static [f64]) -> Self {
        Self { definition, buckets, series: Series::new(), labels: PhantomData }
    }

    /// The series with these labels.
    pub fn with(&self, labels: L) -> HistogramSeries<'_> {
        HistogramSeries(self.series.get(labels.index()))
    }
}

impl Histogram {
    /// Takes in one value, in the unit its name ends with.
    pub fn record(&self, value: f64) {
        self.with(()).record(value);
    }

    /// Takes in a span, for a histogram of seconds.
    pub fn record_span(&self, span: Duration) {
        self.with(()).record_span(span);
    }

    /// Takes in the size of a batch.
    pub fn record_count(&self, count: usize) {
        self.record(f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
    }
}

/// One series of a histogram.
#[derive(Clone, Copy)]
pub struct HistogramSeries<'a>(Option<&'a metrics::Histogram>);

impl HistogramSeries<'_> {
    /// Takes in one value, in the unit its name ends with.
    pub fn record(self, value: f64) {
        if let Some(handle) = self.0 {
            handle.record(value);
        }
    }

    /// Takes in a span, for a histogram of seconds.
    pub fn record_span(self, span: Duration) {
        self.record(span.as_secs_f64());
    }
}

impl<L: LabelSet> Metric for Histogram<L> {
    fn definition(&self) -> Definition {
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
        let Definition { name, help } = self.definition;
        recorder.describe_histogram(name.into(), None, help.into());
        self.series.register::<L>(name, |key| recorder.register_histogram(key, &METADATA));
    }
}
