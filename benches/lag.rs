//! The start lag: from the instant a job is scheduled for to its request's arrival at the target,
//! at 200 jobs a second, by triggers spread evenly and by schedules due at the same minute.
//!
//! `cargo bench --bench lag` takes three minutes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark measures real time and prints it"
)]

mod support;

use std::time::Duration;

use support::load;
use support::numbers::summary;
use support::service::Service;
use support::target::Target;

const PER_SECOND: usize = 200;
const SECONDS: usize = 30;
const PATIENCE: Duration = Duration::from_secs(70);

fn main() {
    let target = Target::start();
    let service = Service::start(&[]);

    let (ids, _) = service.create(PER_SECOND, "0 0 1 1 *", &target.url());
    trigger_evenly(&service, &ids);
    target.wait_for(PER_SECOND * SECONDS, PATIENCE);
    println!("{PER_SECOND} triggers a second for {SECONDS} s: lag {}", summary(target.take_lags()));

    service.create(PER_SECOND, "* * * * *", &target.url());
    for _ in 0..2 {
        target.wait_for(PER_SECOND, PATIENCE);
        println!("{PER_SECOND} due at one minute: lag {}", summary(target.take_lags()));
    }
}

/// Triggers one schedule after the other, without waiting for the answers.
fn trigger_evenly(service: &Service, ids: &[String]) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    load::runtime().block_on(async {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / 200);
        let mut calls = Vec::new();
        for id in ids.iter().cycle().take(PER_SECOND * SECONDS) {
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
