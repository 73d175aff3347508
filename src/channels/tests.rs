//! Tests of configurations, and of sending to fake providers with scripted answers.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::samples::{account, alert, at};
use super::*;
use crate::domain::ChannelId;
use crate::domain::alert::AlertKind;
use crate::domain::alert::delivery::DeliveryError;
use crate::runtime::Tasks;

const PATIENCE: Duration = Duration::from_secs(10);
const SLACK_URL: &str = "https://hooks.slack.com/services/T0/B0/marker-of-the-webhook";
const DISCORD_URL: &str = "https://discord.com/api/webhooks/123/marker-of-the-webhook";
const TOKEN: &str = "123456:marker-of-the-bot-marker-of-the-bot";
const OLD_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

struct Bench {
    channels: Channels,
    clock: Clock,
    listener: TcpListener,
    _tasks: Tasks,
}

impl Bench {
    /// Creates a bench whose channels may call a provider on this machine.
    async fn new() -> Self {
        Self::at(at("2024-05-15T12:00:00Z")).await
    }

    /// Creates the same bench with its clock at `now`.
    async fn at(now: Timestamp) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let url = format!("http://127.0.0.1:{}", listener.local_addr().expect("an address").port());
        let tasks = Tasks::new();
        let allow = vec!["127.0.0.0/8".parse().expect("a network")];
        let egress = outbound::Settings { allow, ..outbound::Settings::default() };
        let client = outbound::Client::new(egress, Clock::system(), &tasks).expect("a client");
        let settings = Settings {
            chat_hosts: vec!["127.0.0.1".to_owned()],
            telegram_url: url,
            public_url: Some("https://punctual.example".to_owned()),
        };
        let clock = Clock::manual(now);
        let random = Random::seeded(7);
        let channels = Channels::new(settings, client, None, clock.clone(), random);
        Self { channels, clock, listener, _tasks: tasks }
    }

    fn url(&self, path: &str) -> String {
        let port = self.listener.local_addr().expect("an address").port();
        format!("http://127.0.0.1:{port}{path}")
    }

    fn configure(&self, kind: ChannelType, given: &Value) -> Result<Configured, FieldErrors> {
        self.change(kind, given, None)
    }

    fn change(
        &self,
        kind: ChannelType,
        given: &Value,
        current: Option<&ChannelConfig>,
    ) -> Result<Configured, FieldErrors> {
        self.channels.configure(kind, given.as_object().expect("an object"), current)
    }

    fn config(&self, kind: ChannelType, given: &Value) -> ChannelConfig {
        self.configure(kind, given).expect("configured").config
    }

    /// Returns the errors of a configuration as `field: message`.
    fn refused(&self, kind: ChannelType, given: &Value) -> String {
        self.configure(kind, given).expect_err("refused").to_string()
    }

    /// Sends an alert to a provider that gives these answers. Returns the requests.
    async fn send(
        &self,
        kind: ChannelType,
        config: &ChannelConfig,
        answers: &[(u16, &str, &str)],
    ) -> (Result<Sent, SendError>, Vec<Received>) {
        let to = destination(kind, config);
        let alert = alert(AlertKind::JobFailed);
        let sending = self.channels.send(&to, &alert, PATIENCE);
        let serving = async {
            let mut received = Vec::new();
            for (status, headers, body) in answers {
                received.push(self.serve(*status, headers, body).await);
            }
            received
        };
        tokio::join!(sending, serving)
    }

    /// Answers one request.
    async fn serve(&self, status: u16, headers: &str, body: &str) -> Received {
        let (mut stream, _) = self.listener.accept().await.expect("a connection");
        let mut bytes = Vec::new();
        let received = loop {
            let mut chunk = [0; 4_096];
            let read = stream.read(&mut chunk).await.expect("readable");
            assert!(read > 0, "the request is complete");
            bytes.extend_from_slice(&chunk[..read]);
            if let Some(received) = Received::read(&bytes) {
                break received;
            }
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
        );
        stream.write_all(answer.as_bytes()).await.expect("writable");
        stream.shutdown().await.expect("closed");
        received
    }
}

