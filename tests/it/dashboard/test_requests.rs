//! Test requests of the form of a schedule: one request, no job, nothing saved.

use std::io::{Read, Seek};
use std::sync::Arc;

use serde_json::json;
use standardwebhooks::Webhook;
use tracing_subscriber::util::SubscriberInitExt;

use super::with_owner;
use crate::harness::app::Service;
use crate::harness::dns::{Answer, Dns};

const NEW: &str = "/dashboard/schedules/new";

/// Returns the form of a schedule with the button for a test request, and `more` in addition.
fn form<'a>(endpoint: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let usual = [
        ("test-request", "true"),
        ("name", "Nightly"),
        ("cronExpression", "0 3 * * *"),
        ("timezone", "Europe/Berlin"),
        ("endpoint", endpoint),
        ("httpMethod", "POST"),
        ("maxRetries", "3"),
        ("timeoutSeconds", "20"),
        ("header-name", "X-Token"),
        ("header-value", "s3cret-token"),
    ];
    let is_given = |name: &str| more.iter().any(|(given, _)| *given == name);
    usual.into_iter().filter(|(name, _)| !is_given(name)).chain(more.iter().copied()).collect()
}

/// Asserts that the store has no schedule and no job.
async fn nothing_is_stored(service: &Service) {
    let counts = "SELECT (SELECT count(*) FROM schedules) + (SELECT count(*) FROM jobs)";
    let rows: i64 =
        sqlx::query_scalar(counts).fetch_one(&mut service.store().await).await.expect("counted");
    assert_eq!(rows, 0);
}

#[tokio::test]
async fn the_form_shows_the_whole_exchange_and_saves_nothing() {
    let (service, ann) = with_owner(&[]).await;
    let url = service.target.url("/ok?key=k3y-in-query");
    let sent = form(&url, &[("body", "{\"a\": 1}")]);
    let page = ann.post(NEW, &sent).await;
    page.shows(200, &["value=\"Nightly\"", "Status <strong>200</strong> OK", "hello", "Timeline"]);

    let panel = ann.with_script().post(NEW, &sent).await;
    panel.shows(
        200,
        &["Success", "hello", "content-length", "•••", "punctual-test", "application/json"],
    );
    panel.hides(&["s3cret-token", "k3y-in-query", "<form", "<html"]);

    let hits = service.target.hits();
    assert_eq!(hits.len(), 2);
    for hit in hits {
        assert_eq!((hit.header("x-token"), hit.header("punctual-test")), ("s3cret-token", "true"));
        assert_eq!(&hit.body[..], b"{\"a\": 1}");
        assert!(hit.header("idempotency-key").starts_with("tst_"));
        assert_eq!(hit.job, "");
    }
    nothing_is_stored(&service).await;
}

#[tokio::test]
async fn the_log_names_the_account_and_the_host_only() {
    let file = Arc::new(tempfile::tempfile().expect("a file"));
    let layer = tracing_subscriber::fmt().with_ansi(false).with_writer(file.clone());
    let _guard = layer.with_max_level(tracing::Level::INFO).set_default();
    let (service, ann) = with_owner(&[]).await;
    let url = service.target.url("/ok?key=k3y-in-query");
    ann.post(NEW, &form(&url, &[])).await.shows(200, &["Success"]);
    let mut log = String::new();
    (&*file).rewind().expect("at the start");
    (&*file).read_to_string(&mut log).expect("read");
    let line = log.lines().find(|line| line.contains("sending a test request"));
    let line = line.unwrap_or_else(|| panic!("no line: {log}"));
    let host = url::Url::parse(&url).expect("a URL");
    let host = &host[url::Position::BeforeHost..url::Position::AfterPort];
    assert!(line.contains("account=acc_") && line.contains(&format!("host=\"{host}\"")), "{line}");
    for secret in ["k3y-in-query", "/ok", "s3cret-token"] {
        assert!(!line.contains(secret), "{line}");
    }
}

#[tokio::test]
async fn a_signed_request_is_signed() {
    let (service, ann) = with_owner(&[]).await;
    let url = service.target.url("/ok");
    let sent = form(&url, &[("signRequests", "true"), ("body", "signed")]);
    ann.post(NEW, &sent).await.shows(200, &["Success", "webhook-signature"]);
    let secrets = service.signing_secrets_of("ann").await;
    let [hit] = &service.target.hits()[..] else { panic!("one request") };
    let webhook = Webhook::new(&secrets[0]).expect("a secret");
    webhook.verify(&hit.body, &hit.headers).expect("signed by the account");
}

