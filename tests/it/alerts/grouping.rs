//! Flood control and incidents.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Told, deliveries, settled};
use crate::harness::provider::Received;
use crate::harness::recorder::Recorder;
use crate::harness::wait::until;

fn kinds(alerts: &[Received]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for alert in alerts {
        *kinds.entry(alert.kind()).or_default() += 1;
    }
    kinds
}

#[tokio::test]
async fn two_hundred_schedules_of_a_host_make_one_alert_and_one_recovery() {
    let told = Told::start().await;
    let (channel, _) = told.webhook("/hook").await;
    let bad = told.service.target.url("/seq/500");
    let fields = json!({ "maxRetries": 1, "name": "one of many" });
    let many: Vec<Value> =
        (0..200).map(|_| crate::harness::client::schedule(&bad, fields.clone())).collect();
    let made = told.api().post("/v1/schedules/bulk", &json!(many)).await;
    let schedules = made.data()["schedules"].as_array().expect("schedules").clone();
    let ids: Vec<&str> = schedules.iter().map(super::id).collect();
    for schedule in &ids {
        let wanted = json!({ "notifyOnRecovery": true });
        super::prefer(told.api(), schedule, &[&channel], wanted).await;
    }
    for schedule in &ids {
        told.api().trigger(schedule).await;
    }
    let opened = told.provider.alerted(1).await;
    assert_eq!(opened[0].kind(), "incident.opened");
    let incident = &opened[0].json()["data"]["incident"];
    assert!(incident["schedules"].as_u64().expect("a count") >= 5, "{incident}");
    assert!(bad.contains(incident["host"].as_str().expect("a host")), "{incident}");
    until("all are merged", async || {
        let merged = told.api().get("/v1/notification-deliveries?status=MERGED&limit=1").await;
        (merged.data()["total"] == 200).then_some(())
    })
    .await;
    let good = json!({ "endpoint": told.service.target.url("/ok") });
    for schedule in &ids {
        let path = format!("/v1/schedules/{schedule}");
        told.api().call("PATCH", &path, Some(&good)).await.expect("an answer").data();
    }
    for schedule in &ids {
        told.api().trigger(schedule).await;
    }
    let alerts = told.provider.alerted(2).await;
    assert_eq!(alerts[1].kind(), "incident.closed");
    assert_eq!(alerts[1].json()["data"]["incident"]["schedules"], 200);
    assert_eq!(alerts[1].json()["data"]["incident"]["failing"], 0);
    let merged = told.api().get("/v1/notification-deliveries?status=MERGED&limit=1").await;
    assert_eq!(merged.data()["total"], 400, "each is recorded");
    assert_eq!(kinds(&told.provider.alerts()).len(), 2, "{:?}", kinds(&told.provider.alerts()));
    assert_eq!(told.provider.alerts().len(), 2);
}

#[tokio::test]
async fn alerts_beyond_the_rate_of_a_channel_become_one_digest() {
    // The minute is real here. So the limit is small, and the test does not wait for the digest to
    // be sent.
    let told =
        Told::with(&[("notify.channel_per_minute", "3"), ("notify.incident_schedules", "0")]).await;
    let (channel, _) = told.webhook("/hook").await;
    let schedule = told.schedule("/seq/500", &[&channel], json!({})).await;
    for _ in 0..10 {
        told.run(&schedule).await;
    }
    let query = format!("scheduleId={schedule}");
    let all = settled(told.api(), &query, 10).await;
    let count = |status: &str| all.iter().filter(|one| one["status"] == status).count();
    assert_eq!((count("DELIVERED"), count("MERGED")), (3, 7));
    assert_eq!(told.provider.alerts().len(), 3);
    let waiting = deliveries(told.api(), "status=PENDING").await;
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert_eq!(waiting[0]["type"], "digest");
    let merged = all.iter().filter(|one| one["status"] == "MERGED");
    assert!(merged.into_iter().all(|one| one["mergedInto"] == waiting[0]["id"]));
}

#[tokio::test]
async fn schedules_of_several_hosts_are_reported_one_by_one() {
    let told = Told::start().await;
    let (channel, _) = told.webhook("/hook").await;
    let mut targets = Vec::new();
    for _ in 0..6 {
        targets.push(Recorder::start().await);
    }
    let mut schedules = Vec::new();
    for target in &targets {
        schedules.push(told.schedule_at(&target.url("/seq/500"), &[&channel], json!({})).await);
    }
    for schedule in &schedules {
        told.api().trigger(schedule).await;
    }
    let alerts = told.provider.alerted(6).await;
    assert_eq!(kinds(&alerts), BTreeMap::from([("job.failed".to_owned(), 6)]));
}
