//! Receivers that respond slowly or with large bodies.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{AlertSetup, channel, deliveries, id, settled};
use crate::harness::provider::Behaviour;
use crate::harness::wait::until;

/// The expected time limit of a receiver, and the delay that a busy machine may add.
const BOUND: std::ops::Range<Duration> = Duration::from_secs(9)..Duration::from_secs(16);

#[tokio::test]
async fn a_receiver_that_hangs_or_drips_is_left_after_ten_seconds() {
    let setup = AlertSetup::with(&[("notify.retry_seconds", "3600,7200,10800,14400")]).await;
    let (works, _) = setup.webhook("/alert").await;
    setup.provider.set_script(|_, one| match one.path.as_str() {
        "/hang" => Behaviour::Hang,
        _ => Behaviour::Drip,
    });
    let test = async |path: &str| {
        let made =
            channel(setup.api(), "webhook", json!({ "url": setup.provider.url(path) })).await;
        let began = Instant::now();
        let path = format!("/v1/notification-channels/{}/verify", id(&made));
        let reply = setup.api().post(&path, &Value::Null).await;
        assert_eq!(reply.status, 422, "{reply:?}");
        assert_eq!(reply.body["error"]["details"], json!({ "reason": "TIMEOUT" }), "{reply:?}");
        assert!(BOUND.contains(&began.elapsed()), "{:?}", began.elapsed());
    };
    let alert = async {
        let schedule = setup.schedule("/seq/500", &[&works], json!({})).await;
        setup.run(&schedule).await;
        until("the try has ended", async || {
            let all = deliveries(setup.api(), &format!("scheduleId={schedule}")).await;
            let one = all.first()?["tries"].get(0)?.clone();
            Some(one)
        })
        .await
    };
    let ((), (), tried) = tokio::join!(test("/hang"), test("/drip"), alert);
    assert_eq!(tried["errorCode"], "TIMEOUT", "{tried}");
}

#[tokio::test]
async fn a_large_answer_does_not_matter() {
    const MEGABYTE: usize = 1_000_000;
    let setup = AlertSetup::start().await;
    let (channel, _) = setup.webhook("/hook").await;
    let before = setup.provider.all().len();
    setup.provider.set_script(move |number, _| match number - before {
        0 => Behaviour::Large(500, MEGABYTE),
        1 => Behaviour::Large(500, 5 * MEGABYTE),
        _ => Behaviour::Large(200, MEGABYTE),
    });
    let schedule = setup.schedule("/seq/500", &[&channel], json!({})).await;
    setup.run(&schedule).await;
    let all = settled(setup.api(), &format!("scheduleId={schedule}"), 1).await;
    assert_eq!(all[0]["status"], "DELIVERED", "{all:?}");
    let tries = all[0]["tries"].as_array().expect("tries");
    assert_eq!(tries.len(), 3);
    for made in tries {
        let response = made["response"].as_str().expect("an excerpt");
        assert_eq!(response.chars().count(), 500);
    }
}

#[tokio::test]
async fn a_broken_connection_is_tried_again_and_a_slow_receiver_is_not() {
    let setup = AlertSetup::start().await;
    let (channel, _) = setup.webhook("/hook").await;
    let before = setup.provider.all().len();
    setup.provider.set_script(move |number, _| match number - before {
        0 => Behaviour::Break,
        _ => Behaviour::After(Duration::from_secs(3)),
    });
    let schedule = setup.schedule("/seq/500", &[&channel], json!({})).await;
    setup.run(&schedule).await;
    let all = settled(setup.api(), &format!("scheduleId={schedule}"), 1).await;
    assert_eq!(all[0]["status"], "DELIVERED", "{all:?}");
    assert_eq!(all[0]["tries"][0]["errorCode"], "NETWORK", "{all:?}");
    assert_eq!(setup.provider.alerts().len(), 2, "{all:?}");
}
