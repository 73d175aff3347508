//! The metrics in a scrape.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::app::Service;
use crate::harness::client::{ApiClient, schedule};

/// The maximum number of series of a replica, which limits the cost of storing them.
const MAX_SERIES: usize = 4_000;

/// Returns the text of a scrape.
async fn scrape(service: &Service) -> String {
    let operations = ApiClient::new(service.operations_address(), "");
    let reply = operations.get("/metrics").await;
    assert_eq!(reply.status, 200);
    reply.text
}

/// Returns the names and labels of all series.
fn series(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.filter_map(|line| line.rsplit_once(' ')).map(|(series, _)| series.to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_schedules_and_a_thousand_accounts_add_no_series() {
    let service = Service::start().await;
    let before = series(&scrape(&service).await);
    assert!(before.len() < MAX_SERIES, "{} series", before.len());

    let url = service.target.url("/ok");
    for batch in 0..10 {
        let schedules: Vec<Value> = (0..1_000)
            .map(|number| schedule(&url, json!({"name": format!("s{batch}-{number}")})))
            .collect();
        let made = service.api.post("/v1/schedules/bulk", &Value::Array(schedules)).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }
    for number in 0..1_000 {
        service.new_account(&format!("account {number}")).await;
    }
    service.api.run(&url, json!({})).await;
    let gone = service.api.get("/v1/schedules/nothing-of-the-kind").await;
    assert_eq!(gone.status, 404);
    service.api.get("/no/such/route").await;
    assert_eq!(series(&scrape(&service).await), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_leaves_its_traces() {
    let service = Service::start().await;
    let job = service.api.run(&service.target.url("/ok"), json!({})).await;
    service.api.finished(&job).await;
    let text = scrape(&service).await;
    let value = |series: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series}")).parse::<f64>().expect("a number")
    };
    for counted in [
        r#"punctual_responses_total{class="2xx"}"#,
        r#"punctual_http_requests_total{method="POST",status="2xx",route="/v1/schedules"}"#,
        r#"punctual_http_seconds_count{route="/v1/schedules"}"#,
        r#"punctual_store_call_seconds_count{operation="create_schedules"}"#,
        r#"punctual_store_call_seconds_count{operation="commit"}"#,
        r#"punctual_queue_call_seconds_count{operation="take"}"#,
        "punctual_elections_total",
        "punctual_highest_epoch",
        "punctual_shards",
        "punctual_disk_free_bytes",
    ] {
        assert!(value(counted) >= 1.0, "{counted} {}", value(counted));
    }
    // The service has neither partitions nor certificates, so they have no end.
    assert!(value("punctual_partitions_ahead_seconds").is_nan());
    assert!(value(r#"punctual_certificate_expiry_seconds{certificate="store"}"#).is_nan());
    for idle in ["leader", "executor", "sweeper", "notifier", "upkeep"] {
        let idle = value(&format!("punctual_loop_idle_seconds{{loop=\"{idle}\"}}"));
        assert!((0.0..20.0).contains(&idle), "{idle}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promtool_finds_nothing_to_mend() {
    let service = Service::start().await;
    let text = scrape(&service).await;
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("promtool, of Debian's package prometheus");
    promtool.stdin.take().expect("piped").write_all(text.as_bytes()).expect("read");
    let output = promtool.wait_with_output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
