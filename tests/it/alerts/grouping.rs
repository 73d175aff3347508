//! Flood control and incidents.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{AlertSetup, deliveries, settled};
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
    let setup = AlertSetup::start().await;
    let (channel, _) = setup.webhook("/hook").await;
    let bad = setup.service.target.url("/seq/500");
    let fields = json!({ "maxRetries": 1, "name": "one of many" });
    let many: Vec<Value> =
        (0..200).map(|_| crate::harness::client::schedule(&bad, fields.clone())).collect();
    let made = setup.api().post("/v1/schedules/bulk", &json!(many)).await;
    let schedules = made.data()["schedules"].as_array().expect("schedules").clone();
    let ids: Vec<&str> = schedules.iter().map(super::id).collect();
    for schedule in &ids {
        let wanted = json!({ "notifyOnRecovery": true });
        super::prefer(setup.api(), schedule, &[&channel], wanted).await;
    }
    for schedule in &ids {
        setup.api().trigger(schedule).await;
    }
    let opened = setup.provider.alerted(1).await;
    assert_eq!(opened[0].kind(), "incident.opened");
    let incident = &opened[0].json()["data"]["incident"];
    assert!(incident["schedules"].as_u64().expect("a count") >= 5, "{incident}");
    assert!(bad.contains(incident["host"].as_str().expect("a host")), "{incident}");
    until("all 200 alerts are merged", async || {
        let merged = setup.api().get("/v1/notification-deliveries?status=MERGED&limit=1").await;
        (merged.data()["total"] == 200).then_some(())
    })
    .await;
    let good = json!({ "endpoint": setup.service.target.url("/ok") });
    for schedule in &ids {
        let path = format!("/v1/schedules/{schedule}");
        setup.api().call("PATCH", &path, Some(&good)).await.expect("an answer").data();
    }
    for schedule in &ids {
        setup.api().trigger(schedule).await;
    }
    let alerts = setup.provider.alerted(2).await;
    assert_eq!(alerts[1].kind(), "incident.closed");
    assert_eq!(alerts[1].json()["data"]["incident"]["schedules"], 200);
    assert_eq!(alerts[1].json()["data"]["incident"]["failing"], 0);
    let merged = setup.api().get("/v1/notification-deliveries?status=MERGED&limit=1").await;
    assert_eq!(merged.data()["total"], 400, "each is recorded");
    assert_eq!(kinds(&setup.provider.alerts()).len(), 2, "{:?}", kinds(&setup.provider.alerts()));
    assert_eq!(setup.provider.alerts().len(), 2);
}

#[tokio::test]
async fn alerts_beyond_the_rate_of_a_channel_become_one_digest() {
    // The minute is real here. So the limit is small, and the test does not wait for the digest to
    // be sent.
    let setup =
        AlertSetup::with(&[("notify.channel_per_minute", "3"), ("notify.incident_schedules", "0")])
            .await;
    let (channel, _) = setup.webhook("/hook").await;
    let schedule = setup.schedule("/seq/500", &[&channel], json!({})).await;
    for _ in 0..10 {
        setup.run(&schedule).await;
    }
    let query = format!("scheduleId={schedule}");
    let all = settled(setup.api(), &query, 10).await;
    let count = |status: &str| all.iter().filter(|one| one["status"] == status).count();
    assert_eq!((count("DELIVERED"), count("MERGED")), (3, 7));
    assert_eq!(setup.provider.alerts().len(), 3);
    let waiting = deliveries(setup.api(), "status=PENDING").await;
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert_eq!(waiting[0]["type"], "digest");
    let merged = all.iter().filter(|one| one["status"] == "MERGED");
    assert!(merged.into_iter().all(|one| one["mergedInto"] == waiting[0]["id"]));
}

#[tokio::test]
async fn schedules_of_several_hosts_are_reported_one_by_one() {
    let setup = AlertSetup::start().await;
    let (channel, _) = setup.webhook("/hook").await;
    let mut targets = Vec::new();
    for _ in 0..6 {
        targets.push(Recorder::start().await);
    }
    let mut schedules = Vec::new();
    for target in &targets {
        schedules.push(setup.schedule_at(&target.url("/seq/500"), &[&channel], json!({})).await);
    }
    for schedule in &schedules {
        setup.api().trigger(schedule).await;
    }
    let alerts = setup.provider.alerted(6).await;
    assert_eq!(kinds(&alerts), BTreeMap::from([("job.failed".to_owned(), 6)]));
}
