//! The calendar of a run, which may be faster than the machine's clock. This is the test's part of
//! the service's time lapse.

use std::time::{SystemTime, UNIX_EPOCH};

/// The start and the speed of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lapse {
    pub origin_at: i64,
    pub factor: i64,
}

impl Default for Lapse {
    fn default() -> Self {
        Self { origin_at: 0, factor: 1 }
    }
}

/// A minute in milliseconds, the shortest interval of a schedule.
pub const MINUTE: i64 = 60_000;

impl Lapse {
    /// Returns a time lapse that starts now.
    pub fn begin(factor: i64) -> Self {
        Self { origin_at: machine(), factor }
    }

    /// Returns the service's time at the machine's time `at`.
    pub fn service_time(self, at: i64) -> i64 {
        if self.factor == 1 { at } else { self.origin_at + (at - self.origin_at) * self.factor }
    }

    /// Returns the machine's time at the service's time `service_time`.
    pub fn at(self, service_time: i64) -> i64 {
        if self.factor == 1 {
            service_time
        } else {
            self.origin_at + (service_time - self.origin_at) / self.factor
        }
    }

    /// Returns the service's time now.
    pub fn now(self) -> i64 {
        self.service_time(machine())
    }

    /// Returns the real duration of a span on the service's clock.
    pub fn real(self, span: i64) -> i64 {
        span / self.factor
    }

    /// Returns the variable that sets the clock of a replica. From `wrong_from` on, the clock is
    /// wrong by `wrong_ms`.
    pub fn variable(self, wrong: Option<(i64, i64)>) -> String {
        let wrong = wrong.map(|(ms, from)| format!(",{ms},{from}")).unwrap_or_default();
        format!("{},{}{wrong}", self.origin_at, self.factor)
    }
}

/// Returns the machine's time.
pub fn machine() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(now.as_millis()).expect("before the year 292 million")
}
