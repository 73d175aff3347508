//! Exports the metrics in the text format of Prometheus.

use std::sync::OnceLock;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use super::{BUILD_INFO, DISK_FREE_BYTES, TABLE, Version, beats, process};
use crate::domain::Timestamp;

/// The exporter of the process. There can be only one because the metrics are global constants.
static EXPORTER: OnceLock<Exporter> = OnceLock::new();

/// Renders the recorded metrics. Clones share one recorder.
#[derive(Clone)]
pub struct Exporter(PrometheusHandle);

/// Starts recording. Further calls return the same exporter.
pub fn install() -> Exporter {
    EXPORTER.get_or_init(build).clone()
}

fn build() -> Exporter {
    let mut builder = PrometheusBuilder::new();
    for metric in TABLE {
        if let Some(buckets) = metric.buckets() {
            let name = Matcher::Full(metric.definition().name.to_owned());
            builder = builder.set_buckets_for_metric(name, buckets).expect("no empty buckets");
        }
    }
    let recorder = builder.build_recorder();
    for metric in TABLE {
        metric.register(&recorder);
    }
    BUILD_INFO.with(Version::Current).set(1);
    DISK_FREE_BYTES.set_to(f64::NAN);
    Exporter(recorder.handle())
}

impl Exporter {
    /// Renders all metrics, including the process metrics, in the text format of Prometheus.
    pub fn render(&self) -> String {
        let mut text = self.0.render();
        process::append(&mut text);
        text
    }

    /// Updates the metrics that depend on the time: the time left at `now`, and the loops that are
    /// overdue on the monotonic clock. Call it before rendering.
    pub fn refresh(&self, now: Timestamp, monotonic: Duration) {
        for metric in TABLE {
            metric.refresh(now);
        }
        beats::refresh(monotonic);
    }

    /// Aggregates the values that histograms recorded since the last call. Call it every few
    /// seconds, because histograms keep each value until then.
    pub fn upkeep(&self) {
        self.0.run_upkeep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::schedule::SkipReason;
    use crate::telemetry::metrics::{SKIPS, START_LAG_SECONDS};

    /// Returns the value of the only line that starts with `series` and a space.
    fn value(text: &str, series: &str) -> f64 {
        let mut lines =
            text.lines().filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let value = lines.next().unwrap_or_else(|| panic!("no {series} in {text}"));
        assert_eq!(lines.next(), None, "{series} twice");
        value.parse().expect("a number")
    }

    #[test]
    fn shows_all_series_from_the_start_and_recorded_values() {
        let exporter = install();
        let before = exporter.render();
        let quota = "punctual_skips_total{reason=\"quota\"}";
        let skips = value(&before, quota);
        let fast = "punctual_start_lag_seconds_bucket{le=\"0.005\"}";
        let (lag, count) = (value(&before, fast), "punctual_start_lag_seconds_count");
        let counted = value(&before, count);

        SKIPS.with(SkipReason::Quota).add(3);
        START_LAG_SECONDS.record_span(Duration::from_millis(4));
        START_LAG_SECONDS.record_span(Duration::from_secs(400));
        exporter.upkeep();

        let after = install().render();
        // Other tests of this process may record too.
        assert!(value(&after, quota) >= skips + 3.0);
        assert!(value(&after, fast) >= lag + 1.0);
        assert!(value(&after, count) >= counted + 2.0);
        let version = env!("CARGO_PKG_VERSION");
        assert!(after.contains(&format!("punctual_build_info{{version=\"{version}\"}} 1")));
        assert!(after.contains("# HELP punctual_ticks_fired_total Ticks that became a job."));
    }
}
