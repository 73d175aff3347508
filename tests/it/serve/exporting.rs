//! An export of an account contains the same data as the API.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};

use crate::harness::client::ApiClient;
use crate::harness::process::{Installation, run_to_end};
use crate::harness::recorder::Recorder;
use crate::harness::wait::until;

/// Creates schedules with secrets, changes some and deletes one, and runs jobs with several
/// attempts.
async fn fill(api: &ApiClient, target: &Recorder) {
    let secret = json!({ "headers": "{\"x-secret\":\"s3cret\"}", "body": "{\"a\":1}",
                         "httpMethod": "POST", "cronExpression": "0 0 1 1 *", "maxRetries": 3 });
    for path in ["/ok", "/seq/500,200", "/status/404"] {
        let schedule = api.create(&target.url(path), secret.clone()).await;
        let job = api.trigger(&schedule).await;
        api.finished(&job).await;
        let change = json!({ "name": path, "body": "{\"a\":2}" });
        let path = format!("/v1/schedules/{schedule}");
        api.call("PATCH", &path, Some(&change)).await.expect("an answer").data();
    }
    let gone = api.create(&target.url("/ok"), secret).await;
    let job = api.trigger(&gone).await;
    api.finished(&job).await;
    let path = format!("/v1/schedules/{gone}");
    assert_eq!(api.call("DELETE", &path, None).await.expect("an answer").status, 200);
}

/// Creates a channel and lets it receive an alert about a failed job.
async fn tell(api: &ApiClient, target: &Recorder) {
    let hook =
        json!({ "type": "webhook", "label": "Hook", "config": { "url": target.url("/ok") } });
    let channel = api.post("/v1/notification-channels", &hook).await.data().clone();
    let channel = channel["id"].as_str().expect("an id");
    let path = format!("/v1/notification-channels/{channel}/verify");
    assert_eq!(api.call("POST", &path, None).await.expect("an answer").status, 200);
    let schedule = api.create(&target.url("/status/404"), json!({ "maxRetries": 1 })).await;
    let path = format!("/v1/schedules/{schedule}/notifications");
    let preference = json!({ "notifyOn": "failure", "channelIds": [channel] });
    let set = api.call("PUT", &path, Some(&preference)).await.expect("an answer");
    assert_eq!(set.status, 200, "{set:?}");
    let job = api.trigger(&schedule).await;
    api.finished(&job).await;
    until("the alert is delivered", async || {
        let found = api.get("/v1/notification-deliveries?status=DELIVERED").await;
        (found.data()["deliveries"].as_array().expect("an array").len() == 1).then_some(())
    })
    .await;
}

/// Returns the exported records by kind, without the field `kind`.
fn by_kind(text: &str) -> BTreeMap<String, Vec<Value>> {
    let mut kinds: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in text.lines() {
        let mut record: Value = serde_json::from_str(line).expect("a line of JSON");
        let kind = record.as_object_mut().expect("an object").remove("kind").expect("a kind");
        kinds.entry(kind.as_str().expect("a text").to_owned()).or_default().push(record);
    }
    kinds
}

fn sorted(mut records: Vec<Value>) -> Vec<Value> {
    records.sort_by_key(|record| record["id"].to_string());
    records
}

/// A secret in the wrong column is exported as unreadable.
async fn an_export_names_corrupt_fields(one: &Installation, kinds: &BTreeMap<String, Vec<Value>>) {
    let options = SqliteConnectOptions::new().filename(one.file());
    let mut other_session: SqliteConnection = options.connect().await.expect("opened");
    let spoil = "UPDATE schedule_versions SET body = headers WHERE retired_at IS NULL";
    sqlx::query(spoil).execute(&mut other_session).await.expect("spoiled");
    let spoiled = by_kind(&one.run(&["account", "export", "first"]));
    let is_marked = |record: &&Value| record["unreadable"] == json!(["body"]);
    let marked = |kind: &str| spoiled[kind].iter().filter(is_marked).count();
    assert_eq!((marked("schedule"), marked("version"), marked("job")), (3, 3, 0));
    let marked = spoiled["schedule"].iter().find(is_marked).expect("one");
    assert_eq!(
        (&marked["body"], &marked["headers"]),
        (&Value::Null, &kinds["version"][0]["headers"])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_equals_the_answers_of_the_api() {
    let target = Recorder::start().await;
    let mut one = Installation::new(&[]);
    one.run(&["account", "create", "other"]);
    let others = one.run(&["key", "create", "--account", "other"]);
    one.run(&["user", "create", "ann@example.com", "--account", "first"]);
    let server = one.serve().await;
    let api = one.client(&server);
    let other_account = ApiClient::new(server.public().expect("it serves"), &others);
    fill(&api, &target).await;
    tell(&api, &target).await;
    fill(&other_account, &target).await;

    let file = one.folder.path().join("first.jsonl");
    let path = file.to_str().expect("a path");
    let said = one.run(&["account", "export", "first", "--output", path]);
    let mode = std::fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only its owner can read it");
    let text = std::fs::read_to_string(&file).expect("a file");
    assert_eq!(said, format!("{} lines are in {path}", text.lines().count()));
    let kinds = by_kind(&text);

    let schedules = api.get("/v1/schedules").await.data().as_array().expect("an array").clone();
    assert_eq!(sorted(kinds["schedule"].clone()), sorted(schedules));
    let mut jobs = Vec::new();
    for job in api.jobs("").await {
        jobs.push(api.job(job["id"].as_str().expect("an id")).await);
    }
    assert_eq!(jobs.len(), 5);
    assert_eq!(sorted(kinds["job"].clone()), sorted(jobs));
    let log = api.get("/v1/audit-log?pageSize=1000").await.data()["entries"].clone();
    assert_eq!(&kinds["audit"], log.as_array().expect("an array"));
    assert_eq!(kinds["version"].len(), 8, "three were changed, one is of a deleted schedule");
    let bodies = kinds["version"].iter().filter(|version| version["body"] == "{\"a\":1}");
    assert_eq!(bodies.count(), 4, "in clear");
    assert_eq!(kinds["account"].len(), 1);
    assert_eq!(kinds["member"][0]["email"], "ann@example.com");
    assert_eq!(kinds["key"].len(), 1);
    let shown = one.run(&["signing", "show", "--account", "first"]);
    let secrets = &kinds["signing_secret"];
    assert_eq!((secrets.len(), &secrets[0]["secret"]), (1, &json!(shown)), "in clear");
    assert!(kinds.values().flatten().all(|record| record.get("unreadable").is_none()));
    let secret = one.key.rsplit('_').next().expect("a part");
    assert_eq!(kinds["channel"].len(), 1);
    assert_eq!(kinds["channel"][0]["config"]["url"], json!(target.url("/ok")), "in clear");
    assert_eq!(kinds["preference"][0]["notifyOn"], "failure");
    let found = api.get("/v1/notification-deliveries").await.data()["deliveries"].clone();
    assert_eq!((&json!(kinds["delivery"]), kinds["delivery"].len()), (&found, 1));
    for absent in ["argon2", "digest", secret] {
        assert!(!text.contains(absent), "{absent}");
    }

    an_export_names_corrupt_fields(&one, &kinds).await;

    // A printed export has the same jobs.
    let printed = one.run(&["account", "export", "first"]);
    assert_eq!(by_kind(&printed)["job"], kinds["job"]);
    let (status, said) =
        run_to_end(one.command(&["account", "export", "first", "--output", path])).await;
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("exists"), "{said}");
}
