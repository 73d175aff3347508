//! Traces that real replicas send to a collector of the published protocol.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};

use super::world::{Replica, World};
use crate::harness::certificates::Authority;
use crate::harness::collector::{Collector, Received};
use crate::harness::process::complete_lines;
use crate::harness::target::Target;
use crate::harness::wait::{until, within};

const URL: &str = "PUNCTUAL_TRACES_OTLP_URL";
const LOG: [(&str, &str); 2] = [("PUNCTUAL_LOG", "debug"), ("PUNCTUAL_LOG_FORMAT", "json")];
/// A secret that only the target may receive.
const SECRET: &str = "swordfish";
/// By then the next minute has begun and its tick has fired.
const TICK: Duration = Duration::from_secs(80);

async fn collector() -> Collector {
    Collector::start((Ipv4Addr::LOCALHOST, 0).into(), None).await
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Waits until the spans of a job with all of these names have arrived, and returns them.
async fn spans(collector: &Collector, job: &str, names: &[&str]) -> Vec<Received> {
    until(&format!("the spans of {job} arrive"), async || {
        let mut of_job = collector.received();
        of_job.retain(|received| received.attribute("punctual.job.id") == job);
        let named =
            |name: &&str| of_job.iter().filter(|received| received.span.name == *name).count();
        let wanted = |name| names.iter().filter(|other| *other == name).count();
        names.iter().all(|name| named(name) == wanted(name)).then_some(of_job)
    })
    .await
}

fn named<'a>(spans: &'a [Received], name: &str) -> &'a Received {
    spans.iter().find(|received| received.span.name == name).expect("it came")
}

