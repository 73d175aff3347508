//! Compares with the walk over every minute.

use chrono_tz::Tz;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::brute::{Rule, Window, changes};
use super::{at, at_minute};
use crate::domain::Timestamp;
use crate::domain::cron::Recurrence;

const ZONES: [Tz; 8] = [
    Tz::Europe__Berlin,
    Tz::America__New_York,
    Tz::Australia__Lord_Howe,
    Tz::America__St_Johns,
    Tz::Africa__Casablanca,
    Tz::Pacific__Apia,
    Tz::Asia__Kathmandu,
    Tz::UTC,
];

const DAY: i64 = 24 * 60;

fn minute(text: &str) -> i64 {
    at(text).as_millis() / 60_000
}

/// Returns 2024 to 2030, and also 2011 for Apia, which had no 30 December that year.
fn years(timezone: Tz) -> Vec<(i64, i64)> {
    let mut years = vec![(minute("2024-01-01T00:00"), minute("2031-01-01T00:00"))];
    if timezone == Tz::Pacific__Apia {
        years.push((minute("2011-01-01T00:00"), minute("2012-02-01T00:00")));
    }
    years
}

/// Generates a minute to test around. If the zone has changes of the clock, half of the minutes are
/// near one.
fn instant_in_zone() -> impl Strategy<Value = (Tz, i64)> {
    let changes: Vec<_> = ZONES
        .iter()
        .map(|&timezone| {
            let years = years(timezone).into_iter();
            years.flat_map(|(first, last)| changes(timezone, first, last)).collect::<Vec<_>>()
        })
        .collect();
    (0..ZONES.len(), any::<bool>(), any::<Index>(), -DAY..DAY).prop_map(
        move |(zone, near_change, index, shift)| {
            let timezone = ZONES[zone];
            let changes = &changes[zone];
            if near_change && !changes.is_empty() {
                return (timezone, changes[index.index(changes.len())] + shift / 4);
            }
            let (first, last) = years(timezone)[0];
            let span = usize::try_from(last - first).unwrap();
            (timezone, first + i64::try_from(index.index(span)).unwrap())
        },
    )
}

/// Generates one field: often `*`, else a list of values, ranges and steps.
fn field(min: u32, max: u32, names: &'static [&'static str]) -> impl Strategy<Value = String> {
    let value = move |value: u32| match names.get((value - min) as usize) {
        Some(name) if value.is_multiple_of(2) => (*name).to_owned(),
        _ => value.to_string(),
    };
    let item = prop_oneof![
        4 => (min..=max).prop_map(value),
        2 => (min..=max, min..=max).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (min..=max, min..=max, 1..9_u32)
            .prop_map(|(a, b, n)| format!("{}-{}/{n}", a.min(b), a.max(b))),
        1 => (min..=max, 1..30_u32).prop_map(move |(a, n)| format!("{}/{n}", value(a))),
        1 => (1..30_u32).prop_map(|n| format!("*/{n}")),
        1 => Just("*".to_owned()),
    ];
    prop_oneof![
        4 => Just("*".to_owned()),
        2 => (1..30_u32).prop_map(|n| format!("*/{n}")),
        5 => prop::collection::vec(item, 1..4).prop_map(|items| items.join(",")),
    ]
}

/// Generates an expression that may or may not have a date.
pub(super) fn expression() -> impl Strategy<Value = String> {
    const MONTHS: &[&str] =
        &["JAN", "FEB", "MAR", "apr", "May", "JUN", "JUL", "AUG", "sEp", "OCT", "NOV", "DEC"];
    const WEEKDAYS: &[&str] = &["SUN", "MON", "tue", "WED", "Thu", "FRI", "SAT"];
    let month = prop_oneof![3 => Just("*".to_owned()), 1 => field(1, 12, MONTHS)];
    (field(0, 59, &[]), field(0, 23, &[]), field(1, 31, &[]), month, field(0, 7, WEEKDAYS))
        .prop_map(|(minute, hour, day, month, weekday)| {
            format!("{minute} {hour} {day} {month} {weekday}")
        })
}

fn next(ticks: &[i64], after: i64) -> Option<i64> {
    ticks.iter().copied().find(|&tick| tick > after)
}

