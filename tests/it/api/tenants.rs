//! Isolation of accounts (S19, S20): every route with the ids of another account.

use serde_json::{Value, json};

use super::deliveries::failed_delivery;
use super::harness::{START, Service, accepting, unknown_schedule};
use punctual::domain::{ChannelId, DeliveryId, JobId};

/// Returns the response of a route to an id, without the parts that differ between any two
/// responses.
async fn answer(service: &Service, key: &str, method: &str, path: &str, body: &Value) -> String {
    let call = service.call(method, path).key(key).header("x-request-id", "same");
    let answer = call.json(body).send().await;
    let mut headers: Vec<_> = answer
        .headers
        .iter()
        .filter(|(name, _)| !name.as_str().starts_with("x-ratelimit"))
        .map(|(name, value)| format!("{name}: {value:?}"))
        .collect();
    headers.sort();
    format!("{}\n{}\n{}", answer.status, headers.join("\n"), answer.text)
}

#[tokio::test]
async fn the_ids_of_another_account_are_answered_like_random_ones() {
    let service = Service::start().await;
    let other_key = service.other_account_key().await;
    let (schedule, job) = service.job().await;
    let (no_schedule, no_job) = (unknown_schedule(), JobId::new(START, 3).to_string());
    let target = accepting().await;
    let (delivery, channel) = failed_delivery(&service, &target).await;
    let no_channel = ChannelId::new(START, 3).to_string();
    let no_delivery = DeliveryId::new(START, 3).to_string();
    let document = punctual::api::document("").to_json().expect("written");
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let mut tried = 0;
    for (path, item) in document["paths"].as_object().expect("an object") {
        let (own, random) = match path.split('/').nth(2) {
            Some("jobs") => (&job, &no_job),
            Some("notification-channels") => (&channel, &no_channel),
            Some("notification-deliveries") => (&delivery, &no_delivery),
            _ => (&schedule, &no_schedule),
        };
        if !path.starts_with("/v1/") || !path.contains("{id}") {
            continue;
        }
        for method in item.as_object().expect("an object").keys() {
            let method = method.to_uppercase();
            let notifications = json!({ "label": "x", "notifyOn": "none", "overlapSeconds": "1" });
            for body in [
                json!({}),
                json!({ "name": "x", "enabled": true }),
                json!({ "name": 1 }),
                notifications,
            ] {
                let [foreign, unknown] = [own, random].map(|id| path.replace("{id}", id));
                let foreign = answer(&service, &other_key, &method, &foreign, &body).await;
                let unknown = answer(&service, &other_key, &method, &unknown, &body).await;
                assert_eq!(foreign, unknown, "{method} {path}");
                assert!(foreign.starts_with("404"), "{method} {path}: {foreign}");
                tried += 1;
            }
        }
    }
    assert!(tried >= 80, "{tried}");
    let untouched = service.get(&format!("/v1/schedules/{schedule}")).await;
    assert_eq!(
        (&untouched.ok()["name"], &untouched.ok()["isEnabled"]),
        (&json!("Nightly"), &json!(true))
    );
    assert_eq!(service.get(&format!("/v1/jobs/{job}")).await.ok()["status"], "PENDING");
    let untouched = service.get(&format!("/v1/notification-channels/{channel}")).await;
    let untouched = (&untouched.ok()["label"], &untouched.ok()["verified"]);
    assert_eq!(untouched, (&json!("Hook"), &json!(true)));
    let untouched = service.get(&format!("/v1/notification-deliveries/{delivery}")).await;
    assert_eq!(untouched.ok()["status"], "FAILED");
}

#[tokio::test]
async fn lists_and_counts_show_nothing_of_another_account() {
    let service = Service::start().await;
    let other_key = service.other_account_key().await;
    let (schedule, _) = service.job().await;
    let get = async |path: &str| service.call("GET", path).key(&other_key).send().await;
    let schedules = get("/v1/schedules").await;
    assert_eq!(
        (&schedules.body["data"], &schedules.body["pagination"]["total"]),
        (&json!([]), &json!(0))
    );
    for path in ["/v1/jobs", &format!("/v1/jobs?scheduleId={schedule}")] {
        let jobs = get(path).await;
        assert_eq!((&jobs.ok()["jobs"], &jobs.ok()["total"]), (&json!([]), &json!(0)), "{path}");
    }
    let (delivery, channel) = failed_delivery(&service, &accepting().await).await;
    assert_eq!(get("/v1/notification-channels").await.ok(), &json!([]));
    let paths = [String::new(), format!("?channelId={channel}"), "?status=FAILED".to_owned()];
    for path in paths.map(|query| format!("/v1/notification-deliveries{query}")) {
        let theirs = get(&path).await;
        let listed = (&theirs.ok()["deliveries"], &theirs.ok()["total"]);
        assert_eq!(listed, (&json!([]), &json!(0)), "{path}");
        let own = service.get(&path).await;
        assert_eq!(own.ok()["deliveries"][0]["id"], json!(delivery), "{path}");
    }
    let usage = get("/v1/account").await.ok()["usage"].clone();
    assert_eq!(
        usage,
        json!({ "schedules": 0, "apiKeys": 1, "channels": 0, "jobsThisMonth": 0, "quotaExhaustedAt": null })
    );
}

#[tokio::test]
async fn a_cursor_of_another_account_leads_nowhere_new() {
    let service = Service::start().await;
    let other_key = service.other_account_key().await;
    service.job().await;
    service.job().await;
    let page = service.get("/v1/jobs?limit=1").await;
    let cursor = page.ok()["nextCursor"].as_str().expect("there is more").to_owned();
    let path = format!("/v1/jobs?cursor={cursor}");
    let answer = service.call("GET", &path).key(&other_key).send().await;
    assert_eq!(answer.ok()["jobs"], json!([]));
}
