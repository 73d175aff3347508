//! Calculates when a job's next attempt starts.

use std::time::{Duration, SystemTime};

use backoff::ExponentialBackoffBuilder;
use backoff::backoff::Backoff;

use super::Timestamp;

/// The maximum time by which an endpoint's `Retry-After` can postpone an attempt.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// The waits between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The wait after the first attempt, before jitter.
    pub base: Duration,
    /// The longest wait, before jitter.
    pub cap: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { base: Duration::from_secs(2), cap: Duration::from_secs(300) }
    }
}

impl RetryPolicy {
    /// Returns the wait before the attempt after number `attempt`, if one of `max_attempts` is left
    /// (JOB-1).
    pub fn next(
        &self,
        attempt: u8,
        max_attempts: u8,
        jitter: f64,
        retry_after: Option<Duration>,
    ) -> Option<Duration> {
        (attempt < max_attempts).then(|| self.wait(attempt, jitter, retry_after))
    }

    /// Returns the wait after attempt number `attempt`. It doubles each time up to the cap.
    /// `jitter` (0 to 1) reduces it by up to a half. It is at least the endpoint's
    /// `retry_after`, capped at [`MAX_RETRY_AFTER`].
    fn wait(&self, attempt: u8, jitter: f64, retry_after: Option<Duration>) -> Duration {
        let mut waits = ExponentialBackoffBuilder::new()
            .with_initial_interval(self.base.min(self.cap))
            .with_max_interval(self.cap)
            .with_multiplier(2.0)
            .with_randomization_factor(0.0)
            .with_max_elapsed_time(None)
            .build();
        let full = (0..attempt.max(1)).filter_map(|_| waits.next_backoff()).last();
        let wait = full.unwrap_or(self.cap).mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0);
        wait.max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER))
    }
}

/// Reads a `Retry-After` header (RFC 9110, 10.2.3): seconds, or a date. Absent if it is neither.
pub fn parse_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = value.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let since_epoch = date.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let at = Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).ok()?);
    Some(at.since(now).min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn doubles_up_to_the_cap() {
        let policy = RetryPolicy::default();
        let waits: Vec<_> = (1..=9).map(|attempt| policy.wait(attempt, 0.0, None)).collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 300].map(s));
        let small = RetryPolicy { base: s(9), cap: s(5) };
        assert_eq!(small.wait(1, 0.0, None), s(5));
    }

    #[test]
    fn after_the_last_attempt_none_follows() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.next(1, 2, 0.0, None), Some(s(2)));
        assert_eq!(policy.next(2, 2, 0.0, Some(s(9))), None);
        assert_eq!(policy.next(3, 2, 0.0, None), None);
    }

    #[test]
    fn jitter_takes_away_up_to_a_half() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.wait(3, 0.5, None), s(6));
        assert_eq!(policy.wait(3, 1.0, None), s(4));
    }

    #[test]
    fn the_endpoint_can_ask_for_more_but_not_for_less() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.wait(1, 0.0, Some(s(30))), s(30));
        assert_eq!(policy.wait(4, 0.0, Some(s(1))), s(16));
        assert_eq!(policy.wait(1, 0.0, Some(s(999_999))), s(3_600));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now: Timestamp = "1994-11-06T08:49:00Z".parse().expect("an instant");
        let read = |value| parse_retry_after(value, now);
        assert_eq!(read("120"), Some(s(120)));
        assert_eq!(read(" 0 "), Some(s(0)));
        assert_eq!(read("99999999999999999999999"), Some(s(3_600)));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:37 GMT"), Some(s(37)));
        assert_eq!(read("Sun, 06 Nov 1994 08:00:00 GMT"), Some(s(0)), "a date that has passed");
        for neither in ["", "-1", "1.5", "soon", "12 s"] {
            assert_eq!(read(neither), None, "{neither:?}");
        }
    }
}
