//! Benchmarks alerts: their latency, the throughput of one replica, and their cost for jobs.
//!
//! - Latency: 50 failures per second, with one host per schedule, on 20 channels without flood
//!   control, and defaults otherwise. The time from the response that fails the job to the arrival
//!   of the alert.
//! - Throughput: 5,000 jobs that fail at once, first without and then with a preference on each
//!   schedule, without grouping. The start lag of both, and the alerts per second.
//! - Cost: finished jobs per second when one of twenty fails, first without and then with a
//!   preference on each schedule, as a ratio to a bare reqwest loop right before and right after.
//!
//! `cargo bench --bench alerts`, or `tests/servers cargo bench --bench alerts` for the cluster,
//! takes twelve minutes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark measures real time and prints it"
)]

mod support;

use std::thread;
use std::time::{Duration, Instant};

use punctual::runtime::Clock;
use support::load;
use support::minute::{since_minute, wait_for_second};
use support::numbers::{median, summary};
use support::profile::print_profile;
use support::receiver::Receiver;
use support::service::Service;
use support::target::Target;

const TIMEOUT: Duration = Duration::from_secs(55);
const MINUTE: Duration = Duration::from_secs(60);
/// The number of failures per second, and the duration in seconds.
const PER_SECOND: usize = 50;
const SECONDS: usize = 30;
/// The number of schedules, each with its own host.
const HOSTS: usize = 200;
/// The number of channels. An account cannot verify more of them in a minute.
const CHANNELS: usize = 20;
/// The number of jobs that fail at once.
const BURST: usize = 5_000;
/// The number of schedules of the cost benchmark. One of `FAILING` fails.
const SCHEDULES: usize = 20_000;
const FAILING: usize = 20;
const ROUNDS: usize = 3;
const IN_FLIGHT: &str = "1024";
const FINISHED: &str = "punctual_jobs_finished_total";

fn main() {
    print_profile();
    let _ = rustls::crypto::ring::default_provider().install_default();
    how_soon();
    how_many();
    what_it_costs();
}

