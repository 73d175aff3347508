//! The calendar of a run, which may be faster than the machine's clock: the test's side of what the
//! service calls a time-lapse.

use std::time::{SystemTime, UNIX_EPOCH};

/// How fast the calendar is, and since when.
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

/// A minute, which is how often schedules can tick.
pub const MINUTE: i64 = 60_000;

impl Lapse {
    /// One that begins now.
    pub fn begin(factor: i64) -> Self {
        Self { origin_at: machine(), factor }
    }

    /// What the service's clock shows when the machine's shows `at`.
    pub fn told(self, at: i64) -> i64 {
        if self.factor == 1 { at } else { self.origin_at + (at - self.origin_at) * self.factor }
    }

    /// What the machine's clock shows when the service's shows `told`.
    pub fn at(self, told: i64) -> i64 {
        if self.factor == 1 { told } else { self.origin_at + (told - self.origin_at) / self.factor }
    }

    /// What the service's clock shows now.
    pub fn now(self) -> i64 {
        self.told(machine())
    }

    /// How long a span of the service's clock really takes.
    pub fn real(self, span: i64) -> i64 {
        span / self.factor
    }

    /// The variable that sets a replica's clock, which is wrong by `wrong_ms` from `wrong_from` on.
    pub fn variable(self, wrong: Option<(i64, i64)>) -> String {
        let wrong = wrong.map(|(ms, from)| format!(",{ms},{from}")).unwrap_or_default();
        format!("{},{}{wrong}", self.origin_at, self.factor)
    }
}

/// What the machine's clock shows.
pub fn machine() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(now.as_millis()).expect("before the year 292 million")
}
