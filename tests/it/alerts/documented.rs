//! The service behaves as `docs/notifications.md` shows.

use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use http::HeaderMap;
use punctual::domain::Timestamp;
use punctual::domain::alert::AlertKind;
use punctual::domain::alert::delivery::{DeliveryError, DeliveryStatus};
use punctual::domain::alert::policy::{AlertPolicy, JobEnd, Streak};
use punctual::domain::plan::{ChannelType, NotifyOn};
use serde_json::{Value, json};

use super::verify_by_hand::verify as verify_by_hand;
use super::{AlertSetup, channel, id, settled};
use crate::harness::client::Reply;
use crate::harness::provider::Received;
use crate::harness::servers::shared;

const DOCUMENT: &str = include_str!("../../../docs/notifications.md");

/// Returns the code after a mark, which is a comment in the document.
#[track_caller]
fn code(mark: &str) -> &'static str {
    let after = DOCUMENT.split_once(&format!("<!-- {mark} -->\n```")).expect(mark).1;
    let (_language, after) = after.split_once('\n').expect("code");
    after.split_once("```\n").expect("an end").0
}

/// Returns the common part of two responses of a kind: names and types. Null matches any type.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect()
        }
        Value::Array(items) => items.iter().take(1).map(shape).collect(),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!("number"),
        Value::Bool(_) => json!("yes or no"),
        Value::Null => Value::Null,
    }
}

#[track_caller]
fn assert_documented(mark: &str, reply: &Reply) {
    let shown: Value = serde_json::from_str(code(&format!("answer: {mark}"))).expect("JSON");
    assert_eq!(shape(&shown), shape(&reply.body), "{mark}");
}

#[tokio::test]
async fn the_answers_are_those_of_the_api() {
    let setup = AlertSetup::start().await;
    let api = setup.api();
    let body = json!({ "type": "webhook", "label": "Pager",
        "config": { "url": setup.provider.url("/hook") } });
    let made = api.post("/v1/notification-channels", &body).await;
    assert_documented("a channel is created", &made);
    let path = format!("/v1/notification-channels/{}", id(made.data()));
    let verified = api.post(&format!("{path}/verify"), &Value::Null).await;
    assert_documented("a channel is verified", &verified);
    let mail = channel(api, "email", json!({ "to": "ops@example.com" })).await;
    let refused = format!("/v1/notification-channels/{}/verify", id(&mail));
    let refused = api.post(&refused, &Value::Null).await;
    assert_documented("a verification has failed", &refused);
    let shown: Value =
        serde_json::from_str(code("answer: a verification has failed")).expect("JSON");
    assert_eq!(refused.body, shown);
    let schedule = setup.schedule("/seq/500", &[id(made.data())], json!({})).await;
    let preference = format!("/v1/schedules/{schedule}/notifications");
    assert_documented("a preference is set", &api.get(&preference).await);
    setup.run(&schedule).await;
    settled(api, "", 1).await;
    let listed = api.get(&format!("/v1/notification-deliveries?scheduleId={schedule}")).await;
    assert_documented("deliveries are listed", &listed);
    let rotated = api.post(&format!("{path}/rotate-secret"), &json!({ "overlapSeconds": 1 })).await;
    assert_documented("a secret is rotated", &rotated);
    api.call("DELETE", &path, None).await.expect("an answer").data();
    let orphan = api.get(&preference).await;
    assert_documented("a channel was deleted", &orphan);
    let shown: Value = serde_json::from_str(code("answer: a channel was deleted")).expect("JSON");
    assert_eq!(orphan.data()["warning"], shown["data"]["warning"]);
}

#[test]
fn every_name_is_explained() {
    let kinds = AlertKind::ALL.iter().map(|one| one.as_str());
    let codes = DeliveryError::ALL.iter().map(|one| one.as_str());
    let statuses = DeliveryStatus::ALL.iter().map(|one| one.as_str());
    let types = ChannelType::ALL.iter().map(|one| one.as_str());
    let outcomes = NotifyOn::ALL.iter().map(|one| one.as_str());
    for name in kinds.chain(codes).chain(statuses).chain(types).chain(outcomes) {
        assert!(DOCUMENT.contains(&format!("`{name}`")), "{name}");
    }
}

/// Returns the alerts of jobs that end one minute apart, in the notation of the document.
fn alerts(preference: &Value, ends: &str) -> String {
    let text = preference["notifyOn"].as_str().expect("an outcome");
    let whole =
        |name: &str| preference[name].as_u64().map(|number| number.try_into().expect("small"));
    let policy = AlertPolicy {
        notify_on: NotifyOn::from_str(text).expect("an outcome"),
        failure_threshold: whole("failureThreshold").unwrap_or(1),
        notify_on_recovery: preference["notifyOnRecovery"] == true,
        repeat_every_minutes: whole("repeatEveryMinutes"),
    };
    let mut streak = Streak::default();
    let mut described = Vec::new();
    for (minute, end) in (1..).zip(ends.split(' ')) {
        let end = if end == "F" { JobEnd::Failed } else { JobEnd::Succeeded };
        let (raised, after) = policy.judge(streak, end, Timestamp::from_millis(minute * 60_000));
        streak = after;
        let wanted: Vec<_> = raised.into_iter().filter(|one| one.wanted).collect();
        assert!(wanted.len() <= 1, "one alert for one job");
        described.push(match wanted.first().map(|one| one.kind) {
            None => "-",
            Some(AlertKind::ScheduleRecovered) => "R",
            Some(_) => "!",
        });
    }
    described.join(" ")
}

