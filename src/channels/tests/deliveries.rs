//! Sending, and what the answers of providers mean.

use super::*;

#[tokio::test]
async fn chats_get_alerts_in_their_format() {
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
    let sent = bench.channels.send(&destination(Slack, &config), &alert, TIMEOUT).await;
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
            let error = bench.channels.send(&to, &alert, TIMEOUT).await.expect_err("unreadable");
            assert_eq!(error.code, DeliveryError::ConfigUnreadable, "{kind}");
        }
    }
    let config = bench.config(ChannelType::Email, &json!({ "to": "ann@example.com" }));
    let to = destination(ChannelType::Email, &config);
    let error = bench.channels.send(&to, &alert, TIMEOUT).await.expect_err("no mailer");
    assert_eq!(error.code, DeliveryError::MailNotConfigured);
    assert!(error.message.contains("mail.url"), "{error}");
}
