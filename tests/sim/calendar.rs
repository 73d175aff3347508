//! Computes ticks by brute force: it tests every minute of a span.

use std::time::Duration;

use punctual::domain::Timestamp;

const MINUTE_MS: i64 = 60_000;

/// Cadences that are simple enough to compute without code of the service. Their zones have no
/// clock changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rhythm {
    EveryMinute,
    EveryMinutes(i64),
    Hourly(i64),
    Daily(i64, i64),
}

/// A rhythm on the wall clock of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recurrence {
    pub rhythm: Rhythm,
    pub zone: Zone,
}

/// A zone with a constant offset from UTC in the simulated years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    pub name: &'static str,
    pub minutes_ahead: i64,
}

pub const ZONES: &[Zone] = &[
    Zone { name: "UTC", minutes_ahead: 0 },
    Zone { name: "Asia/Kathmandu", minutes_ahead: 345 },
    Zone { name: "America/Phoenix", minutes_ahead: -420 },
];

impl Recurrence {
    /// Returns the cron expression.
    pub fn expression(self) -> String {
        match self.rhythm {
            Rhythm::EveryMinute => "* * * * *".to_owned(),
            Rhythm::EveryMinutes(n) => format!("*/{n} * * * *"),
            Rhythm::Hourly(minute) => format!("{minute} * * * *"),
            Rhythm::Daily(hour, minute) => format!("{minute} {hour} * * *"),
        }
    }

    /// Returns all ticks after `from`, up to and including `until`.
    pub fn ticks(self, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
        let (first, last) = (from.as_millis() / MINUTE_MS + 1, until.as_millis() / MINUTE_MS);
        let ticks = (first..=last).filter(|minute| self.has(minute + self.zone.minutes_ahead));
        ticks.map(|minute| Timestamp::from_millis(minute * MINUTE_MS)).collect()
    }

    /// Returns `true` if a minute of the wall clock, counted from 1970, is a tick.
    fn has(self, wall: i64) -> bool {
        let (hour, minute) = (wall.div_euclid(60).rem_euclid(24), wall.rem_euclid(60));
        match self.rhythm {
            Rhythm::EveryMinute => true,
            Rhythm::EveryMinutes(n) => minute % n == 0,
            Rhythm::Hourly(at) => minute == at,
            Rhythm::Daily(at_hour, at_minute) => (hour, minute) == (at_hour, at_minute),
        }
    }
}

/// Returns the time until the next full minute.
pub fn to_next_minute(now: Timestamp) -> Duration {
    let ms = MINUTE_MS - now.as_millis() % MINUTE_MS;
    Duration::from_millis(u64::try_from(ms).expect("positive"))
}

#[test]
fn a_day_has_the_ticks_that_it_should() {
    let day = |rhythm, zone: usize| {
        let from = Timestamp::from_millis(1_900_022_400_000 - 1);
        let until = from.plus(Duration::from_secs(24 * 3_600));
        Recurrence { rhythm, zone: ZONES[zone] }.ticks(from, until)
    };
    assert_eq!(day(Rhythm::EveryMinute, 0).len(), 1_440);
    assert_eq!(day(Rhythm::EveryMinutes(7), 1).len(), 24 * 9);
    assert_eq!(day(Rhythm::Hourly(59), 2).len(), 24);
    let at: Vec<_> = day(Rhythm::Daily(9, 30), 1).iter().map(ToString::to_string).collect();
    assert_eq!(at, ["2030-03-18T03:45:00.000Z"]);
}
