//! Checking configurations, and their secrets.

use super::*;

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
async fn an_equal_configuration_changes_nothing() {
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
