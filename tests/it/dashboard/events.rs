//! The stream of events of a job's page.

use sqlx::{AssertSqlSafe, Executor};

use super::streams::EventReader;
use super::with_owner;
use crate::harness::app::Service;
use crate::harness::client::ApiClient;
use crate::harness::pages::PageVisitor;
use crate::harness::wait::until;

/// The maximum number of streams of an account in a process.
const MOST: usize = 20;

/// A service on which a failed attempt is followed by a long pause, so that its job stays
/// unfinished without an attempt in progress.
async fn patient() -> (Service, PageVisitor) {
    with_owner(&[("retry.base_ms", "60000"), ("retry.cap_ms", "60000")]).await
}

/// Creates a job that waits for its second attempt. Returns the path of its page.
async fn waiting_job(service: &Service, user: &PageVisitor) -> String {
    let job = user.first_job(&service.target.url("/seq/500")).await;
    until("the job waits for a retry", async || {
        user.get(&job).await.text.contains("Next attempt").then_some(())
    })
    .await;
    job
}

async fn execute(service: &Service, statement: &str) {
    let mut store = service.store().await;
    store.execute(AssertSqlSafe(statement.to_owned())).await.expect("executed");
}

/// Returns how often the memberships of a user were read.
async fn membership_reads(service: &Service) -> u64 {
    let metrics = ApiClient::new(service.operations_address(), "").get("/metrics").await.text;
    let series = "punctual_store_call_seconds_count{operation=\"memberships\"} ";
    let count = metrics.lines().find_map(|line| line.strip_prefix(series));
    count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no {series}: {metrics}"))
}

#[tokio::test]
async fn a_change_is_one_event_and_the_end_of_the_job_is_the_last() {
    let (service, user) = with_owner(&[]).await;
    let job = user.first_job(&service.target.url("/hang")).await;
    until("the attempt has begun", async || (service.target.count() == 1).then_some(())).await;
    until("the page shows that the job runs", async || {
        user.get(&job).await.text.contains("state running").then_some(())
    })
    .await;

    let mut stream = user.open_stream(&job).await;
    assert_eq!(stream.status(), 200);
    let head = stream.text.to_ascii_lowercase();
    for line in
        ["content-type: text/event-stream", "cache-control: no-store", "content-security-policy:"]
    {
        assert!(head.contains(line), "{line}: {head}");
    }
    execute(&service, "UPDATE schedules SET name = 'renamed'").await;
    assert!(stream.read_until("event: job\n").await);
    assert!(stream.read_until("Job of renamed").await);
    service.target.release();
    stream.read_to_end().await;
    assert!(stream.text.contains("event: final\n"), "{}", stream.text);
    assert_eq!((stream.count("job"), stream.count("final")), (1, 1), "{}", stream.text);

    // The page of a final job has no stream, and a stream of it ends at once.
    assert!(!user.get(&job).await.text.contains("data-events"));
    let mut stream = user.stream_at(&format!("{job}/events")).await;
    stream.read_to_end().await;
    assert_eq!((stream.count("job"), stream.count("final")), (0, 1), "{}", stream.text);
}

#[tokio::test]
async fn an_old_page_gets_the_present_content_first() {
    let (service, user) = patient().await;
    let job = waiting_job(&service, &user).await;
    let mut stream = user.stream_at(&format!("{job}/events?seen=old")).await;
    assert!(stream.read_until("Next attempt").await);
    assert_eq!(stream.count("job"), 1);
}

#[tokio::test]
async fn a_stream_without_changes_sends_comments() {
    let (service, user) = patient().await;
    let job = waiting_job(&service, &user).await;
    let mut stream = user.open_stream(&job).await;
    let before = membership_reads(&service).await;
    assert!(stream.read_until("\n: \n\n").await, "{}", stream.text);
    assert_eq!(stream.count("job"), 0, "{}", stream.text);
    // The first comment comes after 15 s, in which the membership is checked every 5 s.
    let checks = membership_reads(&service).await - before;
    assert!((1..=4).contains(&checks), "{checks} checks");
}

