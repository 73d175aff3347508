//! Benchmarks the effect of a long transaction of another database client. 60,000 schedules are due
//! each minute, so 1,000 jobs finish per second on average: for five minutes without and five
//! minutes with a snapshot that stays open, as a backup does. Prints the throughput and the start
//! lag with the snapshot as ratios to those without. Also prints the bytes in PostgreSQL per
//! schedule, and per finished job with a response of 300 bytes.
//!
//! `tests/servers cargo bench --bench snapshot` takes thirteen minutes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark measures real time and prints it"
)]

mod support;

use std::time::Duration;

use support::cluster::{self, Snapshot};
use support::minute::wait_for_second;
use support::numbers::median;
use support::profile::print_profile;
use support::rounds::{RoundResult, Rounds, lifted_caps};
use support::service::Service;
use support::target::Target;

const ROUNDS: usize = 5;
const DUE: usize = 60_000;

fn main() {
    assert!(cluster::is_there(), "run it by: tests/servers cargo bench --bench snapshot");
    print_profile();
    let (target, service) = (Target::start(), Service::start(&lifted_caps("1024")));
    let empty = cluster::postgres_bytes();
    // All schedules must exist before the minute in which they are first due.
    wait_for_second(1..25);
    service.create(DUE, "* * * * *", &format!("{}long", target.url()));
    let made = cluster::postgres_bytes();
    let rounds = Rounds { target, service, due: DUE, in_flight: 128 };
    let without = median_of(&rounds);
    let snapshot = Snapshot::open();
    let with = median_of(&rounds);
    drop(snapshot);
    println!("throughput with the snapshot: {:.2} of that without", with.0 / without.0);
    println!("start lag, p99: {:.2} of that without", with.1 / without.1);
    let per_schedule = (made - empty) / DUE as u64;
    println!("bytes: {per_schedule} a schedule, {:.0} a finished job", cluster::bytes_per_job());
}

/// Returns the median ratio to the bare loop, and the median of the 99th percentiles of the start
/// lag in seconds.
fn median_of(rounds: &Rounds) -> (f64, f64) {
    let all: Vec<RoundResult> = (0..ROUNDS).map(|_| rounds.run(|| ())).collect();
    let ratio = median(all.iter().map(|round| round.ratio).collect());
    let lag =
        median(all.iter().map(|round| round.lag).map(|lag: Duration| lag.as_secs_f64()).collect());
    println!("median {ratio:.3}, lag p99 {:.0} ms", lag * 1e3);
    (ratio, lag)
}
