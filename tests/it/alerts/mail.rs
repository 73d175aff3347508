//! Mail through a real server: with TLS, with a password, after an outage, and with rejected mails.

use serde_json::{Value, json};

use super::{AlertSetup, channel, deliveries, id, settled, verify};
use crate::harness::client::Reply;
use crate::harness::smtp::{MailOptions, MailServer, Tls};
use crate::harness::wait::until;

const LOGIN: &str = "alerts:correct horse";
const FROM: (&str, &str) = ("mail.from", "alerts@punctual.example");

/// Starts a service that sends its mails through `server` and signs in with `login`
/// (`USER:PASSWORD@`).
async fn start_with_mail_server(server: &MailServer, login: &str) -> AlertSetup {
    let url = server.url(login);
    let authority = server.authority.as_ref().map(|path| path.to_str().expect("text"));
    let ca_file = ("mail.ca_file", authority.unwrap_or_default());
    AlertSetup::with(&[("mail.url", &url), FROM, ca_file]).await
}

async fn try_verify(setup: &AlertSetup, channel: &Value) -> Reply {
    let path = format!("/v1/notification-channels/{}/verify", id(channel));
    setup.api().post(&path, &Value::Null).await
}

/// Returns the details and the message of a failed verification.
#[track_caller]
fn refusal(reply: &Reply) -> (&Value, &str) {
    let error = &reply.body["error"];
    assert_eq!((reply.status, &error["code"]), (422, &json!("CHANNEL_VERIFICATION_FAILED")));
    (&error["details"], error["message"].as_str().expect("a message"))
}

#[tokio::test]
async fn mails_go_over_tls_and_after_a_login() {
    for tls in [Tls::Start, Tls::Implicit] {
        let options = MailOptions { tls, login: Some(LOGIN), ..MailOptions::default() };
        let server = MailServer::with(options).await;
        let setup = start_with_mail_server(&server, "alerts:correct%20horse@").await;
        let made = channel(setup.api(), "email", json!({ "to": "ops@example.com" })).await;
        verify(setup.api(), id(&made)).await;
        let schedule = setup.schedule("/seq/500", &[id(&made)], json!({})).await;
        setup.run(&schedule).await;
        for mail in server.received(2).await {
            assert!(mail.encrypted, "{tls:?}");
            assert_eq!(mail.login.as_deref(), Some("alerts"), "{tls:?}");
            assert_eq!(mail.sender, "alerts@punctual.example");
            assert_eq!(mail.recipients, ["ops@example.com"]);
        }
    }
}

#[tokio::test]
async fn a_wrong_password_is_the_operators_to_mend() {
    for tls in [Tls::Start, Tls::Implicit] {
        let options = MailOptions { tls, login: Some(LOGIN), ..MailOptions::default() };
        let server = MailServer::with(options).await;
        let setup = start_with_mail_server(&server, "alerts:marker-wrong@").await;
        let made = channel(setup.api(), "email", json!({ "to": "ops@example.com" })).await;
        let reply = try_verify(&setup, &made).await;
        let (details, message) = refusal(&reply);
        assert_eq!(details, &json!({ "reason": "SMTP", "providerStatus": 535 }), "{tls:?}");
        assert!(message.contains("mail.url"), "{message}");
        assert!(!reply.text.contains("marker-wrong"), "{reply:?}");
        assert!(server.mails().is_empty());
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_trusted_gets_no_mail() {
    for tls in [Tls::Start, Tls::Implicit] {
        let server = MailServer::with(MailOptions { tls, ..MailOptions::default() }).await;
        let url = server.url("");
        // The authority of the server is not among the public ones.
        let setup = AlertSetup::with(&[("mail.url", &url), FROM]).await;
        let made = channel(setup.api(), "email", json!({ "to": "ops@example.com" })).await;
        let reply = try_verify(&setup, &made).await;
        assert_eq!(refusal(&reply).0, &json!({ "reason": "TLS" }), "{tls:?}");
        assert!(server.mails().is_empty());
    }
}

#[tokio::test]
async fn a_recipient_that_the_server_refuses_is_not_verified() {
    let options = MailOptions { refuse: Some("nobody@example.com"), ..MailOptions::default() };
    let server = MailServer::with(options).await;
    let setup = start_with_mail_server(&server, "").await;
    let made = channel(setup.api(), "email", json!({ "to": "nobody@example.com" })).await;
    let reply = try_verify(&setup, &made).await;
    let (details, message) = refusal(&reply);
    assert_eq!(details, &json!({ "reason": "SMTP", "providerStatus": 550 }));
    assert_eq!(
        message,
        "The mail server has refused the mail (reply 550): 5.1.1 <•••>: no such mailbox"
    );
    let now = setup.api().get(&format!("/v1/notification-channels/{}", id(&made))).await;
    assert_eq!(now.data()["verified"], false);
}

#[tokio::test]
async fn mails_arrive_when_the_server_is_back() {
    let mut server = MailServer::start().await;
    let setup = start_with_mail_server(&server, "").await;
    let made = channel(setup.api(), "email", json!({ "to": "ops@example.com" })).await;
    verify(setup.api(), id(&made)).await;
    let one = setup.schedule("/seq/500", &[id(&made)], json!({})).await;
    let two = setup.schedule("/seq/503", &[id(&made)], json!({})).await;
    server.kill();
    setup.run(&one).await;
    setup.run(&two).await;
    let waiting = until("the first tries have failed", async || {
        let all = deliveries(setup.api(), "status=PENDING").await;
        let tried = |one: &Value| one["nextAttemptAtUtc"].is_string() && one["attempts"] != 0;
        (all.len() == 2 && all.iter().all(tried)).then_some(all)
    })
    .await;
    for delivery in &waiting {
        assert_eq!(delivery["errorCode"], "CONNECT", "{delivery}");
        assert_eq!(delivery["tries"][0]["errorMessage"], "The mail server was not reached.");
    }
    server.restart().await;
    let all = settled(setup.api(), "", 2).await;
    assert!(all.iter().all(|one| one["status"] == "DELIVERED"), "{all:?}");
    let mails = server.received(3).await;
    let jobs = all.iter().map(|one| one["jobId"].as_str().expect("a job"));
    assert_eq!(jobs.collect::<std::collections::BTreeSet<_>>().len(), 2, "each one");
    let failed = mails.iter().filter(|mail| mail.header("Subject").contains("failed")).count();
    assert_eq!(failed, 2, "once each");
}
