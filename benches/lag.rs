//! Benchmarks the start lag: the time from the scheduled instant of a job to the arrival of its
//! request at the target. Measured with evenly spread triggers and with schedules due at the same
//! minute: 200 jobs per second, or 500 on the three replicas of a cluster.
//!
//! `cargo bench --bench lag`, or `tests/servers cargo bench --bench lag` for the cluster, takes
//! three minutes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark measures real time and prints it"
)]

mod support;

use std::time::Duration;

use support::cluster;
use support::load;
use support::numbers::summary;
use support::profile::print_profile;
use support::service::Service;
use support::target::Target;

const SECONDS: usize = 30;
const TIMEOUT: Duration = Duration::from_secs(70);

fn main() {
    print_profile();
    let target = Target::start();
    let mut replicas = vec![Service::start(&[])];
    if cluster::is_there() {
        replicas.extend([replicas[0].beside(), replicas[0].beside()]);
    }
    let (service, per_second) = (&replicas[0], if replicas.len() > 1 { 500 } else { 200 });

    let (ids, _) = service.create(per_second, "0 0 1 1 *", &target.url());
    trigger_evenly(&replicas, &ids);
    target.wait_for(per_second * SECONDS, TIMEOUT);
    println!("{per_second} triggers a second for {SECONDS} s: lag {}", summary(target.take_lags()));

    service.create(per_second, "* * * * *", &target.url());
    for _ in 0..2 {
        target.wait_for(per_second, TIMEOUT);
        println!("{per_second} due at one minute: lag {}", summary(target.take_lags()));
    }
}

/// Triggers each schedule once per second, evenly spread, without waiting for the responses.
fn trigger_evenly(replicas: &[Service], ids: &[String]) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    load::runtime().block_on(async {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let mut ticks = tokio::time::interval(Duration::from_secs(1).div_f64(ids.len() as f64));
        let mut calls = Vec::new();
        let all = ids.iter().cycle().zip(replicas.iter().cycle());
        for (id, service) in all.take(ids.len() * SECONDS) {
            ticks.tick().await;
            let url = format!("http://{}/v1/schedules/{id}/trigger", service.public);
            let call = client.post(url).header("x-api-key", &service.key).send();
            calls.push(tokio::spawn(async move {
                let answer = call.await.expect("an answer");
                assert_eq!(answer.status().as_u16(), 200);
            }));
        }
        for call in calls {
            call.await.expect("a trigger that is accepted");
        }
    });
}
