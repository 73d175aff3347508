//! The pace at which expired data is deleted: slowly enough that due ticks do not wait for it.

use std::time::Duration;

/// The pause after a batch, as a multiple of the batch's duration. So the store spends at most a
/// tenth of one core on deletion.
///
/// A batch of 500 rows takes 10 to 40 ms, so 0.1 to 0.4 s with its pause: 100 to 430 million rows
/// in a day. A million schedules, each with a version, 10 entries of the audit log and 80 jobs with
/// their attempts, are 92 million rows that are counted in batches: they are deleted within the
/// day.
const PAUSE_PER_DURATION: u32 = 9;
/// The longest pause. A slow batch has mostly waited for other work of the store.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Returns the pause after a batch that took `took`. It is never shorter than `least`.
pub(super) fn pause(took: Duration, least: Duration) -> Duration {
    (took * PAUSE_PER_DURATION).min(MAX_PAUSE).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_nine_times_the_batch_within_bounds() {
        let ms = Duration::from_millis;
        for (took, pause_ms) in [(0, 100), (11, 100), (12, 108), (500, 4_500), (60_000, 5_000)] {
            assert_eq!(pause(ms(took), ms(100)), ms(pause_ms), "{took} ms");
        }
    }
}
