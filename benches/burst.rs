//! Benchmarks bursts of 100,000 schedules of one account that are due at the same instant: the time
//! until all have run, as a ratio to the time that the throughput of half as many, measured a minute
//! earlier, allows; the lag of 20 schedules of another account that are due at the same instant and
//! were created last; and the latency of API reads in the meantime.
//!
//! `cargo bench --bench burst`, or `tests/servers cargo bench --bench burst` for a cluster of one
//! replica, takes eighteen minutes. The caps per account and per host are raised because one account
//! calls one host.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark measures real time and prints it"
)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use punctual::runtime::Clock;
use support::minute::{since_minute, wait_for_minute};
use support::numbers::{median, quantile, summary};
use support::profile::print_profile;
use support::rounds::{Rounds, lifted_caps};
use support::service::Service;
use support::target::Target;

const ROUNDS: usize = 5;
const MANY: usize = 100_000;
const HALF: usize = MANY / 2;
const FEW: usize = 20;
/// A round takes three minutes. Half of the schedules are due in its first and second minute, the
/// others in its second one alone.
const ROUND_MINUTES: u64 = 3;
const FIRST_AND_SECOND: &str = "0-59/3,1-59/3 * * * *";
const SECOND: &str = "1-59/3 * * * *";
const TIMEOUT: Duration = Duration::from_secs(50);
/// The pause between two reads.
const READ_EVERY: Duration = Duration::from_millis(20);

/// The results of a round.
struct Burst {
    /// The time until all have run, in seconds.
    seconds: f64,
    /// That time, as a ratio to the time that the throughput allows.
    ratio: f64,
    /// The 99th percentile of the other account's start lag, in milliseconds.
    lag_ms: f64,
    /// The 99th percentile of the latency of reads, in milliseconds.
    read_ms: f64,
}

fn main() {
    print_profile();
    let (noisy, quiet) = (Target::start(), Target::start());
    let mut service = Service::start(&lifted_caps("1024"));
    // All schedules must exist before the minute in which they are first due.
    wait_for_minute(ROUND_MINUTES - 1, ROUND_MINUTES, 1..25);
    service.create(HALF, FIRST_AND_SECOND, &noisy.url());
    let (ids, bulk) = service.create(HALF, SECOND, &noisy.url());
    println!("bulk create of 1000: {}", summary(bulk));
    service.fill_account("quiet", FEW, SECOND, &quiet.url());
    let mut rounds = Rounds { target: noisy, service, due: HALF, in_flight: 128 };
    let bursts: Vec<_> = (0..ROUNDS).map(|_| measure(&mut rounds, &quiet, &ids[0])).collect();
    let of = |value: fn(&Burst) -> f64| median(bursts.iter().map(value).collect());
    println!(
        "medians of {ROUNDS} rounds: {MANY} of one account ran in {:.1} s, {:.2} of what the throughput \
         allows; lag of {FEW} of another account p99 {:.0} ms; reads p99 {:.0} ms",
        of(|burst| burst.seconds),
        of(|burst| burst.ratio),
        of(|burst| burst.lag_ms),
        of(|burst| burst.read_ms),
    );
}

/// Measures the throughput in the first minute of a round, and the burst in its second one.
fn measure(rounds: &mut Rounds, quiet: &Target, id: &str) -> Burst {
    wait_for_minute(ROUND_MINUTES - 1, ROUND_MINUTES, 0..48);
    rounds.due = HALF;
    let throughput = rounds.run(|| ());
    rounds.due = MANY;
    let rounds = &*rounds;
    quiet.take_lags();
    let over = AtomicBool::new(false);
    let (burst, reads) = thread::scope(|scope| {
        let mut reading = None;
        let burst = rounds.run(|| reading = Some(scope.spawn(|| read(&rounds.service, id, &over))));
        over.store(true, Ordering::Relaxed);
        (burst, reading.expect("begun").join().expect("the reads end"))
    });
    quiet.wait_for(FEW, TIMEOUT);
    let mut lags = quiet.take_lags();
    let ms = |values: &mut Vec<Duration>| quantile(values, 0.99).as_secs_f64() * 1e3;
    let seconds = MANY as f64 / burst.rate;
    let during = reads.into_iter().filter(|(at, _)| at.as_secs_f64() < seconds);
    let mut reads: Vec<_> = during.map(|(_, took)| took).collect();
    let ratio = throughput.rate / burst.rate;
    let (lag_ms, read_ms) = (ms(&mut lags), ms(&mut reads));
    println!("{MANY} in {seconds:.1} s, {ratio:.2} of what the throughput allows");
    println!("{FEW} of another account: lag {}", summary(lags));
    println!("{} reads of the API meanwhile: {}", reads.len(), summary(reads));
    Burst { seconds, ratio, lag_ms, read_ms }
}

/// Reads a schedule again and again, from the start of the next minute until `over` is set. Returns
/// the time of each read since that start, and its latency.
fn read(service: &Service, id: &str, over: &AtomicBool) -> Vec<(Duration, Duration)> {
    thread::sleep(Duration::from_secs(60) - since_minute(&Clock::system()));
    let start = Instant::now();
    let mut times = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let at = start.elapsed();
        service.call("GET", &format!("/v1/schedules/{id}"), "", 200);
        times.push((at, start.elapsed() - at));
        thread::sleep(READ_EVERY);
    }
    times
}
