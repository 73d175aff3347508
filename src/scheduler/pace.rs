//! How fast what is over is removed: beside what is due, not before it.

use std::time::Duration;

/// How many times as long as a batch took nothing follows it: the store spends a tenth of one core
/// on removing, at most.
///
/// A batch of 500 rows takes 10 to 40 ms: so 0.1 to 0.4 s with its rest, 100 to 430 million rows in a day. A
/// million schedules, each with a version, 10 entries of the audit log and 80 jobs with their
/// attempts, are 92 million rows to ask for: they are gone within the day.
const SHARE: u32 = 9;
/// The longest rest. A batch that took long has waited for others rather than worked.
const LONGEST: Duration = Duration::from_secs(5);

/// How long nothing follows a batch that took so long: `least`, if that is more.
pub(super) fn rest(took: Duration, least: Duration) -> Duration {
    (took * SHARE).min(LONGEST).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_nine_times_the_batch_within_bounds() {
        let ms = Duration::from_millis;
        for (took, rested) in [(0, 100), (11, 100), (12, 108), (500, 4_500), (60_000, 5_000)] {
            assert_eq!(rest(ms(took), ms(100)), ms(rested), "{took} ms");
        }
    }
}