#[tokio::test]
async fn the_jobs_of_others_have_no_stream() {
    let (service, user) = patient().await;
    let job = waiting_job(&service, &user).await;
    let other = PageVisitor::sign_up(service.api.address(), "eve").await;
    for path in [job.as_str(), "/dashboard/jobs/job_nothing"] {
        assert_eq!(other.get(&format!("{path}/events")).await.status, 404, "{path}");
    }
    assert_eq!(user.signed_out().get(&format!("{job}/events")).await.status, 303);
}

#[tokio::test]
async fn a_stream_ends_with_the_session_and_with_the_membership() {
    let (service, user) = patient().await;
    let job = waiting_job(&service, &user).await;
    let mut stream = user.open_stream(&job).await;
    execute(&service, "DELETE FROM memberships").await;
    stream.read_to_end().await;
    assert_eq!((stream.count("job"), stream.count("final")), (0, 0), "{}", stream.text);

    let other = PageVisitor::sign_up(service.api.address(), "bob").await;
    let job = waiting_job(&service, &other).await;
    let mut stream = other.open_stream(&job).await;
    assert_eq!(other.post("/dashboard/sign-out", &[]).await.status, 303);
    stream.read_to_end().await;
    assert_eq!((stream.count("job"), stream.count("final")), (0, 0), "{}", stream.text);
}

/// Pages that renew themselves do not count as used: a forgotten tab does not stay signed in.
#[tokio::test]
async fn only_requests_of_a_person_extend_the_session() {
    let (service, user) = patient().await;
    let mut store = service.store().await;
    sqlx::query("UPDATE users SET operator_since = 1").execute(&mut store).await.expect("set");
    let job = waiting_job(&service, &user).await;
    let page = user.get(&job).await.text;
    let renewal = format!("hx-get=\"{job}?renewal=true\"");
    assert!(page.contains(&renewal), "no {renewal} in {page}");
    let installation = "/dashboard/installation?renewal=true";
    user.get("/dashboard/installation").await.shows(200, &[installation]);

    // The session then expires in some minutes, so any request of a person extends it.
    let soon = "UPDATE sessions SET expires_at = created_at + 600000";
    sqlx::query(soon).execute(&mut store).await.expect("set");
    let left = "SELECT expires_at - created_at FROM sessions";
    let mut left =
        async || -> i64 { sqlx::query_scalar(left).fetch_one(&mut store).await.expect("read") };
    assert_eq!(user.stream_at(&format!("{job}/events")).await.status(), 200);
    user.get(&format!("{job}?renewal=true")).await.shows(200, &["Next attempt"]);
    user.get(installation).await.shows(200, &["Shards"]);
    assert_eq!(left().await, 600_000);
    user.get(&job).await.shows(200, &["Next attempt"]);
    assert!(left().await > 600_000);
}

#[tokio::test]
async fn a_stop_ends_streams() {
    let (mut service, user) = patient().await;
    let job = waiting_job(&service, &user).await;
    let mut stream = user.open_stream(&job).await;
    // The restart fails if the stop was not clean within its bound.
    let (_, ended) = tokio::join!(service.restart(async |_| ()), stream.read_to_end());
    assert!(!ended.contains("event: final"), "{ended}");
}

#[tokio::test]
async fn beyond_the_most_streams_of_an_account_the_answer_is_503() {
    let (service, user) = patient().await;
    let job = waiting_job(&service, &user).await;
    let mut streams: Vec<EventReader> = Vec::new();
    for _ in 0..MOST {
        let stream = user.stream_at(&format!("{job}/events")).await;
        assert_eq!(stream.status(), 200, "{}", stream.text);
        streams.push(stream);
    }
    let path = format!("{job}/events");
    assert_eq!(user.get(&path).await.status, 503);
    assert_eq!(user.get(&job).await.status, 200, "the page itself is there");
    let other = PageVisitor::sign_up(service.api.address(), "bob").await;
    let its_job = waiting_job(&service, &other).await;
    assert_eq!(other.open_stream(&its_job).await.status(), 200, "others have their own permits");
    streams.pop();
    until("the permit is free again", async || {
        (user.stream_at(&path).await.status() == 200).then_some(())
    })
    .await;
}
