//! Signed requests, verified with the reference library of Standard Webhooks.

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::Executor;
use standardwebhooks::Webhook;

use super::end;
use crate::harness::app::Service;
use crate::harness::recorder::Hit;
use crate::harness::wait::{until, within};

const HEADERS: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];

fn verifies(hit: &Hit, secret: &str) -> bool {
    let webhook = Webhook::new(secret).expect("a secret");
    webhook.verify(&hit.body, &hit.headers).is_ok()
}

/// Runs a schedule once with signed requests. Returns the received requests.
async fn signed(service: &Service, path: &str, fields: Value) -> Vec<Hit> {
    let mut signed = json!({ "signRequests": true });
    signed.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
    let id = service.api.run(&service.target.url(path), signed).await;
    let job = service.api.finished(&id).await;
    assert_eq!(job["status"], "SUCCESS", "{job}");
    service.target.hits_of(&id)
}

#[tokio::test]
async fn every_request_is_signed() {
    let service = Service::start().await;
    let secrets = service.signing_secrets().await;
    assert_eq!(secrets.len(), 1);
    for fields in [
        json!({}),
        json!({ "body": "{\"a\": [1, \"ü\"]}" }),
        json!({ "body": "plain, ünïcode \u{1f600}\r\n.1.2", "httpMethod": "PUT" }),
        json!({ "httpMethod": "GET", "body": "not sent" }),
        json!({ "httpMethod": "DELETE" }),
    ] {
        let hits = signed(&service, "/ok", fields.clone()).await;
        let [hit] = &hits[..] else { panic!("{hits:?}") };
        assert!(verifies(hit, &secrets[0]), "{fields}");
        assert_eq!(hit.header("webhook-id"), hit.job);
        assert_eq!(hit.header("webhook-signature").matches("v1,").count(), 1);
        let mut other = hit.clone();
        other.body = [&hit.body[..], b"x"].concat().into();
        assert!(!verifies(&other, &secrets[0]), "{fields}");
    }
}

#[tokio::test]
async fn attempts_have_one_id_and_a_time_each() {
    let service = Service::start().await;
    let secrets = service.signing_secrets().await;
    let hits = signed(&service, "/later/1", json!({ "body": "{}", "maxRetries": 2 })).await;
    assert_eq!(hits.len(), 2);
    assert!(
        hits.iter().all(|hit| verifies(hit, &secrets[0]) && hit.header("webhook-id") == hit.job)
    );
    for hit in &hits {
        let at: i64 = hit.header("webhook-timestamp").parse().expect("a number");
        assert!((0..=10).contains(&(hit.wall_ms / 1_000 - at)), "{at} {}", hit.wall_ms);
    }
    assert_ne!(hits[0].header("webhook-timestamp"), hits[1].header("webhook-timestamp"));
}

#[tokio::test]
async fn users_cannot_forge_a_signature() {
    let service = Service::start().await;
    let own =
        json!({ "Webhook-Id": "a.b", "webhook-timestamp": "1", "WEBHOOK-SIGNATURE": "v1,AA" });
    let fields = json!({ "headers": own.to_string() });
    let hits = signed(&service, "/ok", fields.clone()).await;
    // Each header occurs once, which `header` checks.
    assert_eq!(hits[0].header("webhook-id"), hits[0].job);
    assert!(verifies(&hits[0], &service.signing_secrets().await[0]));
    // In unsigned requests, these headers are the user's own.
    let id = service.api.run(&service.target.url("/ok"), fields).await;
    service.api.finished(&id).await;
    assert_eq!(service.target.hits_of(&id)[0].header("webhook-id"), "a.b");
}

