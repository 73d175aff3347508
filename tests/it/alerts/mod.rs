//! Alerts from the failing job to the channel, in the test process.

mod broken;
mod documented;
mod grouping;
mod hostile;
mod killed;
mod mail;
mod outcomes;
mod patience;
mod unattended;
mod verify_by_hand;

use serde_json::{Value, json};

use crate::harness::app::Service;
use crate::harness::client::ApiClient;
use crate::harness::provider::Provider;
use crate::harness::wait::until;

/// Test servers may act as chat providers, and tries follow each other within seconds.
const SETTINGS: &[(&str, &str)] =
    &[("chat.hosts", "127.0.0.1"), ("notify.retry_seconds", "1,2,3,4")];

/// A service and the receiver of its alerts.
struct AlertSetup {
    service: Service,
    provider: Provider,
}

impl AlertSetup {
    async fn start() -> Self {
        Self::with(&[]).await
    }

    async fn with(settings: &[(&'static str, &str)]) -> Self {
        let settings: Vec<_> = SETTINGS.iter().chain(settings).copied().collect();
        let service = Service::with(&settings).await;
        Self { service, provider: Provider::start().await }
    }

    fn api(&self) -> &ApiClient {
        &self.service.api
    }

    /// Creates a verified webhook with its own path at the receiver. Returns its id and its secret.
    async fn webhook(&self, path: &str) -> (String, String) {
        let made = channel(self.api(), "webhook", json!({ "url": self.provider.url(path) })).await;
        verify(self.api(), id(&made)).await;
        (id(&made).to_owned(), made["secret"].as_str().expect("a secret").to_owned())
    }

    /// Creates a schedule that calls a path of the target and alerts these channels about failures.
    async fn schedule(&self, path: &str, channels: &[&str], preference: Value) -> String {
        let endpoint = self.service.target.url(path);
        self.schedule_at(&endpoint, channels, preference).await
    }

    async fn schedule_at(&self, endpoint: &str, channels: &[&str], preference: Value) -> String {
        let fields = json!({ "name": "Nightly report", "maxRetries": 1 });
        let schedule = self.api().create(endpoint, fields).await;
        prefer(self.api(), &schedule, channels, preference).await;
        schedule
    }

    /// Runs a schedule once and waits for the end of the job. Returns the job.
    async fn run(&self, schedule: &str) -> String {
        let job = self.api().trigger(schedule).await;
        self.api().finished(&job).await;
        job
    }
}

/// Creates a channel and returns its record.
async fn channel(api: &ApiClient, kind: &str, config: Value) -> Value {
    let body = json!({ "type": kind, "label": format!("the {kind}"), "config": config });
    let reply = api.post("/v1/notification-channels", &body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.data().clone()
}

fn id(record: &Value) -> &str {
    record["id"].as_str().expect("an id")
}

async fn verify(api: &ApiClient, channel: &str) {
    let path = format!("/v1/notification-channels/{channel}/verify");
    let reply = api.post(&path, &Value::Null).await;
    assert_eq!(reply.data()["verified"], true, "{reply:?}");
}

/// Sets the preference of a schedule. By default it alerts about failures.
async fn prefer(api: &ApiClient, schedule: &str, channels: &[&str], fields: Value) {
    let mut body = json!({ "notifyOn": "failure", "channelIds": channels });
    body.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
    let path = format!("/v1/schedules/{schedule}/notifications");
    let reply = api.call("PUT", &path, Some(&body)).await.expect("an answer");
    assert_eq!(reply.status, 200, "{reply:?}");
}

/// Returns the deliveries that a query finds, newest first.
async fn deliveries(api: &ApiClient, query: &str) -> Vec<Value> {
    let path = format!("/v1/notification-deliveries?pageSize=100&{query}");
    api.get(&path).await.data()["deliveries"].as_array().expect("deliveries").clone()
}

/// Waits until a query finds at least `count` deliveries and all are final. Returns them.
async fn settled(api: &ApiClient, query: &str, count: usize) -> Vec<Value> {
    until(&format!("{count} deliveries of {query} are final"), async || {
        let all = deliveries(api, query).await;
        let open = all.iter().filter(|one| one["status"] == "PENDING").count();
        (all.len() >= count && open == 0).then_some(all)
    })
    .await
}
