//! The alerts for each outcome and preference.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use standardwebhooks::Webhook;

use super::{AlertSetup, channel, deliveries, id, prefer, settled, verify};
use crate::harness::smtp::MailServer;

#[tokio::test]
async fn a_failure_is_reported_once_within_seconds_and_can_be_verified() {
    let setup = AlertSetup::start().await;
    let (channel, secret) = setup.webhook("/hook").await;
    let schedule = setup.schedule("/seq/500", &[&channel], json!({})).await;
    let began = Instant::now();
    let job = setup.run(&schedule).await;
    let alerts = setup.provider.alerted(1).await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let alert = alerts[0].json();
    assert_eq!(alert["type"], "job.failed");
    assert_eq!(alert["version"], "1");
    assert_eq!(alert["data"]["schedule"]["id"], schedule.as_str());
    assert_eq!(alert["data"]["schedule"]["name"], "Nightly report");
    assert_eq!(alert["data"]["job"]["id"], job.as_str());
    assert_eq!(alert["data"]["job"]["statusCode"], 500);
    assert_eq!(alert["data"]["job"]["response"], "told");
    assert_eq!(alert["data"]["consecutiveFailures"], 1);
    let webhook = Webhook::new(&secret).expect("a secret");
    webhook.verify(&alerts[0].body, &alerts[0].headers).expect("signed");
    assert_eq!(alerts[0].headers["webhook-id"], alert["id"].as_str().expect("an id"));
    let all = settled(setup.api(), &format!("scheduleId={schedule}"), 1).await;
    assert_eq!(all.len(), 1);
    assert_eq!(all[0]["status"], "DELIVERED");
    assert_eq!(all[0]["eventId"], alert["id"]);
    assert_eq!(all[0]["tries"].as_array().expect("tries").len(), 1);
    assert_eq!(setup.provider.alerts().len(), 1, "once");
}

#[tokio::test]
async fn each_outcome_is_reported_as_the_preference_says() {
    let setup = AlertSetup::start().await;
    let (channel, _) = setup.webhook("/hook").await;
    let fails = setup.schedule("/seq/500", &[&channel], json!({ "notifyOn": "success" })).await;
    let works = setup.schedule("/ok", &[&channel], json!({ "notifyOn": "both" })).await;
    setup.run(&fails).await;
    setup.run(&works).await;
    let alerts = setup.provider.alerted(1).await;
    assert_eq!(alerts[0].kind(), "job.succeeded");
    assert_eq!(alerts[0].json()["data"]["schedule"]["id"], works.as_str());
    assert!(deliveries(setup.api(), &format!("scheduleId={fails}")).await.is_empty());
    // With `none`, no further events are raised.
    prefer(setup.api(), &works, &[], json!({ "notifyOn": "none" })).await;
    setup.run(&works).await;
    prefer(setup.api(), &fails, &[&channel], json!({})).await;
    setup.run(&fails).await;
    let alerts = setup.provider.alerted(2).await;
    assert_eq!(alerts[1].kind(), "job.failed");
    assert_eq!(alerts.len(), 2);
}

#[tokio::test]
async fn a_recovery_is_reported_if_the_failure_was() {
    let setup = AlertSetup::start().await;
    let (channel, _) = setup.webhook("/hook").await;
    let preference = json!({ "failureThreshold": 2, "notifyOnRecovery": true });
    let schedule = setup.schedule("/seq/500", &[&channel], preference).await;
    setup.run(&schedule).await;
    setup.run(&schedule).await;
    let alerts = setup.provider.alerted(1).await;
    assert_eq!(alerts[0].json()["data"]["consecutiveFailures"], 2);
    let path = format!("/v1/schedules/{schedule}");
    let change = json!({ "endpoint": setup.service.target.url("/ok") });
    setup.api().call("PATCH", &path, Some(&change)).await.expect("an answer").data();
    setup.run(&schedule).await;
    let alerts = setup.provider.alerted(2).await;
    assert_eq!(alerts[1].kind(), "schedule.recovered");
    assert_eq!(alerts[1].json()["data"]["consecutiveFailures"], 2);
    setup.run(&schedule).await;
    settled(setup.api(), &format!("scheduleId={schedule}"), 2).await;
    assert_eq!(setup.provider.alerts().len(), 2, "a success after a recovery is nothing new");
}

