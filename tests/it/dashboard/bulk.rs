//! Actions on many schedules of the list: on those that are selected, and on all that match.

use serde_json::{Value, json};
use sqlx::SqliteConnection;

use super::{key_of, with_owner};
use crate::harness::app::Service;
use crate::harness::client::{ApiClient, schedule};
use crate::harness::pages::{Page, PageVisitor};

const BULK: &str = "/dashboard/schedules/bulk";
/// The maximum number of schedules that a request changes.
const MAX_STEP: usize = 500;
/// The filter of most tests, and its schedules: more than two steps.
const NIGHTLY: (&str, &str) = ("q", "Nightly");
const SOME: usize = 2 * MAX_STEP + 20;

/// Creates schedules whose names begin with a word.
async fn create(api: &ApiClient, word: &str, count: usize) {
    let all: Vec<Value> = (0..count)
        .map(|number| schedule("https://a.example/", json!({ "name": format!("{word} {number}") })))
        .collect();
    for batch in all.chunks(1_000) {
        let made = api.post("/v1/schedules/bulk", &Value::Array(batch.to_vec())).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
}

/// Returns the numbers of enabled and of paused schedules whose names contain a word.
async fn states(store: &mut SqliteConnection, word: &str) -> (i64, i64) {
    let query = "SELECT COALESCE(SUM(is_enabled), 0), COALESCE(SUM(1 - is_enabled), 0) FROM schedules \
                 WHERE instr(name, $1) > 0";
    sqlx::query_as(query).bind(word).fetch_one(store).await.expect("counted")
}

/// Returns the number of entries of the audit log about an action.
async fn entries(store: &mut SqliteConnection, action: &str) -> i64 {
    let query = "SELECT COUNT(*) FROM audit_log WHERE action = $1 AND actor LIKE 'usr_%'";
    sqlx::query_scalar(query).bind(action).fetch_one(store).await.expect("counted")
}

/// Returns the hidden fields of the form with this button.
fn form_with(page: &Page, button: &str) -> Vec<(String, String)> {
    let (before, _) = page.text.split_once(button).unwrap_or_else(|| panic!("no {button:?}"));
    let (_, form) = before.rsplit_once("<form").expect("a form");
    let inputs = form.split("<input type=\"hidden\" name=\"").skip(1);
    let fields = inputs.map(|input| {
        let (name, rest) = input.split_once("\" value=\"").expect("a value");
        let (value, _) = rest.split_once('"').expect("an end");
        (name.to_owned(), value.replace("&quot;", "\"").replace("&amp;", "&"))
    });
    fields.collect()
}

/// Presses a button of a page.
async fn press(ann: &PageVisitor, page: &Page, button: &str, action: Option<&str>) -> Page {
    let fields = form_with(page, button);
    let fields = fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let fields: Vec<_> = fields.chain(action.map(|action| ("action", action))).collect();
    ann.post(BULK, &fields).await
}

/// Starts a service with schedules that match the filter, and others.
async fn with_schedules(count: usize) -> (Service, PageVisitor, SqliteConnection) {
    let (service, ann) = with_owner(&[]).await;
    let api = key_of(&service, &ann, "deploy").await;
    create(&api, "Nightly", count).await;
    create(&api, "Other", 3).await;
    let store = service.store().await;
    (service, ann, store)
}

fn matching(action: &'static str) -> [(&'static str, &'static str); 3] {
    [NIGHTLY, ("scope", "matching"), ("action", action)]
}

#[tokio::test]
async fn all_that_match_are_changed_in_steps_and_back() {
    let (_service, ann, mut store) = with_schedules(SOME).await;
    let all = i64::try_from(SOME).expect("few");
    let list = ann.get("/dashboard/schedules?q=Nightly").await;
    list.shows(200, &["Select all 1,020 schedules that match these filters"]);
    let few = ann.get("/dashboard/schedules?q=Other").await;
    few.shows(200, &["Selected:"]).hides(&["Select all 3"]);

    let question = ann.post(BULK, &matching("disable")).await;
    question.shows(
        200,
        &[
            "Pause 1,020 schedules?",
            "Name, description or URL contains “Nightly”",
            "1,020 schedules match now",
            "And 1,010 more.",
        ],
    );
    assert_eq!(states(&mut store, "Nightly").await, (all, 0), "a question changes nothing");

    let first = press(&ann, &question, ">Pause 1,020 schedules<", Some("disable")).await;
    first.shows(200, &["More schedules remain", "Paused 500 schedules.", "data-continue"]);
    let second = press(&ann, &first, ">Continue<", None).await;
    second.shows(200, &["Paused 1,000 schedules.", ">Stop here<"]);
    let last = press(&ann, &second, ">Continue<", None).await;
    last.shows(200, &["Paused 1,020 schedules.", ">Undo<"]).hides(&["Continue"]);
    assert_eq!(states(&mut store, "Nightly").await, (0, all));
    assert_eq!(states(&mut store, "Other").await, (3, 0));
    assert_eq!(entries(&mut store, "schedule.disabled").await, all);

    let again = ann.post(BULK, &[&matching("disable")[..], &[("sure", "true")]].concat()).await;
    again.shows(200, &["Paused 0 schedules. 500 schedules were paused already."]);

    let mut undone = press(&ann, &last, ">Undo<", Some("enable")).await;
    for _ in 0..2 {
        undone.shows(200, &["More schedules remain"]);
        undone = press(&ann, &undone, ">Continue<", None).await;
    }
    undone.shows(200, &["Enabled 1,020 schedules.", ">Undo<"]);
    assert_eq!(states(&mut store, "Nightly").await, (all, 0));
}

#[tokio::test]
async fn a_deletion_that_stopped_in_the_middle_is_repeated() {
    let (service, ann, mut store) = with_schedules(MAX_STEP + 100).await;
    let question = ann.post(BULK, &matching("delete")).await;
    question.shows(200, &["Delete 600 schedules?", "This cannot be undone."]);
    let button = ">Delete 600 schedules<";
    let stopped = press(&ann, &question, button, Some("delete")).await;
    stopped.shows(200, &["Deleted 500 schedules.", "More schedules remain"]);

    sqlx::query("UPDATE accounts SET suspended_at = 1 WHERE name = 'ann'")
        .execute(&mut store)
        .await
        .expect("suspended");
    let refused = press(&ann, &stopped, ">Continue<", None).await;
    refused.shows(422, &["Not all schedules were changed", "Deleted 500 schedules.", "suspended"]);
    refused.hides(&["data-continue"]);
    sqlx::query("UPDATE accounts SET suspended_at = NULL").execute(&mut store).await.expect("set");

    // Schedules that match by now are deleted, too, and the answer says the number that was done.
    let api = key_of(&service, &ann, "other").await;
    create(&api, "Nightly new", 2).await;
    let done = press(&ann, &question, button, Some("delete")).await;
    done.shows(200, &["Deleted 102 schedules."]).hides(&["Undo", "Continue"]);
    assert_eq!(states(&mut store, "Nightly").await, (0, 0));
    assert_eq!(states(&mut store, "Other").await, (3, 0));
    assert_eq!(entries(&mut store, "schedule.deleted").await, 602);
    ann.post(BULK, &matching("delete")).await.shows(303, &[]);
}

#[tokio::test]
async fn a_selection_reports_its_changes_and_offers_undo() {
    let (service, ann) = with_owner(&[]).await;
    let api = key_of(&service, &ann, "deploy").await;
    let one = api.create("https://a.example/", json!({ "name": "One" })).await;
    let two = api.create("https://a.example/", json!({ "name": "Two", "isEnabled": false })).await;
    let foreign = service.api.create("https://a.example/", json!({ "name": "Foreign" })).await;
    let ids = [("id", one.as_str()), ("id", two.as_str()), ("id", foreign.as_str())];
    let with = |action| [&ids[..], &[("action", action)]].concat();
    let mut store = service.store().await;

    let paused = ann.post(BULK, &with("disable")).await;
    paused.shows(200, &["Paused 1 schedule. 1 schedule was paused already.", ">Undo<"]);
    let resumed = press(&ann, &paused, ">Undo<", Some("enable")).await;
    resumed.shows(200, &["Enabled 1 schedule."]);
    assert_eq!(states(&mut store, "One").await, (1, 0));
    assert_eq!(states(&mut store, "Two").await, (0, 1), "it was not changed, so it is not undone");

    let question = ann.post(BULK, &with("delete")).await;
    question.shows(200, &["Delete 2 schedules?", "<li>One</li>"]).hides(&["Foreign"]);
    let foreign = [("id", foreign.as_str()), ("action", "delete"), ("sure", "true")];
    ann.post(BULK, &foreign).await.shows(200, &["Deleted 0 schedules."]);
    assert_eq!(states(&mut store, "Foreign").await, (1, 0));
    let deleted = press(&ann, &question, ">Delete 2 schedules<", Some("delete")).await;
    deleted.shows(200, &["Deleted 2 schedules."]).hides(&[">Undo<"]);
    ann.get(BULK).await.shows(303, &[]);
}

#[tokio::test]
async fn viewers_change_nothing_and_unknown_filters_are_not_named() {
    let (_service, ann, mut store) = with_schedules(60).await;
    let odd = [("state", "odd"), ("scope", "matching"), ("action", "disable")];
    let question = ann.post(BULK, &odd).await;
    question.shows(200, &["These are all schedules of the account.", "Pause 63 schedules?"]);
    ann.post(BULK, &[("scope", "matching"), ("action", "x")]).await.shows(303, &[]);
    let broken = [("scope", "matching"), ("after", "x"), ("action", "delete")];
    ann.post(BULK, &[&broken[..], &[("sure", "true")]].concat()).await.shows(404, &[]);

    sqlx::query("UPDATE memberships SET role = 'viewer'").execute(&mut store).await.expect("set");
    ann.get("/dashboard/schedules").await.shows(200, &["1 to 50 of 63"]).hides(&[
        "Select all",
        "Selected:",
        "value=\"delete\"",
    ]);
    for action in ["enable", "disable", "delete"] {
        ann.post(BULK, &matching(action)).await.shows(403, &[]);
        let sure = [&matching(action)[..], &[("sure", "true")]].concat();
        ann.post(BULK, &sure).await.shows(403, &[]);
    }
    assert_eq!(states(&mut store, "").await, (63, 0));
}
