//! Compares with the crate `croner` where both read an expression in the same way: in UTC, without
//! `a/n`, and without `*/n` in one day field while the other is restricted.

use std::str::FromStr;

use croner::Cron as Croner;
use proptest::prelude::*;

use super::at;
use crate::domain::Timestamp;
use crate::domain::cron::Recurrence;

fn field(min: u32, max: u32, star_steps: bool) -> impl Strategy<Value = String> {
    let item = prop_oneof![
        3 => (min..=max).prop_map(|value| value.to_string()),
        1 => (min..=max, min..=max).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (min..=max, min..=max, 1..6_u32)
            .prop_map(|(a, b, n)| format!("{}-{}/{n}", a.min(b), a.max(b))),
    ];
    let list = prop::collection::vec(item, 1..4).prop_map(|items| items.join(","));
    let star = if star_steps {
        (1..=max / 2).prop_map(|n| format!("*/{n}")).boxed()
    } else {
        Just("*".to_owned()).boxed()
    };
    prop_oneof![1 => Just("*".to_owned()), 1 => star, 2 => list]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn agrees_with_croner(
        minute in field(0, 59, true),
        hour in field(0, 23, true),
        day in field(1, 31, false),
        month in field(1, 12, true),
        weekday in field(0, 7, false),
        days in 0..2500_i64,
        minutes in 0..1440_i64,
    ) {
        let expression = format!("{minute} {hour} {day} {month} {weekday}");
        let from = at("2024-01-01T00:00").as_millis() + (days * 1440 + minutes) * 60_000;
        let from = Timestamp::from_millis(from);
        let other = Croner::from_str(&expression).unwrap();
        let mut expected = Vec::new();
        let mut last = from.to_utc();
        for _ in 0..3 {
            match other.find_next_occurrence(&last, false) {
                Ok(next) => last = next,
                Err(_) => break,
            }
            expected.push(Timestamp::from(last));
        }
        let Ok(recurrence) = Recurrence::parse(&expression, "UTC") else {
            prop_assert!(expected.is_empty(), "refused, but it fires: {}", expression);
            return Ok(());
        };
        let ticks =
            std::iter::successors(recurrence.next_after(from), |&tick| recurrence.next_after(tick));
        prop_assert_eq!(ticks.take(3).collect::<Vec<_>>(), expected, "{}", expression);
    }
}
