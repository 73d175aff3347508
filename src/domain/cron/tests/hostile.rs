//! Any text is answered within 5 ms, even in a debug build.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::at;
use super::properties::expression;
use crate::domain::cron::Recurrence;

const BOUND: Duration = Duration::from_millis(5);

/// Returns the duration of `answer`: the best of up to 20 tries, so that a busy machine does not
/// matter.
#[expect(clippy::disallowed_methods, reason = "the bound is one of real time")]
fn time_of(mut answer: impl FnMut()) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        answer();
        best = best.min(start.elapsed());
        if best < BOUND {
            break;
        }
    }
    best
}

fn answer(expression: &str, timezone: &str) {
    if let Ok(recurrence) = Recurrence::parse(expression, timezone) {
        let (from, now) = (at("2026-01-01T00:00"), at("2026-02-01T00:00"));
        let _ = recurrence.next_after(now);
        let _ = recurrence.latest_within(from, now);
        let _ = recurrence.count_within(from, now, 10_000);
    }
}

#[test]
fn the_rarest_and_the_longest() {
    let digits = "9".repeat(240);
    let texts = [
        "0 0 29 2 *".to_owned(),
        "0 0 29 2 1".to_owned(),
        "0 0 */28 2 1".to_owned(),
        "0 * */28 2 1".to_owned(),
        "59 */23 */28 2 */6".to_owned(),
        "59 23 29 2 */6".to_owned(),
        "0 0 30 2 *".to_owned(),
        "0 0 30,31 2,4,6 *".to_owned(),
        "0 0 31 2,4,6,9,11 *".to_owned(),
        "0 0 31 2,4,6,9,11 7".to_owned(),
        "* * * * *".to_owned(),
        format!("{} * * * *", vec!["0-59"; 49].join(",")),
        format!("{} * * * *", vec!["1/1"; 60].join(",")),
        format!("*/{digits} * * * *"),
        format!("{digits} * * * *"),
        format!("0-{digits} * * * *"),
        ", * * * *".to_owned(),
        " ".repeat(255),
        "* ".repeat(5_000),
        "*,".repeat(5_000),
        format!("* * * * {}", "1,".repeat(10_000)),
        "*/".repeat(100),
        "-".repeat(255),
        "\u{1F600}".repeat(60),
        "0\0 * * * *".to_owned(),
    ];
    for text in texts {
        for timezone in ["UTC", "Africa/Casablanca"] {
            let time = time_of(|| answer(&text, timezone));
            assert!(time < BOUND, "{time:?} for {text:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_text(text in prop_oneof![
        any::<String>(),
        "[0-9*,/ \\-]{0,40}",
        "[0-9*,/ \t\\-A-Za-z#?LW@]{0,300}",
        "([*0-9/,-]{1,20} ){4}[*0-9/,-]{1,20}",
        "(\\*|\\*/[0-9]|[0-9]{1,2}(-[0-9]{1,2})?(/[0-9])?)( (\\*|[0-9]{1,2}(-[0-9]{1,2})?)){4}",
    ]) {
        let time = time_of(|| answer(&text, "Europe/Berlin"));
        prop_assert!(time < BOUND, "{:?}", time);
    }

    #[test]
    fn any_expression(expression in expression()) {
        let time = time_of(|| answer(&expression, "America/New_York"));
        prop_assert!(time < BOUND, "{:?}", time);
    }
}