#[tokio::test]
async fn requests_without_signing_are_not_signed() {
    let service = Service::start().await;
    let schedule = service.api.create(&service.target.url("/ok"), json!({})).await;
    let hit = async || {
        let id = service.api.trigger(&schedule).await;
        service.api.finished(&id).await;
        service.target.hits_of(&id).swap_remove(0)
    };
    let unsigned = hit().await;
    assert!(HEADERS.iter().all(|name| !unsigned.headers.contains_key(*name)), "{unsigned:?}");
    // Signing can be enabled later.
    let path = format!("/v1/schedules/{schedule}");
    let changed = service.api.call("PATCH", &path, Some(&json!({ "signRequests": true }))).await;
    assert_eq!(changed.expect("an answer").data()["signRequests"], true);
    assert!(verifies(&hit().await, &service.signing_secrets().await[0]));
}

#[tokio::test]
async fn two_secrets_sign_while_one_takes_the_place_of_the_other() {
    let service = Service::start().await;
    let old = service.signing_secrets().await.swap_remove(0);
    let schedule =
        service.api.create(&service.target.url("/ok"), json!({ "signRequests": true })).await;
    let hit = async || {
        let id = service.api.trigger(&schedule).await;
        service.api.finished(&id).await;
        service.target.hits_of(&id).swap_remove(0)
    };
    service.rotate_signing_secret(Duration::from_secs(30)).await;
    let both = hit().await;
    let new = service.signing_secrets().await.swap_remove(0);
    assert_ne!(new, old);
    assert!(verifies(&both, &new) && verifies(&both, &old));
    let mut store = service.store().await;
    within(Duration::from_secs(60), "the overlap ends", async || {
        let valid = "SELECT count(*) FROM signing_secrets WHERE expires_at > unixepoch() * 1000";
        let valid = sqlx::query_scalar::<_, i64>(valid).fetch_one(&mut store).await;
        (valid.expect("counted") == 0).then_some(())
    })
    .await;
    let alone = until("only the new secret signs", async || {
        let hit = hit().await;
        assert!(verifies(&hit, &new), "it signs from the rotation on");
        (!verifies(&hit, &old)).then_some(hit)
    })
    .await;
    assert_eq!(alone.header("webhook-signature").matches("v1,").count(), 1);
    assert_eq!(both.header("webhook-signature").matches("v1,").count(), 2);
    let first = both.header("webhook-signature").split(' ').next().expect("a signature");
    let mut of_first = both.clone();
    of_first.headers.insert("webhook-signature", first.parse().expect("a value"));
    assert!(verifies(&of_first, &new), "the newest comes first");
}

#[tokio::test]
async fn accounts_sign_with_secrets_of_their_own() {
    let service = Service::start().await;
    let other_account = service.other_account_client("second").await;
    let fields = json!({ "signRequests": true });
    let id = other_account.run(&service.target.url("/ok"), fields).await;
    other_account.finished(&id).await;
    let hit = service.target.hits_of(&id).swap_remove(0);
    assert!(!verifies(&hit, &service.signing_secrets().await[0]));
}

#[tokio::test]
async fn an_unreadable_secret_fails_the_jobs_that_it_signs() {
    let mut service = Service::start().await;
    service
        .restart(async |store| {
            let spoil = "UPDATE signing_secrets SET secret = substr(secret, 1, 40) || 'AAAA'";
            store.execute(spoil).await.expect("spoiled");
        })
        .await;
    let url = service.target.url("/ok");
    let run = async |service: &Service, sign: bool| {
        let id = service.api.run(&url, json!({ "signRequests": sign, "maxRetries": 3 })).await;
        service.api.finished(&id).await
    };
    let failed = run(&service, true).await;
    assert_eq!(end(&failed), ("FAILED", Some("SECRET_UNREADABLE"), 1));
    assert_eq!(end(&run(&service, false).await), ("SUCCESS", None, 1));
    // An unreadable secret gets no overlap.
    service.rotate_signing_secret(Duration::from_secs(86_400)).await;
    assert_eq!(end(&run(&service, true).await), ("SUCCESS", None, 1));
    assert_eq!(service.signing_secrets().await.len(), 1);
}
