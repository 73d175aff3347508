//! A real Prometheus with the rules of the chart, which scrapes real replicas.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::world::{Replica, World};
use crate::harness::client::ApiClient;
use crate::harness::servers::{Process, free_port};
use crate::harness::wait::within;

/// The alerting rules of the chart.
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/punctual/rules");
/// The timeout of an alert, whose minutes are seconds here.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A Prometheus that scrapes every second. A minute in the rules lasts a second.
struct Prometheus {
    folder: TempDir,
    api: ApiClient,
    _process: Process,
}

impl Prometheus {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        for rules in fs::read_dir(RULES).expect("the chart's rules") {
            let rules = rules.expect("a file");
            let text = fs::read_to_string(rules.path()).expect("text");
            fs::write(folder.path().join(rules.file_name()), in_time_lapse(&text))
                .expect("written");
        }
        watch(folder.path(), &[]);
        let config = "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n\
                      rule_files: ['*.yaml']\n\
                      scrape_configs:\n\
                      - job_name: punctual\n  file_sd_configs: [{files: [targets.json]}]\n";
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, config).expect("written");
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command.arg("--log.level=warn").stdin(Stdio::null());
        let process = Process::start(command, &folder);
        let api = ApiClient::new(([127, 0, 0, 1], port).into(), "");
        within(TIMEOUT, "Prometheus is ready", async || {
            let reply = api.call("GET", "/-/ready", None).await.ok()?;
            (reply.status == 200).then_some(())
        })
        .await;
        Self { folder, api, _process: process }
    }

    /// Sets the replicas to scrape.
    fn scrape(&self, replicas: &[&Replica]) {
        let targets: Vec<_> = replicas.iter().map(|replica| replica.operations()).collect();
        watch(self.folder.path(), &targets);
    }

    /// Waits until this number of replicas is scraped.
    async fn sees(&self, replicas: usize) {
        within(TIMEOUT, "the replicas are scraped", async || {
            let reply = self.api.get("/api/v1/query?query=count(punctual_build_info)").await;
            let value = &reply.body["data"]["result"][0]["value"][1];
            (value.as_str()?.parse() == Ok(replicas)).then_some(())
        })
        .await;
    }

    /// Waits until an alert fires or is resolved.
    async fn waits_for(&self, alert: &str, fires: bool) {
        let what = format!("{alert} {}", if fires { "fires" } else { "is resolved" });
        within(TIMEOUT, &what, async || {
            let reply = self.api.get("/api/v1/alerts").await;
            let alerts = reply.body["data"]["alerts"].as_array().cloned().unwrap_or_default();
            let is_it = |known: &&Value| known["labels"]["alertname"] == alert;
            let firing = alerts.iter().filter(is_it).any(|known| known["state"] == "firing");
            (firing == fires).then_some(())
        })
        .await;
    }

    /// Asserts that every rule could be evaluated.
    fn evaluates_all(&self) {
        let said = fs::read_to_string(self.folder.path().join("log")).expect("a log");
        assert!(!said.contains("Evaluating rule failed"), "{said}");
    }
}

/// Writes the targets for the Prometheus in this folder.
fn watch(folder: &Path, targets: &[SocketAddr]) {
    let targets: Vec<_> = targets.iter().map(ToString::to_string).collect();
    let groups = json!([{"targets": targets, "labels": {"namespace": "test"}}]);
    // The rename is atomic, so Prometheus never reads half of the file.
    let draft = folder.join("draft");
    fs::write(&draft, groups.to_string()).expect("written");
    fs::rename(draft, folder.join("targets.json")).expect("renamed");
}

/// Divides each time span in the rules by 60: `[10m]` becomes `[10s]`, `for: 1h` becomes `for: 1m`.
fn in_time_lapse(rules: &str) -> String {
    let mut result = String::new();
    let mut rest = rules;
    while let Some(begin) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let digits = rest[begin..].find(|letter: char| !letter.is_ascii_digit());
        let end = begin + digits.unwrap_or(rest.len() - begin);
        let (before, number) = (&rest[..begin], &rest[begin..end]);
        let mut after = rest[end..].chars();
        let (unit, next) = (after.next(), after.next());
        let is_span = before.ends_with(['[', ' ']) && !next.is_some_and(char::is_alphanumeric);
        let number: u32 = number.parse().expect("a small number");
        let shortened = match unit.filter(|_| is_span) {
            Some('m') => Some(format!("{number}s")),
            Some('h') => Some(format!("{number}m")),
            Some('d') => Some(format!("{}m", number * 24)),
            _ => None,
        };
        result.push_str(before);
        result.push_str(shortened.as_deref().unwrap_or(&rest[begin..end]));
        rest = &rest[end + usize::from(shortened.is_some())..];
    }
    result + rest
}

#[test]
fn spans_of_rules_are_shortened() {
    let rules = "for: 2m\nexpr: rate1h[10m] > 3 and x[6h] < 5 * 60 or y[3d]\ninterval: 30s\n";
    let expected = "for: 2s\nexpr: rate1h[10s] > 3 and x[6m] < 5 * 60 or y[72m]\ninterval: 30s\n";
    assert_eq!(in_time_lapse(rules), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_replicas_raise_the_right_alerts_until_others_come() {
    let world = World::new(&[("PUNCTUAL_CANARY_ENABLED", "true")]).await;
    let prometheus = Prometheus::start().await;
    let (one, two) = (world.replica(&[]).await, world.replica(&[]).await);
    let runner = world.replica(&[("PUNCTUAL_ROLES", "api,executor")]).await;
    prometheus.scrape(&[&one, &two, &runner]);
    prometheus.sees(3).await;
    prometheus.waits_for("PunctualDown", false).await;
    prometheus.waits_for("PunctualShardsLeaderless", false).await;

    // No replica is left that could lead.
    drop((one, two));
    prometheus.waits_for("PunctualShardsLeaderless", true).await;
    let other = world.replica(&[]).await;
    prometheus.scrape(&[&runner, &other]);
    prometheus.waits_for("PunctualShardsLeaderless", false).await;
    prometheus.waits_for("PunctualDown", false).await;

    // No replica is left at all.
    drop((runner, other));
    prometheus.waits_for("PunctualDown", true).await;
    let last = world.replica(&[]).await;
    prometheus.scrape(&[&last]);
    prometheus.waits_for("PunctualDown", false).await;
    prometheus.evaluates_all();
}
