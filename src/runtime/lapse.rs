//! Time-lapse: a clock that runs faster than the machine's, so that tests see many ticks in a short
//! time. Like `faults`, it exists only in tests.
//!
//! The clock's time, after it has followed the store's time, is stretched around an origin that is
//! the same for all replicas. Durations stay real: timeouts, leases, pauses between runs.

#[cfg(all(feature = "faults", debug_assertions))]
pub(super) use running::Lapse;
#[cfg(not(all(feature = "faults", debug_assertions)))]
pub(super) use standing::Lapse;

#[cfg(not(all(feature = "faults", debug_assertions)))]
mod standing {
    use std::time::Duration;

    /// Real time.
    #[derive(Clone, Copy)]
    pub(in crate::runtime) struct Lapse;

    impl Lapse {
        pub(in crate::runtime) const fn of_process() -> Self {
            Self
        }

        pub(in crate::runtime) const fn machine(self, wall: Duration) -> Duration {
            wall
        }

        pub(in crate::runtime) const fn stretched_time(self, time: Duration) -> Duration {
            time
        }

        pub(in crate::runtime) const fn stretched(self, span: Duration) -> Duration {
            span
        }

        pub(in crate::runtime) const fn real(self, span: Duration) -> Duration {
            span
        }
    }
}

#[cfg(all(feature = "faults", debug_assertions))]
mod running {
    use std::time::Duration;

    /// Time as configured by a test.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(in crate::runtime) struct Lapse {
        origin: Duration,
        factor: u32,
        /// The error of the machine's clock, in milliseconds, and the time from which it applies.
        wrong_ms: i64,
        wrong_from: Duration,
    }

    const NONE: Lapse =
        Lapse { origin: Duration::ZERO, factor: 1, wrong_ms: 0, wrong_from: Duration::ZERO };

    impl Lapse {
        /// Reads the environment of this process: the origin in milliseconds since 1970, the
        /// factor, and optionally the error of the machine's clock in milliseconds and the time
        /// from which it applies.
        #[expect(clippy::disallowed_methods, reason = "no setting: it is not there in a release")]
        pub(in crate::runtime) fn of_process() -> Self {
            let given = std::env::var("PUNCTUAL_TEST_CLOCK").ok();
            given.map_or(NONE, |given| Self::read(&given).expect("a test's own variable"))
        }

        pub(super) fn read(given: &str) -> Option<Self> {
            let numbers: Option<Vec<i64>> =
                given.split(',').map(|part| part.parse().ok()).collect();
            let numbers = numbers?;
            let span = |ms: i64| Some(Duration::from_millis(u64::try_from(ms).ok()?));
            let [origin, factor, wrong @ ..] = &numbers[..] else { return None };
            let (wrong_ms, wrong_from) = match wrong {
                [] => (0, 0),
                [wrong_ms, from] => (*wrong_ms, *from),
                _ => return None,
            };
            Some(Self {
                origin: span(*origin)?,
                factor: u32::try_from(*factor).ok().filter(|factor| *factor > 0)?,
                wrong_ms,
                wrong_from: span(wrong_from)?,
            })
        }

        /// Returns the time that the machine's clock shows when its correct time is `wall`.
        pub(in crate::runtime) fn machine(self, wall: Duration) -> Duration {
            let by = Duration::from_millis(self.wrong_ms.unsigned_abs());
            match self.wrong_ms {
                _ if wall < self.wrong_from => wall,
                ..0 => wall.saturating_sub(by),
                _ => wall + by,
            }
        }

        /// Returns the stretched time.
        pub(in crate::runtime) fn stretched_time(self, time: Duration) -> Duration {
            match time.checked_sub(self.origin) {
                Some(since) if self.factor > 1 => self.origin + since * self.factor,
                _ => time,
            }
        }

        /// Returns the stretched time that passes in a real `span`.
        pub(in crate::runtime) fn stretched(self, span: Duration) -> Duration {
            span * self.factor
        }

        /// Returns the real time in which `span` of stretched time passes.
        pub(in crate::runtime) fn real(self, span: Duration) -> Duration {
            span / self.factor
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const fn s(seconds: u64) -> Duration {
            Duration::from_secs(seconds)
        }

        #[test]
        fn time_is_stretched_around_its_origin() {
            let lapse = Lapse::read("100000,12").expect("read");
            assert_eq!(lapse.stretched_time(s(100)), s(100));
            assert_eq!(lapse.stretched_time(s(105)), s(160));
            assert_eq!(lapse.stretched_time(s(90)), s(90), "before");
            assert_eq!((lapse.stretched(s(5)), lapse.real(s(60))), (s(60), s(5)));
            assert_eq!(NONE.stretched_time(s(105)), s(105));
        }

        #[test]
        fn a_wrong_clock_is_wrong_from_an_instant_on() {
            let lapse = Lapse::read("0,1,-60000,500000").expect("read");
            assert_eq!((lapse.machine(s(499)), lapse.machine(s(500))), (s(499), s(440)));
            assert_eq!(Lapse::read("0,0"), None);
            assert_eq!(Lapse::read("0,1,5"), None);
        }
    }
}
