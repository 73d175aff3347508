//! Malicious text in alerts, and addresses that must not be called (S38 to S40).

use serde_json::{Value, json};
use standardwebhooks::Webhook;

use super::{AlertSetup, channel, id, prefer, settled, verify};
use crate::harness::client::{ApiClient, Reply};
use crate::harness::dns::{Answer, Dns};
use crate::harness::provider::{Behaviour, Provider, Received};
use crate::harness::smtp::MailServer;

/// A malicious name of a schedule or a channel.
const NAME: &str = "a\r\nBcc: eve@evil.example\r\n\r\n<b>x</b><script>alert(1)</script> <!channel> \
    <@U1> @everyone <http://evil.example|click> [click](http://evil.example) *b* `c`";
/// A malicious response of a target.
const ANSWER: &str = "</pre></code>```\r\nBcc: eve@evil.example\r\n<script>alert(2)</script> \
    <!here> @here <a href=\"http://evil.example\">click</a> \u{202e}txt\u{1b}[31m";

/// A service whose schedule has a malicious name and a malicious target, and one channel.
struct Attack {
    setup: AlertSetup,
    _target: Provider,
}

impl Attack {
    /// Creates a channel of type `kind` and sends it a test notification and one alert.
    async fn on(
        settings: &[(&'static str, &str)],
        kind: &str,
        config: impl Fn(&AlertSetup) -> Value,
    ) -> Self {
        let setup = AlertSetup::with(settings).await;
        setup.provider.set_script(|_, _| Behaviour::Answer(200, r#"{"ok":true,"result":{}}"#));
        let target = Provider::acting(|_, _| Behaviour::Answer(500, ANSWER)).await;
        let body = json!({ "type": kind, "label": &NAME[..60], "config": config(&setup) });
        let made = setup.api().post("/v1/notification-channels", &body).await;
        verify(setup.api(), id(made.data())).await;
        let fields = json!({ "name": NAME, "maxRetries": 1 });
        let schedule = setup.api().create(&target.url("/x"), fields).await;
        prefer(setup.api(), &schedule, &[id(made.data())], json!({})).await;
        setup.run(&schedule).await;
        let all = settled(setup.api(), &format!("scheduleId={schedule}"), 1).await;
        assert_eq!(all[0]["status"], "DELIVERED", "{all:?}");
        Self { setup, _target: target }
    }

    /// Returns the bodies of the test notification and of the alert.
    fn bodies(&self) -> Vec<Value> {
        let all = self.setup.provider.all();
        assert_eq!(all.len(), 2);
        all.iter().map(Received::json).collect()
    }
}

/// Returns all texts in a JSON value.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn slack_mentions_no_user_and_shows_no_foreign_link() {
    let url =
        |setup: &AlertSetup| json!({ "webhookUrl": setup.provider.url("/services/T0/B0/secret") });
    let attack = Attack::on(&[], "slack", url).await;
    for body in attack.bodies() {
        for text in texts(&body) {
            // `<` starts mentions and links.
            assert!(!text.contains(['<', '>', '\u{202e}', '\u{1b}', '\r']), "{text:?}");
            assert!(!text.contains("@everyone") && !text.contains("@here"), "{text:?}");
        }
        let blocks = body["blocks"].as_array().expect("blocks");
        for block in blocks.iter().filter(|block| block["type"] == "section") {
            let text = block["text"]["text"].as_str().expect("text");
            assert_eq!(text.matches("```").count() % 2, 0, "code is closed: {text}");
            assert_eq!(block["text"]["verbatim"], true);
        }
    }
}

#[tokio::test]
async fn discord_mentions_no_user_and_shows_no_foreign_link() {
    let url =
        |setup: &AlertSetup| json!({ "webhookUrl": setup.provider.url("/api/webhooks/1/secret") });
    let attack = Attack::on(&[], "discord", url).await;
    for body in attack.bodies() {
        assert_eq!(body["allowed_mentions"], json!({ "parse": [] }));
        assert_eq!(body["content"], Value::Null, "embeds mention no user");
        let embed = &body["embeds"][0];
        let description = embed["description"].as_str().expect("text");
        assert_eq!(description.matches("```").count() % 2, 0, "code is closed: {description}");
        let outside: String = description.split("```").step_by(2).collect();
        for text in [embed["title"].as_str().expect("text"), &outside] {
            let plain = text.replace(r"\\", "").replace(r"\<", "").replace(r"\[", "");
            assert!(!plain.contains(['<', '[', '\u{202e}', '\r']), "{text:?}");
        }
    }
}

#[tokio::test]
async fn telegram_shows_only_the_markup_of_the_service() {
    // The service must know the server of the bot before it starts.
    let server = Provider::start().await;
    server.set_script(|_, _| Behaviour::Answer(200, r#"{"ok":true,"result":{}}"#));
    let settings = [("notify.telegram_url", server.url(""))];
    let settings = settings.each_ref().map(|(key, value)| (*key, value.as_str()));
    let bot = json!({ "botToken": "123456789:AAabcdefghijklmnopqrstuvwxyz0123456", "chatId": 42 });
    let attack = Attack::on(&settings, "telegram", |_| bot.clone()).await;
    let alerts = server.alerts();
    let alert = alerts[0].json();
    let text = alert["text"].as_str().expect("text");
    let own = ["<b>", "</b>", "<code>", "</code>", "<pre>", "</pre>"];
    let rest = own.iter().fold(text.to_owned(), |text, tag| text.replace(tag, ""));
    assert!(!rest.contains(['<', '>', '\u{202e}', '\u{1b}']), "{rest}");
    for tag in ["b", "code", "pre"] {
        let count = |mark: &str| text.matches(&format!("<{mark}{tag}>")).count();
        assert_eq!(count(""), count("/"), "{text}");
    }
    assert_eq!(alert["link_preview_options"], json!({ "is_disabled": true }));
    drop(attack);
}

#[tokio::test]
async fn a_mail_has_no_other_header_recipient_or_markup() {
    let server = MailServer::start().await;
    let url = server.url("");
    let settings = [
        ("mail.url", url.as_str()),
        ("mail.from", "alerts@punctual.example"),
        ("http.public_url", "https://punctual.example"),
    ];
    let attack = Attack::on(&settings, "email", |_| json!({ "to": "ops@example.com" })).await;
    for mail in server.received(2).await {
        assert_eq!(mail.recipients, ["ops@example.com"]);
        let has_bcc = mail.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("bcc"));
        assert!(!has_bcc, "{:?}", mail.headers);
        let subject = mail.header("Subject");
        assert!(
            subject.contains("a Bcc: eve@evil.example") && !subject.contains('\n'),
            "{subject}"
        );
        let html = mail.html.as_deref().expect("HTML").to_lowercase();
        assert!(!html.contains("<script") && !html.contains("<b>"), "{html}");
        let links = html.matches("href=\"").count();
        assert_eq!(html.matches("href=\"https://punctual.example/").count(), links, "{html}");
        assert!(!mail.text.contains(['\u{202e}', '\u{1b}']), "{}", mail.text);
    }
    drop(attack);
}

#[tokio::test]
async fn a_webhook_gets_the_texts_as_they_are_in_json_that_is_signed() {
    let setup = AlertSetup::start().await;
    let (channel, secret) = setup.webhook("/hook").await;
    let target = Provider::acting(|_, _| Behaviour::Answer(500, ANSWER)).await;
    let fields = json!({ "name": NAME, "maxRetries": 1 });
    let schedule = setup.api().create(&target.url("/x"), fields).await;
    prefer(setup.api(), &schedule, &[&channel], json!({})).await;
    setup.run(&schedule).await;
    let alert = setup.provider.alerted(1).await.remove(0);
    Webhook::new(&secret).expect("a secret").verify(&alert.body, &alert.headers).expect("signed");
    assert_eq!(alert.json()["data"]["schedule"]["name"], NAME);
    assert_eq!(alert.json()["data"]["job"]["response"], ANSWER);
}

async fn try_create(api: &ApiClient, kind: &str, config: Value) -> Reply {
    let body = json!({ "type": kind, "label": "x", "config": config });
    api.post("/v1/notification-channels", &body).await
}

async fn try_verify(setup: &AlertSetup, made: &Value) -> Value {
    let path = format!("/v1/notification-channels/{}/verify", id(made));
    let reply = setup.api().post(&path, &Value::Null).await;
    assert_eq!(reply.status, 422, "{reply:?}");
    reply.body["error"].clone()
}

#[tokio::test]
async fn addresses_inside_are_refused_at_once_and_at_each_try() {
    let dns = Dns::start().await;
    dns.script("inside.test", [Answer::addresses(&["169.254.169.254"], 60)]);
    let name_server = dns.address().to_string();
    let setup =
        AlertSetup::with(&[("dns.servers", &name_server), ("chat.hosts", "10.0.0.1")]).await;
    let refused = |reply: &Reply, field: &str| {
        assert_eq!(reply.status, 400, "{reply:?}");
        let said = &reply.body["error"]["details"]["fieldErrors"][field];
        assert_eq!(said, &json!(["URL resolves to a disallowed address"]), "{reply:?}");
    };
    for url in ["http://10.0.0.1/", "http://[::ffff:10.0.0.1]/", "http://169.254.169.254/latest"] {
        let reply = try_create(setup.api(), "webhook", json!({ "url": url })).await;
        refused(&reply, "config.url");
    }
    // A host in the operator's list of chat hosts is still checked.
    let config = json!({ "webhookUrl": "http://10.0.0.1/services/T0/B0/x" });
    let reply = try_create(setup.api(), "slack", config).await;
    refused(&reply, "config.webhookUrl");
    // A host name is checked at its lookup.
    let made = channel(setup.api(), "webhook", json!({ "url": "http://inside.test/" })).await;
    let error = try_verify(&setup, &made).await;
    assert_eq!(error["details"], json!({ "reason": "BLOCKED_ADDRESS" }));
    assert!(!error.to_string().contains("169.254"), "{error}");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let setup = AlertSetup::start().await;
    setup.provider.set_script(|_, _| Behaviour::Redirect("/elsewhere"));
    let made = channel(setup.api(), "webhook", json!({ "url": setup.provider.url("/hook") })).await;
    let error = try_verify(&setup, &made).await;
    assert_eq!(error["details"], json!({ "reason": "HTTP_STATUS", "providerStatus": 307 }));
    assert!(error["message"].as_str().expect("one").contains("redirect"), "{error}");
    let paths: Vec<_> = setup.provider.all().into_iter().map(|one| one.path).collect();
    assert_eq!(paths, ["/hook"]);
}

#[tokio::test]
async fn an_unverified_channel_is_neither_attached_nor_alerted() {
    let setup = AlertSetup::start().await;
    let made = channel(setup.api(), "webhook", json!({ "url": setup.provider.url("/hook") })).await;
    let fails = setup.service.target.url("/seq/500");
    let schedule = setup.api().create(&fails, json!({ "maxRetries": 1 })).await;
    let path = format!("/v1/schedules/{schedule}/notifications");
    let body = json!({ "notifyOn": "failure", "channelIds": [id(&made)] });
    let reply = setup.api().call("PUT", &path, Some(&body)).await.expect("an answer");
    assert_eq!(reply.status, 400, "{reply:?}");
    verify(setup.api(), id(&made)).await;
    prefer(setup.api(), &schedule, &[id(&made)], json!({})).await;
    // A new URL must be verified before it receives alerts.
    let config = json!({ "config": { "url": setup.provider.url("/other") } });
    let path = format!("/v1/notification-channels/{}", id(&made));
    let reply = setup.api().call("PATCH", &path, Some(&config)).await.expect("an answer");
    assert_eq!(reply.data()["verified"], false);
    setup.run(&schedule).await;
    let all = settled(setup.api(), &format!("scheduleId={schedule}"), 1).await;
    assert_eq!((&all[0]["status"], &all[0]["errorCode"]), (&json!("FAILED"), &json!("NO_CHANNEL")));
    assert!(setup.provider.alerts().is_empty());
}
