//! Benchmarks the evaluation of a recurrence, also as a ratio to the bare crate `cron` in UTC.
//!
//! `cargo bench --bench cron` prints a table and asserts nothing.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark measures real time and prints it"
)]

mod support;

use std::hint::black_box;
use std::str::FromStr;
use std::time::{Duration, Instant};

use punctual::domain::Timestamp;
use punctual::domain::cron::{Cron, Recurrence};
use support::profile::print_profile;

/// An expression, the same expression for the bare crate, and the timezone.
const COMMON: [(&str, &str, &str); 8] = [
    ("* * * * *", "0 * * * * *", "UTC"),
    ("*/5 * * * *", "0 */5 * * * *", "Europe/Berlin"),
    ("0 * * * *", "0 0 * * * *", "America/New_York"),
    ("0 9 * * *", "0 0 9 * * *", "America/New_York"),
    ("30 9 * * 1-5", "0 30 9 * * 2-6", "Europe/Berlin"),
    ("0 0 1 * *", "0 0 0 1 * *", "Asia/Kathmandu"),
    ("0 0 13 * 5", "0 0 0 13 * *", "Africa/Casablanca"),
    ("0 0 29 2 *", "0 0 0 29 2 *", "Australia/Lord_Howe"),
];

/// 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600_000;
const DAY_MS: i64 = 86_400_000;
const ROUNDS: u32 = 200_000;

fn main() {
    print_profile();
    println!(
        "{:<16} {:<20} {:>9} {:>9} {:>6}",
        "expression", "timezone", "ns/next", "bare ns", "ratio"
    );
    for (expression, bare, timezone) in COMMON {
        let recurrence = Recurrence::parse(expression, timezone).expect("it is valid");
        let schedule = cron::Schedule::from_str(bare).expect("it is valid");
        let ours = best(|at| {
            black_box(recurrence.next_after(at));
        });
        let bare = best(|at| {
            black_box(schedule.after(&at.to_utc()).next());
        });
        let ratio = ours / bare;
        println!("{expression:<16} {timezone:<20} {ours:>9.0} {bare:>9.0} {ratio:>6.2}");
    }
    let recurrence = Recurrence::parse("* * * * *", "Europe/Berlin").expect("it is valid");
    let month = Duration::from_secs(31 * 86_400);
    let count = best(|at| {
        black_box(recurrence.count_within(at, at.plus(month), u64::MAX));
    });
    let latest = best(|at| {
        black_box(recurrence.latest_within(at, at.plus(month)));
    });
    let parse = best(|_| {
        black_box(Cron::parse(black_box("*/5 9-17 * * 1-5")).is_ok());
    });
    println!("count of 31 days of minutes: {count:.0} ns");
    println!("latest of 31 days of minutes: {latest:.0} ns");
    println!("parse: {parse:.0} ns");
}

/// Returns the nanoseconds per call: the best of five rounds, each over instants spread across two
/// years.
fn best(mut call: impl FnMut(Timestamp)) -> f64 {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        for round in 0..ROUNDS {
            let ms = i64::from(round) * 37_123_457 % (730 * DAY_MS);
            call(black_box(Timestamp::from_millis(START + ms)));
        }
        best = best.min(start.elapsed());
    }
    best.as_secs_f64() * 1e9 / f64::from(ROUNDS)
}
