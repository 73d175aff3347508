//! Broken channels: they delay nothing and lose nothing.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{AlertSetup, deliveries, settled};
use crate::harness::provider::Behaviour;
use crate::harness::wait::until;

#[tokio::test]
async fn a_refused_alert_is_tried_five_times_and_can_be_sent_again() {
    let setup = AlertSetup::start().await;
    let (channel, _) = setup.webhook("/hook").await;
    setup.provider.set_script(|_, _| Behaviour::Answer(500, "no"));
    let schedule = setup.schedule("/seq/500", &[&channel], json!({})).await;
    setup.run(&schedule).await;
    let query = format!("scheduleId={schedule}");
    let all = settled(setup.api(), &query, 1).await;
    assert_eq!(
        (&all[0]["status"], &all[0]["errorCode"]),
        (&json!("FAILED"), &json!("HTTP_STATUS"))
    );
    assert_eq!(all[0]["statusCode"], 500);
    let tries = all[0]["tries"].as_array().expect("tries");
    assert_eq!(tries.len(), 5, "{tries:?}");
    assert!(tries.iter().all(|one| one["response"] == "no" && one["statusCode"] == 500));
    let alerts = setup.provider.alerts();
    assert_eq!(alerts.len(), 5);
    assert!(alerts.iter().all(|one| one.event() == alerts[0].event()), "one event");
    let span = alerts[4].at - alerts[0].at;
    assert!(span > Duration::from_secs(3) && span < Duration::from_secs(20), "{span:?}");
    setup.provider.set_script(|_, _| Behaviour::Answer(200, "yes"));
    let id = all[0]["id"].as_str().expect("an id");
    let path = format!("/v1/notification-deliveries/{id}/redeliver");
    setup.api().post(&path, &Value::Null).await.data();
    let all = until("the alert is delivered after its redelivery", async || {
        let all = deliveries(setup.api(), &query).await;
        (all[0]["status"] == "DELIVERED").then_some(all)
    })
    .await;
    assert_eq!(all[0]["tries"].as_array().expect("tries").len(), 6);
    assert_eq!(setup.provider.alerts()[5].event(), alerts[0].event());
    let again = setup.api().post(&path, &Value::Null).await;
    assert_eq!((again.status, &again.body["error"]["code"]), (409, &json!("CONFLICT")));
}

#[tokio::test]
async fn a_channel_that_asks_to_slow_down_is_left_alone() {
    let setup = AlertSetup::start().await;
    let (channel, _) = setup.webhook("/hook").await;
    let tests = setup.provider.all().len();
    setup.provider.set_script(move |before, _| match before - tests {
        0 => Behaviour::SlowDown(3),
        _ => Behaviour::Answer(200, "ok"),
    });
    let schedule = setup.schedule("/seq/500", &[&channel], json!({})).await;
    setup.run(&schedule).await;
    let first = setup.provider.alerted(1).await[0].at;
    let query = format!("scheduleId={schedule}");
    until("the first try is recorded", async || {
        let all = deliveries(setup.api(), &query).await;
        (!all[0]["tries"][0].is_null()).then_some(())
    })
    .await;
    setup.run(&schedule).await;
    let all = settled(setup.api(), &query, 2).await;
    assert!(all.iter().all(|one| one["status"] == "DELIVERED"), "{all:?}");
    let alerts = setup.provider.alerts();
    assert_eq!(alerts.len(), 3, "the second one waited, too");
    assert!(alerts[1].at - first >= Duration::from_secs(3), "{:?}", alerts[1].at - first);
}

#[tokio::test]
async fn a_channel_whose_destination_is_gone_is_unverified_with_a_reason() {
    let setup = AlertSetup::start().await;
    let (channel, _) = setup.webhook("/hook").await;
    setup.provider.set_script(|_, _| Behaviour::Answer(410, "gone"));
    let schedule = setup.schedule("/seq/500", &[&channel], json!({})).await;
    setup.run(&schedule).await;
    let all = settled(setup.api(), &format!("scheduleId={schedule}"), 1).await;
    assert_eq!(
        (&all[0]["status"], &all[0]["errorCode"]),
        (&json!("FAILED"), &json!("CHANNEL_GONE"))
    );
    assert_eq!(setup.provider.alerts().len(), 1, "no more tries");
    let now = setup.api().get(&format!("/v1/notification-channels/{channel}")).await;
    assert_eq!(now.data()["verified"], false);
    let path = format!("/v1/schedules/{schedule}/notifications");
    let preference = setup.api().get(&path).await;
    assert_eq!(preference.data()["channels"], json!([]));
    assert!(preference.data()["warning"].is_string(), "{preference:?}");
    // From now on the schedule has no channel, and that is recorded.
    setup.run(&schedule).await;
    let all = settled(setup.api(), &format!("scheduleId={schedule}"), 2).await;
    assert_eq!(all[0]["errorCode"], "NO_CHANNEL");
    assert_eq!(all[0]["channelId"], Value::Null);
}

#[tokio::test]
async fn a_deleted_channel_ends_its_waiting_alerts() {
    let setup = AlertSetup::with(&[("notify.retry_seconds", "3600,7200,10800,14400")]).await;
    let (channel, _) = setup.webhook("/hook").await;
    setup.provider.set_script(|_, _| Behaviour::Answer(500, "no"));
    let schedule = setup.schedule("/seq/500", &[&channel], json!({})).await;
    setup.run(&schedule).await;
    setup.provider.alerted(1).await;
    let query = format!("scheduleId={schedule}");
    until("the first try is recorded", async || {
        let all = deliveries(setup.api(), &query).await;
        (all[0]["nextAttemptAtUtc"].is_string()).then_some(())
    })
    .await;
    let path = format!("/v1/notification-channels/{channel}");
    setup.api().call("DELETE", &path, None).await.expect("an answer").data();
    let all = settled(setup.api(), &query, 1).await;
    assert_eq!(all[0]["errorCode"], "CHANNEL_DELETED");
    let path = format!("/v1/schedules/{schedule}/notifications");
    let preference = setup.api().get(&path).await;
    assert!(preference.data()["warning"].as_str().expect("one").contains("the webhook"));
}

#[tokio::test]
async fn a_channel_that_hangs_delays_neither_jobs_nor_others() {
    let setup = AlertSetup::with(&[("notify.incident_schedules", "0")]).await;
    let (hangs, _) = setup.webhook("/hangs").await;
    let (works, _) = setup.webhook("/works").await;
    setup.provider.set_script(|_, one| match one.path.as_str() {
        "/hangs" => Behaviour::Hang,
        _ => Behaviour::Answer(200, "ok"),
    });
    let stuck = setup.schedule("/seq/500", &[&hangs], json!({})).await;
    for _ in 0..20 {
        setup.api().trigger(&stuck).await;
    }
    until("the hanging channel has five requests", async || {
        (setup.provider.alerts().len() >= 5).then_some(())
    })
    .await;
    let fine = setup.schedule("/seq/500", &[&works], json!({})).await;
    let began = Instant::now();
    setup.run(&fine).await;
    until("the other channel gets its alert", async || {
        setup.provider.alerts().iter().any(|one| one.path == "/works").then_some(())
    })
    .await;
    // A try to the hanging channel takes 10 s.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let under_way = setup.provider.alerts().iter().filter(|one| one.path == "/hangs").count();
    assert!((5..=16).contains(&under_way), "no more at once than a channel may have: {under_way}");
    setup.provider.release();
    let all = settled(setup.api(), &format!("scheduleId={stuck}"), 20).await;
    assert!(all.iter().all(|one| one["status"] == "DELIVERED"), "{all:?}");
}