/// Starts a target that answers the first request with 503 and all others with 200.
async fn failing_once() -> Target {
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    Target::start("127.0.0.1:0", move |mut peer| {
        let count = count.clone();
        async move {
            loop {
                peer.request().await?;
                let first = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
                let status = if first { "503 Busy" } else { "200 OK" };
                peer.write(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")).await?;
            }
        }
    })
    .await
}

/// Waits until the log has at least `count` lines about a job, and returns them.
async fn lines(replica: &Replica, job: &str, count: usize) -> Vec<Value> {
    until(&format!("the log has {count} lines about {job}"), async || {
        let log = replica.read_log();
        let lines =
            complete_lines(&log).map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let of_job: Vec<_> = lines.filter(|line| line["job"] == job).collect();
        (of_job.len() >= count).then_some(of_job)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_one_trace_over_all_replicas() {
    let (collector, target) = (collector().await, failing_once().await);
    let url = format!("http://127.0.0.1:{}", collector.port());
    let mut world = World::new(&LOG).await;
    world.set(URL, url);
    world.set("PUNCTUAL_RETRY_BASE_SECONDS", "1");
    let key = world.key();
    let front = world.replica(&[("PUNCTUAL_ROLES", "api")]).await;
    let executor = world.replica(&[("PUNCTUAL_ROLES", "executor")]).await;
    let api = front.client(&key);
    let endpoint = target.url(&format!("/{SECRET}?key={SECRET}"));
    let fields = json!({
        "httpMethod": "POST",
        "headers": json!({ "x-secret": SECRET }).to_string(),
        "body": SECRET,
        "maxRetries": 3,
    });
    let schedule = api.create(&endpoint, fields).await;
    let path = format!("/v1/schedules/{schedule}/trigger");
    let caller = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{caller}-00f067aa0ba902b7-01");
    let answer = api.with_header("traceparent", &parent).post(&path, &json!({})).await;
    let job = answer.data().as_str().expect("an id").to_owned();
    assert_eq!(api.finished(&job).await["status"], "SUCCESS");

    let spans = spans(&collector, &job, &["trigger", "job", "attempt", "attempt"]).await;
    let (root, whole) = (named(&spans, "trigger"), named(&spans, "job"));
    let trace = hex(&root.span.trace_id);
    assert!(spans.iter().all(|received| hex(&received.span.trace_id) == trace));
    assert!(root.span.parent_span_id.is_empty());
    assert_eq!(whole.span.parent_span_id, root.span.span_id);
    assert_eq!(whole.attribute("punctual.status"), "SUCCESS");
    assert_eq!(whole.attribute("punctual.attempts"), "2");
    assert_ne!(root.replica, whole.replica, "made by one and run by the other");

    // The target received the span id of each attempt.
    let mut attempts: Vec<_> = spans.iter().filter(|span| span.span.name == "attempt").collect();
    attempts.sort_by_key(|attempt| attempt.attribute("punctual.attempt"));
    let parents: Vec<_> = target.requests().iter().map(|sent| sent.header("traceparent")).collect();
    let ids = attempts.iter().map(|attempt| hex(&attempt.span.span_id));
    let expected: Vec<_> = ids.map(|id| vec![format!("00-{trace}-{id}-01")]).collect();
    assert_eq!(parents, expected);
    assert!(attempts.iter().all(|attempt| attempt.span.parent_span_id == whole.span.span_id));
    let status = |number: usize| attempts[number].attribute("http.response.status_code");
    assert_eq!((status(0), status(1)), ("503".to_owned(), "200".to_owned()));
    assert_eq!(attempts[0].attribute("error.type"), "HTTP_STATUS");
    assert_eq!(attempts[0].attribute("server.port"), target.port().to_string());
    assert_eq!(attempts[0].attribute("punctual.schedule.id"), schedule);

    // The span of the request is a child of the caller's span. The root span of the job links to
    // it.
    let request = until("the span of the request arrives", async || {
        let received = collector.received();
        received.into_iter().find(|received| received.span.name.ends_with("/trigger"))
    })
    .await;
    assert_eq!(request.span.name, "POST /v1/schedules/{id}/trigger");
    assert_eq!(hex(&request.span.trace_id), caller);
    assert_eq!(hex(&request.span.parent_span_id), "00f067aa0ba902b7");
    let [link] = &root.span.links[..] else { panic!("{root:?}") };
    assert_eq!((&link.trace_id, &link.span_id), (&request.span.trace_id, &request.span.span_id));

    // The log lines of all replicas about the job have the same trace id. The secret appears
    // nowhere.
    let ended = lines(&executor, &job, 4).await;
    assert_eq!(ended.len(), 4, "two began and two ended: {ended:?}");
    assert!(ended.iter().all(|line| line["trace_id"] == trace), "{ended:?}");
    assert!(!format!("{:?}", collector.received()).contains(SECRET));
    assert!(!format!("{}{}", front.read_log(), executor.read_log()).contains(SECRET));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_is_a_trace_from_its_instant_on() {
    let collector = collector().await;
    let target = content().await;
    let mut world = World::new(&LOG).await;
    world.set(URL, format!("http://127.0.0.1:{}", collector.port()));
    let key = world.key();
    let replica = world.replica(&[]).await;
    let fields = json!({ "cronExpression": "* * * * *", "headers": r#"{"traceparent": "mine"}"# });
    let schedule = replica.client(&key).create(&target.url("/"), fields).await;
    let job = within(TICK, "a tick makes a job", async || {
        let jobs = replica.client(&key).jobs("trigger=schedule").await;
        jobs.first().map(|job| job["id"].as_str().expect("an id").to_owned())
    })
    .await;
    let spans = spans(&collector, &job, &["tick", "job", "attempt"]).await;
    let tick = named(&spans, "tick");
    assert_eq!(tick.attribute("punctual.schedule.id"), schedule);
    assert!(tick.span.links.is_empty());
    assert!(tick.span.start_time_unix_nano <= tick.span.end_time_unix_nano);
    let [sent] = &target.requests()[..] else { panic!("one request") };
    assert_eq!(sent.header("traceparent"), ["mine"], "the user's wins");
    // A tick that starts at once is recorded and claimed by one statement.
    let logged = lines(&replica, &job, 3).await;
    let mut messages: Vec<_> = logged.iter().filter_map(|line| line["message"].as_str()).collect();
    messages.sort_unstable();
    assert_eq!(messages, ["attempt begins", "attempt ended", "job made"]);
}

/// Starts a target that answers 200.
async fn content() -> Target {
    Target::answering("127.0.0.1:0", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await
}

/// Runs a job to its end.
async fn run_one(replica: &Replica, key: &str, target: &Target) {
    let api = replica.client(key);
    let job = api.run(&target.url("/"), json!({})).await;
    assert_eq!(api.finished(&job).await["status"], "SUCCESS");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_or_hangs_costs_spans_only() {
    let mut world = World::new(&LOG).await;
    let key = world.key();
    let target = content().await;
    let hanging = Target::start("127.0.0.1:0", async |mut peer| peer.hang().await).await;
    let port = crate::harness::servers::free_port();
    for away in [port, hanging.port()] {
        world.set(URL, format!("http://127.0.0.1:{away}"));
        let replica = world.replica(&[]).await;
        run_one(&replica, &key, &target).await;
        replica.wait_for_log("traces are not exported").await;
        let metrics = replica.ask("/metrics").await.text;
        let failed =
            metrics.lines().find(|line| line.contains("trace_spans_total{result=\"failed\"}"));
        let failed = failed.and_then(|line| line.rsplit_once(' ')).expect("a series").1;
        assert_ne!(failed, "0", "{metrics}");
        run_one(&replica, &key, &target).await;
        let said = replica.read_log();
        assert_eq!(said.matches("traces are not exported").count(), 1, "{said}");
        replica.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_may_want_tls_and_a_token() {
    let mut world = World::new(&LOG).await;
    let key = world.key();
    let files = Authority::new("collectors").server_files(&["localhost"], world.folder.path());
    let collector = Collector::start((Ipv4Addr::LOCALHOST, 0).into(), Some(&files)).await;
    let headers = world.folder.path().join("headers");
    std::fs::write(&headers, format!("authorization: Bearer {SECRET}\n")).expect("written");
    world.set(URL, format!("https://localhost:{}", collector.port()));
    world.set("PUNCTUAL_TRACES_CA_FILE", files.authority.display().to_string());
    world.set("PUNCTUAL_TRACES_HEADERS_FILE", headers.display().to_string());
    let (replica, target) = (world.replica(&[]).await, content().await);
    run_one(&replica, &key, &target).await;
    let received = until("spans arrive", async || {
        let received = collector.received();
        (!received.is_empty()).then_some(received)
    })
    .await;
    assert_eq!(received[0].authorization, Some(format!("Bearer {SECRET}")));
    assert!(!replica.read_log().contains(SECRET));
    replica.stop().await;

    // Spans that wait at the stop are still sent.
    let received = collector.received();
    assert!(received.iter().any(|received| received.span.name == "job"), "{received:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_collector_targets_get_no_traceparent() {
    let world = World::new(&[]).await;
    let key = world.key();
    let target = content().await;
    let replica = world.replica(&[]).await;
    run_one(&replica, &key, &target).await;
    let [sent] = &target.requests()[..] else { panic!("one request") };
    assert!(sent.header("traceparent").is_empty());
}
