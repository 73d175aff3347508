//! Benchmarks how late ticks are while a replica cannot reach Redis or etcd: of 1,000 schedules
//! that are due a second after the servers are gone, and a second after they are back. First with
//! 100,000 schedules on one replica, then with 1,000,000 on three.
//!
//! `tests/servers cargo bench --bench outage` takes half an hour.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark measures real time and prints it"
)]

mod support;

use std::time::{Duration, Instant};

use punctual::runtime::Clock;
use support::cluster;
use support::link::{Link, LinkState};
use support::minute::{since_minute, wait_for_second};
use support::numbers::summary;
use support::profile::print_profile;
use support::service::Service;
use support::target::Target;

/// The number of schedules that fire each minute. Each shard has some of them.
const FIRING: usize = 1_000;
/// Due only in some years.
const LEAP_DAY: &str = "0 0 29 2 *";
const NOWHERE: &str = "http://127.0.0.1:9/";
/// The timeout of a wait for a tick.
const TICK: Duration = Duration::from_secs(90);

fn main() {
    assert!(cluster::is_there(), "run it with `tests/servers cargo bench --bench outage`");
    print_profile();
    let servers = cluster::settings();
    let url = |name| {
        let set = servers.iter().find(|(setting, _)| *setting == name);
        set.expect("a setting of the cluster").1.as_str()
    };
    let (redis, queue_url) = Link::start(url("PUNCTUAL_QUEUE_URL"));
    let (etcd, cluster_url) = Link::start(url("PUNCTUAL_CLUSTER_URL"));
    let target = Target::start();
    let first = Service::start_on(
        servers.clone(),
        &[("PUNCTUAL_QUEUE_URL", &queue_url), ("PUNCTUAL_CLUSTER_URL", &cluster_url)],
    );
    first.create(FIRING, "* * * * *", &target.url());
    fill(&first, 100_000 - FIRING);
    let links = Links { redis, etcd };
    println!("100,000 schedules on one replica");
    links.measure(&target);
    let _others = [first.beside(), first.beside()];
    fill(&first, 900_000);
    println!("1,000,000 schedules on three replicas");
    links.measure(&target);
}

fn fill(service: &Service, count: usize) {
    let start = Instant::now();
    service.create(count, LEAP_DAY, NOWHERE);
    println!("{count} schedules made in {:.0?}", start.elapsed());
}

/// The links of all replicas.
struct Links {
    redis: Link,
    etcd: Link,
}

impl Links {
    /// Measures the ticks without each of the servers.
    fn measure(&self, target: &Target) {
        use LinkState::{Closed, Hanging, Whole};
        // The replicas have compared their indexes with the store.
        wait_for_minutes(target, 2);
        for (what, redis, etcd) in [
            ("all servers there", Whole, Whole),
            ("Redis closes connections", Closed, Whole),
            ("Redis hangs", Hanging, Whole),
            ("etcd hangs", Whole, Hanging),
            ("both hang", Hanging, Hanging),
        ] {
            self.change(target, (redis, etcd), what);
            wait_for_minutes(target, 1);
            self.change(target, (Whole, Whole), "  back");
        }
    }

    /// Changes the links a second before a tick, and prints how late that tick is.
    fn change(&self, target: &Target, (redis, etcd): (LinkState, LinkState), what: &str) {
        wait_for_second(58..59);
        target.take_lags();
        wait_for_second(59..60);
        self.redis.set(redis);
        self.etcd.set(etcd);
        println!("{what}: lag {}", summary(tick(target)));
    }
}

/// Waits for the ticks of so many minutes.
fn wait_for_minutes(target: &Target, minutes: u32) {
    for _ in 0..minutes {
        wait_for_second(58..59);
        target.take_lags();
        wait_for_second(0..30);
        tick(target);
    }
}

/// Waits for a tick of all schedules. Returns the lag of each.
///
/// # Panics
/// If a tick does not arrive in time, or a schedule has fired twice.
fn tick(target: &Target) -> Vec<Duration> {
    target.wait_for(FIRING, TICK);
    let clock = Clock::system();
    let rest = Duration::from_secs(45).saturating_sub(since_minute(&clock));
    std::thread::sleep(rest);
    let lags = target.take_lags();
    assert_eq!(lags.len(), FIRING, "each schedule fires once");
    lags
}
