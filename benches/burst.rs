//! Benchmarks a burst of 100,000 schedules of one account that are due at the same instant: its
//! duration, the lag of 20 schedules of another account that are due at the same instant and were
//! created last, and the latency of API reads in the meantime.
//!
//! `cargo bench --bench burst`, or `tests/servers cargo bench --bench burst` for a cluster of one
//! replica, takes five minutes. The caps per account and per host are raised because one account
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

use punctual::domain::Timestamp;
use punctual::runtime::Clock;
use support::load;
use support::minute::{since_minute, wait_for_second};
use support::numbers::summary;
use support::profile::print_profile;
use support::rounds::lifted_caps;
use support::service::Service;
use support::target::Target;

const MANY: usize = 100_000;
const FEW: usize = 20;
const TIMEOUT: Duration = Duration::from_secs(120);
/// The pause between two reads.
const READ_EVERY: Duration = Duration::from_millis(20);

fn main() {
    print_profile();
    let (noisy, quiet) = (Target::start(), Target::start());
    let mut service = Service::start(&lifted_caps("1024"));
    wait_for_second(1..10);
    let (due, cron) = instant_in(3);
    let (ids, bulk) = service.create(MANY, &cron, &noisy.url());
    println!("bulk create of 1000: {}", summary(bulk));
    service.fill_account("quiet", FEW, &cron, &quiet.url());
    let clock = Clock::system();
    assert!(clock.now() < due, "all are there before they are due");
    println!("bare reqwest loop: {:.0} requests a second", load::bare_loop(&noisy));
    noisy.take_lags();
    thread::sleep(due.since(clock.now()));
    let began = Instant::now();
    let over = AtomicBool::new(false);
    let reads = thread::scope(|scope| {
        let reading = scope.spawn(|| read(&service, &ids[0], &over));
        noisy.wait_for(MANY, TIMEOUT);
        over.store(true, Ordering::Relaxed);
        reading.join().expect("the reads end")
    });
    let took = began.elapsed().as_secs_f64();
    quiet.wait_for(FEW, TIMEOUT);
    println!("{MANY} of one account: {took:.1} s, {:.0} a second", MANY as f64 / took);
    println!("{FEW} of another, due at the same instant: lag {}", summary(quiet.take_lags()));
    println!("{} reads of the API meanwhile: {}", reads.len(), summary(reads));
}

/// Returns the start of the minute that is `minutes` from now, and a cron expression that is due
/// then and not again for a day.
fn instant_in(minutes: u64) -> (Timestamp, String) {
    let clock = Clock::system();
    let now = clock.now();
    let due = now.minus(since_minute(&clock)).plus(Duration::from_secs(60 * minutes));
    let seconds = due.as_millis().unsigned_abs() / 1_000;
    let (minute, hour) = (seconds / 60 % 60, seconds / 3_600 % 24);
    let due = Timestamp::from_millis(due.as_millis() / 60_000 * 60_000);
    (due, format!("{minute} {hour} * * *"))
}

/// Reads a schedule again and again until `over` is set. Returns the latencies.
fn read(service: &Service, id: &str, over: &AtomicBool) -> Vec<Duration> {
    let mut times = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        service.call("GET", &format!("/v1/schedules/{id}"), "", 200);
        times.push(began.elapsed());
        thread::sleep(READ_EVERY);
    }
    times
}
