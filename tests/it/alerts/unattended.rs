//! Alerts without a replica that has the role to deliver them.

use serde_json::json;

use super::{channel, id, prefer, verify};
use crate::harness::process::Installation;
use crate::harness::provider::Provider;
use crate::harness::recorder::Recorder;
use crate::harness::wait::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_alerts_grow_old_in_the_metrics_of_other_replicas() {
    let (target, provider) = (Recorder::start().await, Provider::start().await);
    let mut installation = Installation::new(&[("PUNCTUAL_ROLES", "api,scheduler,executor")]);
    let server = installation.serve().await;
    let api = installation.client(&server);
    let made = channel(&api, "webhook", json!({ "url": provider.url("/hook") })).await;
    verify(&api, id(&made)).await;
    let schedule = api.create(&target.url("/seq/500"), json!({ "maxRetries": 1 })).await;
    prefer(&api, &schedule, &[id(&made)], json!({})).await;
    let job = api.trigger(&schedule).await;
    api.finished(&job).await;
    until("the alert is seen to wait", async || {
        (server.counter("punctual_oldest_alert_seconds").await > 0).then_some(())
    })
    .await;
}