#[tokio::test]
async fn failures_are_reported_in_plain_words() {
    let (service, ann) = with_owner(&[]).await;
    let url = service.target.url("/hang");
    let page = ann.post(NEW, &form(&url, &[("timeoutSeconds", "1")])).await;
    page.shows(200, &["Failed", "The endpoint did not answer within the timeout", "TIMEOUT"]);
    service.target.release();

    let url = service.target.url("/seq/503");
    let page = ann.post(NEW, &form(&url, &[])).await;
    page.shows(
        200,
        &["Failed", "HTTP_STATUS", "Service Unavailable", "told", "What usually helps"],
    );
    let page = ann.post(NEW, &form(&url, &[("expectedStatusCodes", "503")])).await;
    page.shows(200, &["Success", "told"]).hides(&["What usually helps"]);
    nothing_is_stored(&service).await;
}

#[tokio::test]
async fn private_addresses_are_refused() {
    let dns = Dns::start().await;
    dns.script("inside.example", [Answer::addresses(&["127.0.0.1"], 60)]);
    let servers = dns.address().to_string();
    let settings: [(&'static str, &str); 2] =
        [("outbound.allow", "192.0.2.1/32"), ("dns.servers", &servers)];
    let (service, ann) = with_owner(&settings).await;
    let url = service.target.url("/ok");
    let page = ann.post(NEW, &form(&url, &[])).await;
    page.shows(422, &["URL resolves to a disallowed address", "value=\"Nightly\""]);
    // Only a call finds out the address of a name.
    let by_name = url.replace("127.0.0.1", "inside.example");
    let page = ann.post(NEW, &form(&by_name, &[])).await;
    page.shows(200, &["Failed", "BLOCKED_ADDRESS", "Use a public address"]);
    page.hides(&["127.0.0.1"]);
    assert_eq!(service.target.count(), 0);
}

#[tokio::test]
async fn an_invalid_form_is_not_sent() {
    let (service, ann) = with_owner(&[]).await;
    let url = service.target.url("/ok");
    let wrong = form(&url, &[("cronExpression", "61 * * * *"), ("name", "")]);
    let page = ann.post(NEW, &wrong).await;
    let messages = ["minute 61", "id=\"name-message\"", "value=\"61 * * * *\"", "s3cret-token"];
    page.shows(422, &messages);
    let page = ann.with_script().post(NEW, &wrong).await;
    page.shows(200, &messages);
    assert_eq!(page.header("hx-retarget"), "#schedule-form");
    assert_eq!(service.target.count(), 0);
}

#[tokio::test]
async fn invalid_forms_do_not_count_against_the_limit() {
    let (service, ann) = with_owner(&[]).await;
    let url = service.target.url("/ok");
    let wrong = form(&url, &[("cronExpression", "61 * * * *")]);
    // More than the limit of a minute, even if a minute ends meanwhile.
    for _ in 0..21 {
        ann.with_script().post(NEW, &wrong).await.shows(200, &["minute 61"]);
    }
    ann.with_script().post(NEW, &form(&url, &[])).await.shows(200, &["Success"]);
    assert_eq!(service.target.count(), 1);
}

#[tokio::test]
async fn a_schedule_is_tested_with_the_changes_of_the_form() {
    let (service, ann) = with_owner(&[]).await;
    let url = service.target.url("/ok");
    let saved: Vec<_> = form(&url, &[("body", "old")]).split_off(1);
    let page = ann.post(NEW, &saved).await;
    assert_eq!(page.status, 303, "{}", page.text);
    let edit = format!("{}/edit", page.header("location"));
    ann.post(&edit, &form(&url, &[("body", "new")])).await.shows(200, &["Success"]);
    assert_eq!(&service.target.hits()[0].body[..], b"new");
    ann.get(&edit).await.shows(200, &["\nold</textarea>"]);

    let foreign = service.api.create(&url, json!({})).await;
    let foreign = format!("/dashboard/schedules/{foreign}/edit");
    ann.post(&foreign, &form(&url, &[])).await.shows(404, &[]);
    assert_eq!(service.target.count(), 1);
}

#[tokio::test]
async fn viewers_and_impatient_members_are_refused() {
    let (service, ann) = with_owner(&[]).await;
    let url = service.target.url("/ok");
    let mut refused = false;
    // The limit is 10 per minute, and a minute may end meanwhile.
    for _ in 0..21 {
        let page = ann.with_script().post(NEW, &form(&url, &[])).await;
        refused |= page.text.contains("too many test requests");
    }
    assert!(refused && service.target.count() <= 20);
    let mut store = service.store().await;
    sqlx::query("UPDATE memberships SET role = 'viewer'").execute(&mut store).await.expect("set");
    let sent = service.target.count();
    ann.post(NEW, &form(&url, &[])).await.shows(403, &["Not allowed"]);
    assert_eq!(service.target.count(), sent);
}
