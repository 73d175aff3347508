//! Kills of the notifier during a delivery.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{channel, id, prefer, settled, verify};
use crate::harness::process::Installation;
use crate::harness::provider::{Provider, Received};
use crate::harness::recorder::Recorder;

/// Kills the server at this point of its first delivery and restarts it. Returns the delivery and
/// the received alerts.
async fn killed(point: &str) -> (Value, Vec<Received>) {
    let (target, provider) = (Recorder::start().await, Provider::start().await);
    let faults = TempDir::new().expect("a folder");
    let mut installation = Installation::new(&[("PUNCTUAL_NOTIFY_RETRY_SECONDS", "1,2,3,4")]);
    let given = [("PUNCTUAL_TEST_FAULTS", faults.path().display().to_string())];
    let mut server = installation.launch(&given);
    server.ready().await;
    let api = installation.client(&server);
    let made = channel(&api, "webhook", json!({ "url": provider.url("/hook") })).await;
    verify(&api, id(&made)).await;
    let fields = json!({ "name": "Nightly report", "maxRetries": 1 });
    let schedule = api.create(&target.url("/seq/500"), fields).await;
    prefer(&api, &schedule, &[id(&made)], json!({})).await;
    std::fs::write(faults.path().join(point), "die").expect("written");
    api.trigger(&schedule).await;
    assert!(!server.ended(Duration::from_secs(20)).await.success(), "it dies there");

    let server = installation.serve().await;
    let api = installation.client(&server);
    let all = settled(&api, &format!("scheduleId={schedule}"), 1).await;
    assert_eq!(all.len(), 1, "{all:?}");
    (all[0].clone(), provider.alerts())
}

#[tokio::test]
async fn killed_before_it_sends_it_sends_after_the_next_start() {
    let (delivery, alerts) = killed("AfterDeliveryClaim").await;
    assert_eq!(delivery["status"], "DELIVERED", "{delivery}");
    assert_eq!(alerts.len(), 1);
    assert_eq!(alerts[0].json()["id"], delivery["eventId"]);
}

/// The notifier does not know whether the alert arrived, so it sends it again with the same event
/// id.
#[tokio::test]
async fn killed_before_it_records_it_sends_again_with_the_same_event_id() {
    let (delivery, alerts) = killed("AfterAlert").await;
    assert_eq!(delivery["status"], "DELIVERED", "{delivery}");
    assert_eq!(delivery["tries"][0]["errorCode"], "NOTIFIER_LOST", "{delivery}");
    assert_eq!(delivery["tries"].as_array().expect("tries").len(), 2, "{delivery}");
    assert_eq!(alerts.len(), 2, "sent, lost and sent again");
    assert_eq!(alerts[0].headers["webhook-id"], alerts[1].headers["webhook-id"]);
    assert!(alerts.iter().all(|alert| alert.json()["id"] == delivery["eventId"]));
}