fn destination(kind: ChannelType, config: &ChannelConfig) -> Destination {
    let channel = ChannelId::new(at("2024-01-03T00:00:00Z"), 2);
    Destination { account: account(), channel, kind, config: config.clone() }
}

/// A request that a provider received.
#[derive(Debug)]
struct Received {
    line: String,
    headers: http::HeaderMap,
    body: String,
}

impl Received {
    fn read(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8(bytes.to_vec()).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let line = lines.next()?.to_owned();
        let headers: http::HeaderMap = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect::<Vec<(http::HeaderName, http::HeaderValue)>>()
            .into_iter()
            .collect();
        let length: usize = headers.get("content-length")?.to_str().ok()?.parse().ok()?;
        (body.len() >= length).then(|| Self { line, headers, body: body.to_owned() })
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// Returns the configuration as JSON.
fn shown(config: &ChannelConfig) -> Value {
    serde_json::from_str(config.reveal()).expect("JSON")
}

#[tokio::test]
async fn wrong_fields_are_named() {
    let bench = Bench::new().await;
    use ChannelType::*;
    let slack =
        "config.webhookUrl: Must be a Slack webhook URL such as https://hooks.slack.com/services/…";
    let discord = "config.webhookUrl: Must be a Discord webhook URL such as https://discord.com/api/webhooks/…";
    let address = "config.to: Must be an e-mail address such as ann@example.com";
    let chat = "config.chatId: Must be a number or the @name of a public chat";
    for (kind, given, expected) in [
        (Email, json!({}), "config.to: Required"),
        (Email, json!({ "to": null }), "config.to: Required"),
        (Email, json!({ "to": 1 }), "config.to: Must be a string"),
        (Email, json!({ "to": "ann@example.com\r\nBcc: x@y.example" }), address),
        (Slack, json!({}), "config.webhookUrl: Required"),
        (Slack, json!({ "webhookUrl": [] }), "config.webhookUrl: Must be a string"),
        (Slack, json!({ "webhookUrl": "https://hooks.slack.com.evil.example/services/T" }), slack),
        (Slack, json!({ "webhookUrl": "http://hooks.slack.com/services/T" }), slack),
        (Slack, json!({ "webhookUrl": DISCORD_URL }), slack),
        (Discord, json!({ "webhookUrl": SLACK_URL }), discord),
        (Discord, json!({ "webhookUrl": "https://discord.com/channels/1/2" }), discord),
        (Discord, json!({ "webhookUrl": "https://discord.com/api/webhooks/1/t/slack" }), discord),
        (Discord, json!({ "webhookUrl": "https://evil.discord.com/api/webhooks/1/t" }), discord),
        (Telegram, json!({}), "config.botToken: Required"),
        (Telegram, json!({ "botToken": TOKEN, "chatId": "ops" }), chat),
        (Telegram, json!({ "botToken": TOKEN, "chatId": {} }), chat),
        (Webhook, json!({}), "config.url: Required"),
        (Webhook, json!({ "url": "ftp://a" }), "config.url: Must be a valid URL"),
        (
            Webhook,
            json!({ "url": "http://10.0.0.1/" }),
            "config.url: URL resolves to a disallowed address",
        ),
        (
            Webhook,
            json!({ "url": "https://a.example", "secret": "whsec_AAAA" }),
            "config.secret: Must be whsec_ and, in base64, 24 to 64 bytes",
        ),
    ] {
        assert_eq!(bench.refused(kind, &given), expected, "{kind} {given}");
    }
    for token in ["", "123456", "123456:short", "123456:../../marker-of-the-bot-marker", "a:b"] {
        let refused = bench.refused(Telegram, &json!({ "botToken": token }));
        assert!(refused.starts_with("config.botToken: Must be a bot token"), "{refused}");
    }
}

#[tokio::test]
async fn a_configuration_that_says_the_same_stays_the_same() {
    let bench = Bench::new().await;
    use ChannelType::*;
    for (kind, given) in [
        (Email, json!({ "to": " Ann@Example.com", "other": 1 })),
        (Slack, json!({ "webhookUrl": SLACK_URL })),
        (Slack, json!({ "webhookUrl": "https://hooks.slack-gov.com/services/T/B/x" })),
        (Discord, json!({ "webhookUrl": DISCORD_URL })),
        (Discord, json!({ "webhookUrl": "https://ptb.discord.com/api/v10/webhooks/1/t" })),
        (Telegram, json!({ "botToken": TOKEN })),
        (Telegram, json!({ "botToken": TOKEN, "chatId": "-1001" })),
        (Webhook, json!({ "url": "https://a.example/hook" })),
        (Webhook, json!({ "url": "https://a.example/hook", "secret": OLD_SECRET })),
    ] {
        let first = bench.configure(kind, &given).expect("configured");
        let generated = kind == Webhook && given["secret"].is_null();
        assert_eq!(first.secret.is_some(), generated, "{kind}");
        let again = bench.change(kind, &given, Some(&first.config)).expect("configured");
        assert_eq!(again.config, first.config, "{given}");
        assert!(again.secret.is_none());
    }
}

#[tokio::test]
async fn the_unsubscribe_token_stays_with_its_address() {
    let bench = Bench::new().await;
    let kind = ChannelType::Email;
    let first = bench.config(kind, &json!({ "to": "ann@example.com" }));
    let given = json!({ "to": "ann@example.com", "unsubscribeToken": "mine" });
    let second = bench.change(kind, &given, Some(&first)).expect("configured").config;
    let token = shown(&first)["unsubscribeToken"].as_str().expect("a token").to_owned();
    assert_eq!(token.len(), 43);
    assert!(bench.channels.unsubscribes(&second, &token));
    let given = json!({ "to": "bob@example.com" });
    let moved = bench.change(kind, &given, Some(&first)).expect("configured").config;
    assert_eq!(shown(&moved)["to"], "bob@example.com");
    let other = bench.config(kind, &json!({ "to": "ann@example.com" }));
    for (config, token) in [
        (&other, token.as_str()),
        (&moved, &token),
        (&second, ""),
        (&second, &token[1..]),
        (&second, "mine"),
    ] {
        assert!(!bench.channels.unsubscribes(config, token));
    }
    let slack = bench.config(ChannelType::Slack, &json!({ "webhookUrl": SLACK_URL }));
    assert!(!bench.channels.unsubscribes(&slack, &token));
}

#[tokio::test]
async fn a_webhook_is_signed_with_both_secrets_until_the_old_one_ends() {
    // The verifying library uses the system clock and allows a difference of a few minutes.
    let now = Clock::system().now();
    let bench = Bench::at(now).await;
    let kind = ChannelType::Webhook;
    let given = json!({ "url": bench.url("/hook"), "secret": OLD_SECRET });
    let first = bench.config(kind, &given);
    let ends = now.plus(Duration::from_secs(60));
    let rotated = bench.channels.rotate_secret(kind, &first, None, ends).expect("a secret");
    let rotated = rotated.expect("rotated");
    let new_secret = rotated.secret.expect("generated").reveal().to_owned();
    // A change of the URL keeps both secrets.
    let given = json!({ "url": bench.url("/other") });
    let config = bench.change(kind, &given, Some(&rotated.config)).expect("configured").config;
    let verifies = |secret: &str, received: &Received| {
        let webhook = standardwebhooks::Webhook::new(secret).expect("a secret");
        webhook.verify(received.body.as_bytes(), &received.headers).is_ok()
    };
    let (sent, received) = bench.send(kind, &config, &[(204, "", "")]).await;
    assert_eq!(sent.expect("sent").status, Some(204));
    let [received] = &received[..] else { panic!("one request") };
    assert_eq!(received.line, "POST /other HTTP/1.1");
    assert_eq!(received.headers["content-type"], "application/json");
    assert!(received.headers["user-agent"].to_str().expect("text").starts_with("Punctual/"));
    assert_eq!(received.headers["webhook-id"], received.json()["id"].as_str().expect("an id"));
    assert_eq!(received.headers["webhook-timestamp"], (now.as_millis() / 1_000).to_string());
    assert!(verifies(&new_secret, received) && verifies(OLD_SECRET, received));
    bench.clock.advance(Duration::from_secs(60));
    let (sent, received) = bench.send(kind, &config, &[(200, "", "ok")]).await;
    assert_eq!(sent.expect("sent").response.as_deref(), Some("ok"));
    assert!(verifies(&new_secret, &received[0]) && !verifies(OLD_SECRET, &received[0]));
}

#[tokio::test]
async fn only_webhooks_rotate_and_only_to_another_secret() {
    let bench = Bench::new().await;
    let ends = at("2024-05-16T12:00:00Z");
    let slack = bench.config(ChannelType::Slack, &json!({ "webhookUrl": SLACK_URL }));
    assert!(bench.channels.rotate_secret(ChannelType::Slack, &slack, None, ends).is_none());
    let given = json!({ "url": "https://a.example", "secret": OLD_SECRET });
    let webhook = bench.config(ChannelType::Webhook, &given);
    let rotate = |given| {
        let rotated = bench.channels.rotate_secret(ChannelType::Webhook, &webhook, given, ends);
        rotated.expect("a secret")
    };
    for (wrong, message) in [
        (OLD_SECRET, "config.secret: Must differ from the current secret"),
        ("whsec_", "config.secret: Must be whsec_ and, in base64, 24 to 64 bytes"),
    ] {
        assert_eq!(rotate(Some(wrong)).expect_err("refused").to_string(), message);
    }
    let given = format!("whsec_{}", "A".repeat(32));
    let rotated = rotate(Some(&given)).expect("rotated");
    assert!(rotated.secret.is_none(), "the user knows it");
    let debug = format!("{rotated:?}{:?}", rotate(None).expect("rotated"));
    assert!(!debug.contains("whsec_"), "{debug}");
}

#[tokio::test]
async fn chats_get_what_they_understand() {
    let bench = Bench::new().await;
    let kind = ChannelType::Slack;
    let config = bench.config(kind, &json!({ "webhookUrl": bench.url("/services/x") }));
    let (sent, received) = bench.send(kind, &config, &[(200, "", "ok")]).await;
    assert_eq!(sent.expect("sent").response.as_deref(), Some("ok"));
    assert_eq!(received[0].line, "POST /services/x HTTP/1.1");
    assert!(received[0].json()["blocks"].is_array());

    let kind = ChannelType::Discord;
    let config = bench.config(kind, &json!({ "webhookUrl": bench.url("/x?thread_id=1") }));
    let (sent, received) = bench.send(kind, &config, &[(200, "", "{}")]).await;
    assert_eq!(sent.expect("sent").status, Some(200));
    assert_eq!(received[0].line, "POST /x?thread_id=1&wait=true HTTP/1.1");
    assert!(received[0].json()["embeds"].is_array());
}

#[tokio::test]
async fn telegram_finds_its_chat_once() {
    let bench = Bench::new().await;
    let kind = ChannelType::Telegram;
    let config = bench.config(kind, &json!({ "botToken": TOKEN }));
    let (sent, _) = bench.send(kind, &config, &[(200, "", r#"{"ok":true,"result":[]}"#)]).await;
    let error = sent.expect_err("no chat");
    assert_eq!(error.code, DeliveryError::NoChat);
    assert_eq!(error.message, "Send any message to the bot, then verify the channel again.");

    let updates = r#"{"ok":true,"result":[{"update_id":5,"message":{"chat":{"id":-42}}}]}"#;
    let accepted = r#"{"ok":true,"result":{}}"#;
    let answers = [(200, "", updates), (200, "", accepted)];
    let (sent, received) = bench.send(kind, &config, &answers).await;
    let found = sent.expect("sent").config.expect("the chat");
    assert_eq!(received[0].line, format!("POST /bot{TOKEN}/getUpdates HTTP/1.1"));
    assert_eq!(received[1].line, format!("POST /bot{TOKEN}/sendMessage HTTP/1.1"));
    assert_eq!(received[1].json()["chat_id"], -42);

    let (sent, received) = bench.send(kind, &found, &[(200, "", accepted)]).await;
    assert!(sent.expect("sent").config.is_none(), "nothing new");
    assert_eq!(received[0].json()["chat_id"], -42);

    let same = bench.change(kind, &json!({ "botToken": TOKEN }), Some(&found)).expect("same");
    assert_eq!(same.config, found);
    let other = TOKEN.replace('6', "7");
    for given in [json!({ "botToken": other }), json!({ "botToken": TOKEN, "chatId": "@ops_team" })]
    {
        let changed = bench.change(kind, &given, Some(&found)).expect("changed").config;
        assert!(shown(&changed)["foundChatId"].is_null(), "{given}");
    }
    // A chat id from the user is not kept when a later configuration omits it.
    let given = bench.config(kind, &json!({ "botToken": TOKEN, "chatId": 42 }));
    let without = bench.change(kind, &json!({ "botToken": TOKEN }), Some(&given)).expect("changed");
    assert_eq!(shown(&without.config), json!({ "botToken": TOKEN }));
}

#[tokio::test]
async fn answers_are_told_apart() {
    let bench = Bench::new().await;
    use ChannelType::*;
    let configs = [
        (Slack, json!({ "webhookUrl": bench.url("/services/x") })),
        (Discord, json!({ "webhookUrl": bench.url("/x") })),
        (Telegram, json!({ "botToken": TOKEN, "chatId": 42 })),
        (Webhook, json!({ "url": bench.url("/hook") })),
    ];
    for (kind, given) in configs {
        let config = bench.config(kind, &given);
        for (status, code, gone) in [
            (302, DeliveryError::HttpStatus, false),
            (400, DeliveryError::HttpStatus, false),
            (
                404,
                if kind == Webhook {
                    DeliveryError::HttpStatus
                } else {
                    DeliveryError::ChannelGone
                },
                kind != Webhook,
            ),
            (410, DeliveryError::ChannelGone, true),
            (429, DeliveryError::RateLimited, false),
            (500, DeliveryError::HttpStatus, false),
        ] {
            let answer = (status, "location: /elsewhere\r\n", "no <thanks>");
            let (sent, _) = bench.send(kind, &config, &[answer]).await;
            let error = sent.expect_err("refused");
            assert_eq!((error.code, error.gone), (code, gone), "{kind} {status}");
            assert_eq!(error.status, Some(status));
            assert_eq!(error.response.as_deref(), Some("no <thanks>"));
            assert_eq!(error.retry_after, None);
        }
    }
}

#[tokio::test]
async fn providers_say_how_long_to_wait() {
    let bench = Bench::new().await;
    let discord = bench.config(ChannelType::Discord, &json!({ "webhookUrl": bench.url("/x") }));
    let seconds = Duration::from_secs_f64;
    for (status, headers, body, expected) in [
        (429, "retry-after: 7\r\n", "", Some(seconds(7.0))),
        (429, "retry-after: Wed, 15 May 2024 12:00:30 GMT\r\n", "", Some(seconds(30.0))),
        (429, "retry-after: 1\r\n", r#"{"retry_after": 1.5}"#, Some(seconds(1.5))),
        (429, "", r#"{"parameters": {"retry_after": 12}}"#, Some(seconds(12.0))),
        (429, "", r#"{"retry_after": 1e300}"#, Some(seconds(3_600.0))),
        (429, "", r#"{"retry_after": -1}"#, None),
        (429, "retry-after: soon\r\n", "[]", None),
        (503, "retry-after: 9\r\n", "", Some(seconds(9.0))),
    ] {
        let answers = [(status, headers, body)];
        let (sent, _) = bench.send(ChannelType::Discord, &discord, &answers).await;
        assert_eq!(sent.expect_err("refused").retry_after, expected, "{headers}{body}");
    }
}

#[tokio::test]
async fn errors_repeat_no_secret() {
    let bench = Bench::new().await;
    use ChannelType::*;
    let path = "/services/T0/marker-of-the-webhook?key=marker-of-the-query";
    let url = bench.url(path);
    let echo = format!(
        "{{\"description\": \"Not found: {url} {path} marker-of-the-webhook \
         bot{TOKEN} marker-of-the-bot-marker-of-the-bot marker-of-the-query {OLD_SECRET}\"}}"
    );
    for (kind, given) in [
        (Slack, json!({ "webhookUrl": url })),
        (Discord, json!({ "webhookUrl": url })),
        (Telegram, json!({ "botToken": TOKEN, "chatId": 42 })),
        (Webhook, json!({ "url": url, "secret": OLD_SECRET })),
    ] {
        let config = bench.config(kind, &given);
        for status in [400, 410] {
            let (sent, _) = bench.send(kind, &config, &[(status, "", &echo)]).await;
            let error = sent.expect_err("refused");
            let own = match kind {
                Telegram => vec!["marker-of-the-bot"],
                Webhook => vec!["marker-of-the-webhook", "marker-of-the-query", OLD_SECRET],
                _ => vec!["marker-of-the-webhook", "marker-of-the-query"],
            };
            for marker in own {
                assert!(!format!("{error:?}").contains(marker), "{kind}: {error:?}");
            }
        }
    }
    // Nothing listens on this port.
    let url = bench.url(path);
    drop(bench.listener);
    let given = json!({ "webhookUrl": url });
    let given = given.as_object().expect("an object");
    let config = bench.channels.configure(Slack, given, None).expect("configured").config;
    let alert = alert(AlertKind::JobFailed);
    let sent = bench.channels.send(&destination(Slack, &config), &alert, PATIENCE).await;
    let error = sent.expect_err("refused");
    assert_eq!(error.code, DeliveryError::Connect);
    assert!(!format!("{error:?}").contains("127.0.0.1"), "{error:?}");
}

#[tokio::test]
async fn a_provider_that_does_not_answer_is_left() {
    let bench = Bench::new().await;
    let config = bench.config(ChannelType::Telegram, &json!({ "botToken": TOKEN }));
    let to = destination(ChannelType::Telegram, &config);
    let alert = alert(AlertKind::JobFailed);
    let sent = bench.channels.send(&to, &alert, Duration::from_millis(50)).await;
    let error = sent.expect_err("too late");
    assert_eq!(error.code, DeliveryError::Timeout);
    assert_eq!((error.status, error.gone), (None, false));
}

#[tokio::test]
async fn a_configuration_of_another_type_is_unreadable() {
    let bench = Bench::new().await;
    let alert = alert(AlertKind::ChannelTest);
    for kind in ChannelType::ALL {
        for text in ["", "{}", "[]", r#"{"webhookUrl":1}"#] {
            let to = destination(*kind, &ChannelConfig::new(text.to_owned()));
            let error = bench.channels.send(&to, &alert, PATIENCE).await.expect_err("unreadable");
            assert_eq!(error.code, DeliveryError::ConfigUnreadable, "{kind}");
        }
    }
    let config = bench.config(ChannelType::Email, &json!({ "to": "ann@example.com" }));
    let to = destination(ChannelType::Email, &config);
    let error = bench.channels.send(&to, &alert, PATIENCE).await.expect_err("no mailer");
    assert_eq!(error.code, DeliveryError::MailNotConfigured);
    assert!(error.message.contains("mail.url"), "{error}");
}
