//! The unsubscribe link in mails. Its user has no API key.

use punctual::accounts::RateLimits;
use punctual::domain::audit::Author;
use punctual::domain::{AuditId, ChannelId};
use punctual::store::{ChannelChanged, ChannelStore, WriteContext};
use serde_json::{Value, json};

use super::harness::{START, Service, Setup, id};

/// Creates a verified mail channel. Returns its id and the path of the link in its mails.
async fn mailed(service: &Service) -> (String, String) {
    let new = json!({ "type": "email", "label": "Mail", "config": { "to": "ann@example.com" } });
    let answer = service.post("/v1/notification-channels", &new).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let channel = id(&answer.body["data"]);
    let channel_id: ChannelId = channel.parse().expect("an id");
    let account = service.account.id;
    let stored = service.store.channel(account, channel_id).await.expect("read").expect("there");
    let now = service.clock.now();
    let (author, entry) = (Author::SERVICE, AuditId::new(now, 7));
    let write = WriteContext { account, now, author, entry, idempotency: None };
    let verified = service.store.verify_channel(&write, channel_id, stored.revision, None).await;
    assert_eq!(verified.expect("verified"), ChannelChanged::Done);
    let config = stored.config.expect("readable");
    let config: Value = serde_json::from_str(config.reveal()).expect("JSON");
    let names = ["unsubscribeToken", "unsubscribe_token"];
    let token = names.iter().find_map(|name| config[*name].as_str()).expect("a token");
    (channel.clone(), format!("/unsubscribe/{account}/{channel}/{token}"))
}

async fn is_verified(service: &Service, channel: &str) -> bool {
    let answer = service.get(&format!("/v1/notification-channels/{channel}")).await;
    answer.ok()["verified"] == true
}

#[tokio::test]
async fn the_page_asks_and_the_button_unsubscribes() {
    let service = Service::start().await;
    let (channel, link) = mailed(&service).await;
    let schedule = id(&service.create(json!({})).await);
    let path = format!("/v1/schedules/{schedule}/notifications");
    let preference = json!({ "notifyOn": "failure", "channelIds": [channel] });
    service.call("PUT", &path).json(&preference).send().await.ok();

    let page = service.bare("GET", &link).send().await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(page.text.contains("<form method=\"post\">"), "{}", page.text);
    assert!(!page.text.contains("<script") && !page.text.contains("style"), "{}", page.text);
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none';") && policy.contains("form-action 'self'"));
    assert_eq!(page.header("referrer-policy"), "no-referrer");
    assert_eq!(page.header("cache-control"), "no-store");
    assert!(is_verified(&service, &channel).await, "looking changes nothing");

    let one_click = service.bare("POST", &link);
    let one_click = one_click.header("content-type", "application/x-www-form-urlencoded");
    let done = one_click.body("List-Unsubscribe=One-Click").send().await;
    assert_eq!((done.status, done.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(!is_verified(&service, &channel).await);
    let warning = "Alerts cannot be delivered: the channel \"Mail\" is not verified (Its reader has \
                   unsubscribed), verify it again";
    let preference = service.get(&path).await;
    assert_eq!(preference.ok()["warning"], json!(warning));
    assert_eq!(preference.ok()["channels"], json!([]));
    let log = service.get("/v1/audit-log?action=channel.unverified").await;
    let entries = log.ok()["entries"].as_array().expect("an array");
    assert_eq!((entries.len(), &entries[0]["actor"]), (1, &json!("service")));

    let again = service.bare("POST", &link).send().await;
    assert_eq!((again.status, &again.text), (200, &done.text), "the same again");
    let log = service.get("/v1/audit-log?action=channel.unverified").await;
    assert_eq!(log.ok()["entries"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn links_that_are_not_valid_are_answered_the_same_and_do_nothing() {
    let service = Service::start().await;
    let (channel, link) = mailed(&service).await;
    let page = service.bare("GET", &link).send().await;
    let (account, token) = (service.account.id, link.rsplit('/').next().expect("a token"));
    let unknown = ChannelId::new(START, 3);
    let wrong = [
        format!("/unsubscribe/{account}/{channel}/{token}x"),
        format!("/unsubscribe/{account}/{channel}/x"),
        format!("/unsubscribe/{account}/{unknown}/{token}"),
        format!("/unsubscribe/acc_01HF7YAT000000000000000007/{channel}/{token}"),
        format!("/unsubscribe/{channel}/{account}/{token}"),
        "/unsubscribe/a/b/c".to_owned(),
        "/unsubscribe/%ff/%00/%20".to_owned(),
    ];
    let mut done = None;
    for link in wrong {
        let asked = service.bare("GET", &link).send().await;
        assert_eq!((asked.status, &asked.text), (200, &page.text), "{link}");
        let answer = service.bare("POST", &link).send().await;
        assert_eq!(answer.status, 200, "{link}: {}", answer.text);
        assert_eq!(done.get_or_insert(answer.text.clone()), &answer.text, "{link}");
    }
    assert!(is_verified(&service, &channel).await);
    let valid = service.bare("POST", &link).send().await;
    assert_eq!(Some(valid.text), done);
    let other = service.bare("PUT", &link).send().await;
    other.refused(405, "METHOD_NOT_ALLOWED", "Method not allowed");
    service.bare("GET", "/unsubscribe/a/b").send().await.not_found("Not found");
}

#[tokio::test]
async fn an_address_follows_only_so_many_links() {
    let limits = RateLimits { per_minute: 3, per_hour: 100 };
    let service = Service::with(Setup { limits, ..Setup::default() }).await;
    let visit = async |from: u8| service.bare("GET", "/unsubscribe/a/b/c").from(from).send().await;
    for _ in 0..3 {
        assert_eq!(visit(1).await.status, 200);
    }
    let refused = visit(1).await;
    refused.refused(429, "RATE_LIMIT_EXCEEDED", "Rate limit exceeded");
    assert_eq!(refused.header("retry-after"), "60");
    assert_eq!(visit(2).await.status, 200, "another address");
    service.advance(60);
    assert_eq!(visit(1).await.status, 200);
}