/// Compares one recurrence with the walk, over a whole window and over the given parts of it.
fn compare(
    expression: &str,
    timezone: Tz,
    window: &Window,
    parts: &[(i64, i64)],
) -> Result<(), TestCaseError> {
    let Ok(recurrence) = Recurrence::parse(expression, timezone.name()) else {
        return Err(TestCaseError::reject("no date"));
    };
    let ticks = window.ticks(&Rule::read(expression));
    let mut found = Vec::new();
    let mut tick = recurrence.next_after(at_minute(window.first - 1));
    while let Some(this) = tick.filter(|&tick| tick <= at_minute(window.last)) {
        found.push(this.as_millis() / 60_000);
        tick = recurrence.next_after(this);
        prop_assert!(tick.is_none_or(|tick| tick > this), "no progress after {}", this);
    }
    prop_assert_eq!(&found, &ticks);
    for &(from, to) in parts {
        let mut inside = ticks.iter().copied().filter(|tick| (from..=to).contains(tick));
        let count = inside.clone().count() as u64;
        let (from_at, to_at) = (at_minute(from), at_minute(to));
        prop_assert_eq!(
            recurrence.count_within(from_at, to_at, u64::MAX),
            count,
            "{} {}",
            from,
            to
        );
        prop_assert_eq!(recurrence.count_within(from_at, to_at, 7), count.min(7));
        let latest = inside.next_back().map(at_minute);
        prop_assert_eq!(recurrence.latest_within(from_at, to_at), latest, "{} {}", from, to);
        let following =
            recurrence.next_after(from_at).filter(|&tick| tick <= at_minute(window.last));
        prop_assert_eq!(following, next(&ticks, from).map(at_minute), "{}", from);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn agrees_with_the_walk(
        (timezone, middle) in instant_in_zone(),
        expression in expression(),
        parts in prop::collection::vec((-DAY..DAY, -DAY..DAY), 12),
    ) {
        let window = Window::new(timezone, middle - DAY, middle + DAY);
        let parts: Vec<_> = parts.iter().map(|&(a, b)| (middle + a.min(b), middle + a.max(b))).collect();
        compare(&expression, timezone, &window, &parts)?;
    }
}

/// Covers all of the years, so that long pauses between ticks and many clock changes are crossed.
#[test]
fn agrees_with_the_walk_for_years() {
    let expressions =
        ["30 2 * * *", "*/20 */6 * * *", "15 1-3 1-7 * 0", "0 * 29-31 * *", "45 23 */5 * 1-5"];
    for timezone in ZONES {
        for (first, last) in years(timezone) {
            let window = Window::new(timezone, first, last);
            let changes = changes(timezone, first, last);
            let parts = changes.iter().flat_map(|&change| {
                [(change - 90, change + 90), (change, change + 9 * DAY), (first, change - 1)]
            });
            let parts: Vec<_> = parts.collect();
            for expression in expressions {
                compare(expression, timezone, &window, &parts)
                    .unwrap_or_else(|error| panic!("{expression} {timezone}: {error}"));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The given instants do not lie on whole minutes.
    #[test]
    fn instants_between_minutes(
        (timezone, middle) in instant_in_zone(),
        expression in select(vec!["* * * * *", "*/5 * * * *", "30 0-23 * * *", "17 2 * * *"]),
        ms in 0..60_000_i64,
    ) {
        let recurrence = Recurrence::parse(expression, timezone.name()).unwrap();
        let asked = Timestamp::from_millis(middle * 60_000 + ms);
        let next = recurrence.next_after(asked).unwrap();
        prop_assert!(next > asked);
        let just_before = Timestamp::from_millis(next.as_millis() - 1);
        prop_assert_eq!(recurrence.next_after(just_before), Some(next));
        prop_assert_ne!(recurrence.next_after(next), Some(next));
        prop_assert_eq!(recurrence.latest_within(asked, next), Some(next));
        prop_assert_eq!(recurrence.latest_within(next, next), Some(next));
        let after_asked = Timestamp::from_millis(asked.as_millis() + 1);
        prop_assert_eq!(recurrence.latest_within(after_asked, just_before), None);
        prop_assert_eq!(recurrence.count_within(after_asked, just_before, 9), 0);
        prop_assert_eq!(recurrence.count_within(after_asked, next, 9), 1);
        prop_assert_eq!(recurrence.count_within(next, just_before, 9), 0);
    }
}
