//! The position of the clock within its minute. Schedules fire at the start of a minute.

use std::ops::Range;
use std::thread;
use std::time::Duration;

use punctual::runtime::Clock;

/// Returns the time since the start of the minute.
pub fn since_minute(clock: &Clock) -> Duration {
    let ms = u64::try_from(clock.now().as_millis()).unwrap_or(0);
    Duration::from_millis(ms % 60_000)
}

/// Waits until the second of the current minute is in `range`.
pub fn wait_for_second(range: Range<u64>) {
    let clock = Clock::system();
    while !range.contains(&since_minute(&clock).as_secs()) {
        thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until the minute of the hour, divided by `every`, leaves `rest`, and its second is in
/// `seconds`.
pub fn wait_for_minute(rest: u64, every: u64, seconds: Range<u64>) {
    let clock = Clock::system();
    loop {
        wait_for_second(seconds.clone());
        let minutes = clock.now().as_millis().unsigned_abs() / 60_000;
        if minutes % 60 % every == rest {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
}