#[tokio::test]
async fn a_cancelled_job_is_not_reported() {
    let setup = AlertSetup::start().await;
    let (channel, _) = setup.webhook("/hook").await;
    let hangs = setup.schedule("/hang", &[&channel], json!({})).await;
    let job = setup.api().trigger(&hangs).await;
    setup.api().job_when(&job, "RUNNING").await;
    setup.api().post(&format!("/v1/jobs/{job}/cancel"), &Value::Null).await.data();
    assert_eq!(setup.api().finished(&job).await["errorCode"], "CANCELLED");
    let fails = setup.schedule("/seq/500", &[&channel], json!({})).await;
    setup.run(&fails).await;
    let alerts = setup.provider.alerted(1).await;
    assert_eq!(alerts[0].json()["data"]["schedule"]["id"], fails.as_str());
    assert!(deliveries(setup.api(), &format!("scheduleId={hangs}")).await.is_empty());
}

#[tokio::test]
async fn every_chat_gets_alerts_in_its_own_format() {
    let provider = crate::harness::provider::Provider::start().await;
    let telegram = provider.url("");
    let setup = AlertSetup::with(&[("notify.telegram_url", &telegram)]).await;
    let url = |path: &str| setup.provider.url(path);
    let slack =
        channel(setup.api(), "slack", json!({ "webhookUrl": url("/services/T0/B0/secret") }));
    let discord =
        channel(setup.api(), "discord", json!({ "webhookUrl": url("/api/webhooks/1/secret") }));
    let bot = json!({ "botToken": "123456789:AAabcdefghijklmnopqrstuvwxyz0123456", "chatId": 42 });
    let telegram = channel(setup.api(), "telegram", bot);
    let (slack, discord, telegram) = tokio::join!(slack, discord, telegram);
    provider.set_script(|_, _| {
        crate::harness::provider::Behaviour::Answer(200, r#"{"ok":true,"result":{"message_id":1}}"#)
    });
    let channels = [id(&slack), id(&discord), id(&telegram)];
    for channel in channels {
        verify(setup.api(), channel).await;
    }
    let schedule = setup.schedule("/seq/503", &channels, json!({})).await;
    setup.run(&schedule).await;
    let chats = setup.provider.alerted(2).await;
    let of = |path: &str| chats.iter().find(|one| one.path.starts_with(path)).expect(path);
    let slack = of("/services/T0/B0/secret").json();
    assert!(slack["text"].as_str().expect("text").contains("Nightly report"), "{slack}");
    assert!(slack["blocks"].is_array());
    let discord = of("/api/webhooks/1/secret").json();
    assert_eq!(discord["allowed_mentions"], json!({ "parse": [] }));
    let telegram = provider.alerted(1).await;
    assert!(telegram[0].path.ends_with("/sendMessage"), "{}", telegram[0].path);
    assert_eq!(telegram[0].json()["chat_id"], 42);
    settled(setup.api(), &format!("scheduleId={schedule}&status=DELIVERED"), 3).await;
}

#[tokio::test]
async fn a_mail_arrives_with_text_and_html_and_a_way_out() {
    let mail = MailServer::start().await;
    let url = format!("smtp://127.0.0.1:{}?tls=off", mail.port);
    let setup = AlertSetup::with(&[
        ("mail.url", &url),
        ("mail.from", "alerts@punctual.example"),
        ("http.public_url", "https://punctual.example"),
    ])
    .await;
    let made = channel(setup.api(), "email", json!({ "to": "Ops@Example.com" })).await;
    verify(setup.api(), id(&made)).await;
    mail.received(1).await;
    let schedule = setup.schedule("/seq/500", &[id(&made)], json!({})).await;
    let job = setup.run(&schedule).await;
    let mails = mail.received(2).await;
    let of = |one: &&crate::harness::smtp::Received| one.header("Subject").contains("failed");
    let alert = mails.iter().find(of).expect("the alert");
    assert_eq!(alert.header("To"), "ops@example.com");
    assert_eq!(alert.header("From"), "alerts@punctual.example");
    assert!(alert.header("Content-Type").starts_with("multipart/alternative"));
    assert_eq!(alert.header("List-Unsubscribe-Post"), "List-Unsubscribe=One-Click");
    assert!(alert.text.contains(&job), "a link to the job");
    let way_out = alert.header("List-Unsubscribe").trim_matches(['<', '>']).to_owned();
    let path = way_out.strip_prefix("https://punctual.example").expect("our address");
    let reply = setup.api().call("POST", path, None).await.expect("an answer");
    assert_eq!(reply.status, 200, "{reply:?}");
    let now = setup.api().get(&format!("/v1/notification-channels/{}", id(&made))).await;
    assert_eq!(now.data()["verified"], false);
    let path = format!("/v1/schedules/{schedule}/notifications");
    let preference = setup.api().get(&path).await;
    assert_eq!(preference.data()["channels"], json!([]));
    assert!(preference.data()["warning"].is_string(), "{preference:?}");
}
