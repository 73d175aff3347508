//! Statistics of measurements.

use std::time::Duration;

/// Returns the smallest value that is not exceeded by `share` (0 to 1) of the values.
pub fn quantile(values: &mut [Duration], share: f64) -> Duration {
    values.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index into a short list"
    )]
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Returns the median, the 99th percentile and the maximum, in milliseconds.
pub fn summary(mut values: Vec<Duration>) -> String {
    let mut ms = |share| quantile(&mut values, share).as_secs_f64() * 1e3;
    format!("p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms", ms(0.5), ms(0.99), ms(1.0))
}

/// Returns the median of an odd number of values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the largest value.
pub fn best(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}