/// Returns the id in a response about one object.
fn id(answer: &str) -> String {
    let (_, rest) = answer.split_once(r#""id":""#).expect("an id");
    rest.split('"').next().expect("an id").to_owned()
}

/// Creates and verifies a webhook channel that posts to the receiver. Returns its id.
fn channel(service: &Service, receiver: &Receiver) -> String {
    let body = format!(
        r#"{{"type": "webhook", "label": "bench", "config": {{"url": "{}"}}}}"#,
        receiver.url()
    );
    let id = id(&service.call("POST", "/v1/notification-channels", &body, 201));
    service.call("POST", &format!("/v1/notification-channels/{id}/verify"), "", 200);
    id
}

fn prefer(service: &Service, schedule: &str, channel: &str) {
    let body = format!(r#"{{"notifyOn": "failure", "channelIds": ["{channel}"]}}"#);
    service.call("PUT", &format!("/v1/schedules/{schedule}/notifications"), &body, 200);
}

/// Measures the time from the response that fails a job to the arrival of its alert.
fn how_soon() {
    let (target, receiver) = (Target::start(), Receiver::start());
    let service = Service::start(&[("PUNCTUAL_NOTIFY_CHANNEL_PER_MINUTE", "0")]);
    let channels: Vec<_> = (0..CHANNELS).map(|_| channel(&service, &receiver)).collect();
    let port = target.address.port();
    let schedules: Vec<String> = (0..HOSTS)
        .map(|host| {
            // Every address of the loopback network counts as another host.
            let url = format!("http://127.0.{}.{}:{port}/fail", host / 250, host % 250 + 1);
            let (ids, _) = service.create_failing(1, "0 0 29 2 *", &url);
            prefer(&service, &ids[0], &channels[host % CHANNELS]);
            ids[0].clone()
        })
        .collect();
    receiver.take();
    target.take_failures();
    load::runtime().block_on(trigger_evenly(&service, &schedules));
    let count = PER_SECOND * SECONDS;
    receiver.wait_for(count, TIMEOUT);
    let (failed, told) = (target.take_failures(), receiver.take());
    let lags = told.iter().filter_map(|(job, at)| Some(at.duration_since(*failed.get(job)?)));
    let lags: Vec<Duration> = lags.collect();
    assert_eq!(lags.len(), count, "one alert for each failed job");
    println!("{PER_SECOND} failures a second for {SECONDS} s: told after {}", summary(lags));
}

async fn trigger_evenly(service: &Service, schedules: &[String]) {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let mut ticks = tokio::time::interval(Duration::from_secs(1).div_f64(PER_SECOND as f64));
    let mut calls = Vec::new();
    for schedule in schedules.iter().cycle().take(PER_SECOND * SECONDS) {
        ticks.tick().await;
        let url = format!("http://{}/v1/schedules/{schedule}/trigger", service.public);
        let call = client.post(url).header("x-api-key", &service.key).send();
        calls.push(tokio::spawn(async move { call.await.expect("an answer").status() }));
    }
    for call in calls {
        assert_eq!(call.await.expect("it ran").as_u16(), 200);
    }
}

/// Starts a service without grouping. Its caps are so high that one account that calls one host
/// does not reach them.
fn ungrouped() -> Service {
    Service::start(&[
        ("PUNCTUAL_NOTIFY_CHANNEL_PER_MINUTE", "0"),
        ("PUNCTUAL_NOTIFY_INCIDENT_SCHEDULES", "0"),
        ("PUNCTUAL_EXECUTOR_PER_ACCOUNT", IN_FLIGHT),
        ("PUNCTUAL_EXECUTOR_PER_HOST", IN_FLIGHT),
    ])
}

/// Measures the start lag of jobs that fail at once, without and with alerts, and the alerts per
/// second.
fn how_many() {
    let (target, receiver) = (Target::start(), Receiver::start());
    let service = ungrouped();
    wait_for_second(1..25);
    let url = format!("{}fail", target.url());
    let (schedules, _) = service.create_failing(BURST, "* * * * *", &url);
    burst(&target, "without a preference");
    let channel = channel(&service, &receiver);
    wait_for_second(1..20);
    schedules.iter().for_each(|schedule| prefer(&service, schedule, &channel));
    receiver.take();
    let due = burst(&target, "with a preference");
    receiver.wait_for(BURST, TIMEOUT);
    let (first, last) = receiver.span();
    let rate = BURST as f64 / last.duration_since(due).as_secs_f64();
    println!(
        "{BURST} alerts: the first after {:.2?}, the last after {:.2?}; {rate:.0} alerts a second \
         from the tick on",
        first.duration_since(due),
        last.duration_since(due),
    );
}

/// Waits for the jobs of the next minute and prints their start lag. Returns the start of that
/// minute.
fn burst(target: &Target, what: &str) -> Instant {
    target.take_lags();
    thread::sleep(MINUTE - since_minute(&Clock::system()));
    let due = Instant::now();
    target.wait_for(BURST, TIMEOUT);
    println!("{BURST} jobs that fail at once, {what}: start lag {}", summary(target.take_lags()));
    due
}

/// Measures the jobs per second when some jobs fail, without and with alerts.
fn what_it_costs() {
    let (target, receiver) = (Target::start(), Receiver::start());
    let caps = ["SLOTS", "PER_ACCOUNT", "PER_HOST"].map(|cap| format!("PUNCTUAL_EXECUTOR_{cap}"));
    let caps: Vec<(&str, &str)> = caps.iter().map(|name| (name.as_str(), IN_FLIGHT)).collect();
    let service = Service::start(&caps);
    wait_for_second(1..25);
    let fails = format!("{}fail", target.url());
    let (mut schedules, _) = service.create_failing(SCHEDULES / FAILING, "* * * * *", &fails);
    let fine = SCHEDULES - schedules.len();
    schedules.extend(service.create_failing(fine, "* * * * *", &target.url()).0);
    let rounds = |what: &str| {
        let ratios: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                wait_for_second(25..30);
                let before = load::bare_loop(&target);
                let is_same_minute = since_minute(&Clock::system()) > Duration::from_secs(25);
                assert!(is_same_minute, "the bare loop took until after the tick");
                let rate = rate(&target, &service);
                let ratio = rate / f64::midpoint(before, load::bare_loop(&target));
                println!("{what}: {rate:.0} jobs a second, {ratio:.3} of the bare loop");
                ratio
            })
            .collect();
        median(ratios)
    };
    let without = rounds("no preference");
    let channel = channel(&service, &receiver);
    schedules.iter().for_each(|schedule| prefer(&service, schedule, &channel));
    let with = rounds("alerts on each failure");
    println!("throughput with alerts on 5 % failures: {:.3} of that without", with / without);
}

/// Returns the finished jobs per second at the next tick of all schedules.
fn rate(target: &Target, service: &Service) -> f64 {
    target.take_lags();
    // The jobs of the previous minute have finished.
    let before = service.metric(FINISHED, "");
    thread::sleep(MINUTE - since_minute(&Clock::system()));
    let due = Instant::now();
    target.wait_for(SCHEDULES, TIMEOUT);
    while service.metric(FINISHED, "") < before + SCHEDULES as f64 {
        assert!(due.elapsed() < TIMEOUT, "not all jobs finished in {TIMEOUT:?}");
        thread::sleep(Duration::from_millis(2));
    }
    SCHEDULES as f64 / due.elapsed().as_secs_f64()
}
