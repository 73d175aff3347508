//! Benchmarks idle schedules. With 100,000 in one process: processor time, memory, and the time
//! from start to ready. With 1,000,000 on the three replicas of a cluster: also the bytes in Redis
//! and PostgreSQL, and the time until the shards of a stopped replica have a leader and fire again.
//!
//! `cargo bench --bench idle` takes two minutes, `tests/servers cargo bench --bench idle` ten.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark measures real time and prints it"
)]

mod support;

use std::thread;
use std::time::{Duration, Instant};

use support::cluster;
use support::minute::wait_for_second;
use support::numbers::summary;
use support::profile::print_profile;
use support::service::Service;
use support::target::Target;

const SPAN: Duration = Duration::from_secs(30);
const STARTS: usize = 3;
/// Due only in some years.
const LEAP_DAY: &str = "0 0 29 2 *";
/// The number of schedules that fire each minute. Each shard has some of them.
const FIRING: usize = 1_000;
/// The timeout of a wait for a tick.
const TICK: Duration = Duration::from_secs(90);
const NOWHERE: &str = "http://127.0.0.1:9/";

fn main() {
    print_profile();
    if cluster::is_there() { replicas() } else { one_process() }
}

fn one_process() {
    let mut service = Service::start(&[]);
    restart(&mut service, "empty store");
    service.create(100_000, LEAP_DAY, NOWHERE);
    restart(&mut service, "100,000 schedules");
    rest(&[service]);
}

fn replicas() {
    const SCHEDULES: usize = 1_000_000;
    let first = Service::start(&[]);
    let mut all = vec![first.beside(), first.beside(), first];
    led(&all);
    let (redis, postgres) = (cluster::redis_bytes(), cluster::postgres_bytes());
    let start = Instant::now();
    all[0].create(SCHEDULES, LEAP_DAY, NOWHERE);
    println!("1,000,000 schedules made in {:.0?}", start.elapsed());
    // The replicas follow the hints within moments.
    thread::sleep(Duration::from_secs(10));
    let each = |before: u64, now: u64| (now - before) as f64 / SCHEDULES as f64;
    let (redis, postgres) =
        (each(redis, cluster::redis_bytes()), each(postgres, cluster::postgres_bytes()));
    println!("bytes per schedule: {redis:.0} in Redis, {postgres:.0} in PostgreSQL");
    rest(&all);

    let target = Target::start();
    all[0].create(FIRING, "* * * * *", &target.url());
    for how in ["-KILL", "-TERM"] {
        target.wait_for(FIRING, TICK);
        let mut ending = all.pop().expect("three replicas");
        wait_for_second(59..60);
        target.take_lags();
        let start = Instant::now();
        ending.signal(how);
        led(&all);
        println!("{how} of one replica: all shards led again after {:.1?}", start.elapsed());
        target.wait_for(FIRING, TICK);
        println!("the tick a second after it: lag {}", summary(target.take_lags()));
    }
}

/// Waits until all shards have a leader among the replicas.
fn led(replicas: &[Service]) {
    let start = Instant::now();
    let led = || replicas.iter().map(|one| one.metric("punctual_leader_shards", "")).sum::<f64>();
    while led() < 64.0 {
        assert!(start.elapsed() < Duration::from_secs(120), "not all shards are led");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Prints the processor time and the memory of idle replicas.
fn rest(replicas: &[Service]) {
    // Let the work of the start finish first.
    thread::sleep(Duration::from_secs(10));
    let before: Vec<_> = replicas.iter().map(Service::processor_time).collect();
    thread::sleep(SPAN);
    for (replica, before) in replicas.iter().zip(before) {
        let used = replica.processor_time() - before;
        let share = used.as_secs_f64() / SPAN.as_secs_f64() * 100.0;
        println!("idle: {share:.2} % of one core, {} MiB", replica.resident_mib());
    }
}

fn restart(service: &mut Service, what: &str) {
    for _ in 0..STARTS {
        service.stop();
        println!("{what}: ready after {:.0?}", service.launch());
    }
}