#[test]
fn the_examples_of_preferences_come_out() {
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `{\"notifyOn\""));
    let mut checked = 0;
    for row in rows {
        let cells: Vec<_> = row.split('`').skip(1).step_by(2).collect();
        let [preference, ends, described] = cells[..] else { panic!("{row}") };
        let preference = serde_json::from_str(&preference.replace(", …", "")).expect("JSON");
        assert_eq!(alerts(&preference, ends), described, "{row}");
        checked += 1;
    }
    assert_eq!(checked, 7);
}

/// A request to verify, and the expected result.
struct Case {
    secret: String,
    headers: HeaderMap,
    body: String,
    is_signed: bool,
}

impl Case {
    fn of(secret: &str, alert: &Received, is_signed: bool) -> Self {
        let body = String::from_utf8(alert.body.to_vec()).expect("text");
        Self { secret: secret.to_owned(), headers: alert.headers.clone(), body, is_signed }
    }

    fn with(mut self, header: &'static str, value: &str) -> Self {
        self.headers.insert(header, value.parse().expect("a value"));
        self
    }

    fn json(&self) -> Value {
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| (name.as_str(), value.to_str().expect("text")));
        let headers: std::collections::BTreeMap<_, _> = headers.collect();
        json!({ "secret": self.secret, "headers": headers, "body": self.body })
    }
}

/// Returns alerts from before and after a rotation, and attacks that are based on them.
async fn cases() -> Vec<Case> {
    let setup = AlertSetup::start().await;
    let (channel, old) = setup.webhook("/hook").await;
    let schedule = setup.schedule("/seq/500", &[&channel], json!({})).await;
    setup.run(&schedule).await;
    let before = setup.provider.alerted(1).await.remove(0);
    let path = format!("/v1/notification-channels/{channel}/rotate-secret");
    let rotated = setup.api().post(&path, &json!({})).await;
    let new = rotated.data()["secret"].as_str().expect("a secret");
    setup.run(&schedule).await;
    let after = setup.provider.alerted(2).await.remove(1);
    let late = after.headers["webhook-timestamp"].to_str().expect("text");
    let late = (late.parse::<u64>().expect("seconds") - 600).to_string();
    let mut forged = Case::of(new, &after, false);
    forged.body = forged.body.replace("job.failed", "job.succeeded");
    vec![
        Case::of(&old, &before, true),
        Case::of(new, &before, false),
        Case::of(&old, &after, true),
        Case::of(new, &after, true),
        forged,
        Case::of(new, &after, false).with("webhook-id", "evt_other"),
        Case::of(new, &after, false).with("webhook-timestamp", &late),
        Case::of(new, &after, false).with("webhook-signature", "v1, v1,%% v2,x"),
    ]
}

/// Runs an example of the document with a driver that prints its results as JSON.
fn verdicts(
    mut program: Command,
    folder: &Path,
    files: &[(&str, &str)],
    cases: &[Case],
) -> Vec<bool> {
    for (name, text) in files {
        std::fs::write(folder.join(name), text).expect("written");
    }
    let cases: Vec<_> = cases.iter().map(Case::json).collect();
    std::fs::write(folder.join("cases.json"), json!(cases).to_string()).expect("written");
    let output = program.current_dir(folder).arg(files[0].0).output().expect("it is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&said).unwrap_or_else(|_| panic!("{output:?}"))
}

const CALL_PYTHON: &str = "import json
from example import verify
cases = json.load(open('cases.json', encoding='utf-8'))
print(json.dumps([verify(c['secret'], c['headers'], c['body'].encode()) for c in cases]))
";

const CALL_NODE: &str = "import { readFileSync } from 'node:fs';
import { verify } from './example.mjs';
const cases = JSON.parse(readFileSync('cases.json', 'utf8'));
console.log(JSON.stringify(cases.map((c) => verify(c.secret, c.headers, Buffer.from(c.body)))));
";

#[tokio::test]
async fn the_examples_verify_signatures() {
    let cases = cases().await;
    let expected: Vec<bool> = cases.iter().map(|case| case.is_signed).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let python = Command::new(shared("PUNCTUAL_TEST_AIOSMTPD"));
    let files = [("call.py", CALL_PYTHON), ("example.py", code("verified: python"))];
    assert_eq!(verdicts(python, folder.path(), &files, &cases), expected, "Python");
    let files = [("call.mjs", CALL_NODE), ("example.mjs", code("verified: js"))];
    assert_eq!(verdicts(Command::new("node"), folder.path(), &files, &cases), expected, "Node.js");
    let by_hand = |case: &Case| verify_by_hand(&case.secret, &case.headers, case.body.as_bytes());
    let verdicts: Vec<_> = cases.iter().map(|case| by_hand(case) == Some(true)).collect();
    assert_eq!(verdicts, expected, "Rust");
    let source = include_str!("verify_by_hand.rs");
    let shown = source.split_once("\n\n").expect("what follows its description").1;
    assert_eq!(code("verified: rust"), shown);
}
