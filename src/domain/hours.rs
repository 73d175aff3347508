//! The finished jobs of an account, counted by the hour of their end.

use std::time::Duration;

use super::Timestamp;

/// The length of an hour, in milliseconds.
pub const HOUR_MS: i64 = 3_600_000;
/// The upper bounds of the classes of start lags, in milliseconds. The last class has none.
pub const LAG_BOUNDS_MS: [u32; LAG_CLASSES - 1] = [10, 50, 100, 250, 1_000, 10_000, 60_000];
/// The number of classes of start lags.
pub const LAG_CLASSES: usize = 8;

/// The jobs of an account that ended in an hour, or in several hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountHour {
    /// The start of the hour (UTC).
    pub start: Timestamp,
    /// The jobs that succeeded.
    pub succeeded: u64,
    /// The jobs that failed, without those that were cancelled.
    pub failed: u64,
    /// The jobs that were cancelled, or whose schedule was deleted before they had finished.
    pub cancelled: u64,
    /// The jobs by the time from the instant for which they were scheduled to their first attempt,
    /// in classes with the bounds [`LAG_BOUNDS_MS`]. Jobs without an attempt are in none.
    pub lags: [u64; LAG_CLASSES],
}

impl AccountHour {
    /// Returns an hour without jobs.
    pub const fn empty(start: Timestamp) -> Self {
        Self { start, succeeded: 0, failed: 0, cancelled: 0, lags: [0; LAG_CLASSES] }
    }

    /// Returns the number of jobs.
    pub const fn jobs(&self) -> u64 {
        self.succeeded + self.failed + self.cancelled
    }

    /// Adds the jobs of another hour.
    pub fn add(&mut self, other: &Self) {
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        for (own, more) in self.lags.iter_mut().zip(other.lags) {
            *own += more;
        }
    }

    /// Returns the class of start lags that `percent` of the jobs do not exceed; absent if no job
    /// had an attempt.
    pub fn lag_percentile(&self, percent: u64) -> Option<usize> {
        let started: u64 = self.lags.iter().sum();
        let rank = (started * percent).div_ceil(100).max(1);
        let mut seen = 0;
        self.lags.iter().position(|jobs| {
            seen += jobs;
            seen >= rank
        })
    }
}

/// Returns the start of the hour (UTC) in which an instant is.
pub fn hour_of(at: Timestamp) -> Timestamp {
    let ms = at.as_millis();
    Timestamp::from_millis(ms - ms.rem_euclid(HOUR_MS))
}

/// Returns the class of the start lag of a job that was scheduled for an instant and began its first
/// attempt at another one.
pub fn lag_class(scheduled: Timestamp, started: Timestamp) -> usize {
    let lag = started.since(scheduled);
    let is_within = |bound: &u32| lag <= Duration::from_millis((*bound).into());
    LAG_BOUNDS_MS.iter().position(is_within).unwrap_or(LAG_CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_the_class_below_it() {
        let class = |ms| lag_class(Timestamp::from_millis(0), Timestamp::from_millis(ms));
        assert_eq!([0, 10, 11, 250, 251, 60_000, 60_001].map(class), [0, 0, 1, 3, 4, 6, 7]);
        let early = lag_class(Timestamp::from_millis(5), Timestamp::from_millis(0));
        assert_eq!(early, 0, "a clock that was set back");
    }

    #[test]
    fn hours_add_up() {
        let start = Timestamp::from_millis(0);
        let mut sum = AccountHour::empty(start);
        let one = AccountHour {
            start,
            succeeded: 1,
            failed: 2,
            cancelled: 3,
            lags: [1, 0, 0, 0, 0, 0, 0, 2],
        };
        sum.add(&one);
        sum.add(&one);
        assert_eq!((sum.succeeded, sum.failed, sum.cancelled, sum.jobs()), (2, 4, 6, 12));
        assert_eq!(sum.lags, [2, 0, 0, 0, 0, 0, 0, 4]);
    }

    #[test]
    fn percentiles_are_classes_in_which_jobs_are() {
        let mut hour = AccountHour::empty(Timestamp::from_millis(0));
        assert_eq!(hour.lag_percentile(50), None);
        hour.lags = [0, 98, 0, 0, 1, 0, 1, 0];
        let percentiles = [0, 50, 98, 99, 100].map(|percent| hour.lag_percentile(percent));
        assert_eq!(percentiles, [Some(1), Some(1), Some(1), Some(4), Some(6)]);
    }
}
