//! Changes that cannot be undone ask once; a pause offers the way back.

use serde_json::json;

use super::{key_of, with_owner};
use crate::harness::pages::PageVisitor;

/// Sends a change without and with the confirmation, and returns the address after it.
async fn confirm(
    ann: &PageVisitor,
    path: &str,
    fields: &[(&str, &str)],
    question: &[&str],
) -> String {
    let asked = ann.post(path, fields).await;
    asked.shows(200, question).shows(200, &["name=\"sure\" value=\"true\""]);
    for (name, value) in fields {
        asked.shows(200, &[&format!("name=\"{name}\" value=\"{value}\"")]);
    }
    let done = ann.post(path, &[fields, &[("sure", "true")]].concat()).await;
    assert!([200, 303].contains(&done.status), "{}: {}", done.status, done.text);
    done.header("location").to_owned()
}

#[tokio::test]
async fn a_job_is_cancelled_after_a_question() {
    let (service, ann) = with_owner(&[]).await;
    let api = key_of(&service, &ann, "deploy").await;
    let fields = json!({ "name": "Slow <b>", "timeoutSeconds": 300 });
    let slow = api.create(&service.target.url("/hang"), fields).await;
    let job = api.trigger(&slow).await;
    let page = format!("/dashboard/jobs/{job}");
    let cancel = format!("{page}/cancel");
    ann.post(&cancel, &[])
        .await
        .shows(200, &["Cancel the job of Slow &lt;b&gt;?", "This cannot be undone.", "Let it run"]);
    assert_ne!(api.job(&job).await["status"], "FAILED", "a question changes nothing");
    assert_eq!(ann.post(&cancel, &[("sure", "true")]).await.header("location"), page);
    assert_eq!(api.finished(&job).await["status"], "FAILED");
    // There is nothing to ask any more.
    assert_eq!(ann.post(&cancel, &[]).await.header("location"), page);
    let foreign = service.api.run("https://a.example/", json!({})).await;
    ann.post(&format!("/dashboard/jobs/{foreign}/cancel"), &[]).await.shows(404, &[]);
}

#[tokio::test]
async fn keys_secrets_and_sessions_ask_before_they_end() {
    let (service, ann) = with_owner(&[]).await;
    key_of(&service, &ann, "deploy").await;
    let keys = ann.get("/dashboard/keys").await.text;
    let (_, rest) = keys.split_once("/dashboard/keys/").expect("a key");
    let (key, _) = rest.split_once('/').expect("its changes");
    let key = format!("/dashboard/keys/{key}/rotate");
    let title = ["Rotate the key deploy?", "The old key ends in 1 hour"];
    confirm(&ann, &key, &[("overlap", "3600")], &title).await;
    ann.get("/dashboard/keys").await.shows(200, &["Expires"]);
    ann.post(&key, &[("overlap", "5")]).await.shows(422, &["Choose an overlap."]);

    let rotate = "/dashboard/account/signing/rotate";
    let before = service.signing_secrets_of("ann").await.len();
    let title = ["Rotate the signing secret?", "still signs for 24 hours"];
    confirm(&ann, rotate, &[("overlap", "86400")], &title).await;
    assert_eq!(service.signing_secrets_of("ann").await.len(), before + 1);

    let api = key_of(&service, &ann, "hooks").await;
    let new = json!({ "type": "webhook", "label": "Ops", "config": { "url": service.target.url("/ok") } });
    let made = api.post("/v1/notification-channels", &new).await;
    let channel = made.data()["id"].as_str().expect("an id").to_owned();
    let secret = format!("/dashboard/channels/{channel}/secret");
    let title = ["Replace the signing secret of Ops?", "stops signing at once"];
    confirm(&ann, &secret, &[("overlap", "0")], &title).await;

    let out = "/dashboard/account/sign-out-everywhere";
    let next = confirm(&ann, out, &[], &["Sign out everywhere?"]).await;
    assert_eq!(next, "/dashboard/sign-in");
    ann.get("/dashboard/account").await.shows(303, &[]);
}

#[tokio::test]
async fn members_and_invitations_ask_before_they_end() {
    let (service, ann) = with_owner(&[]).await;
    let bob = PageVisitor::sign_up(service.api.address(), "bob").await;
    let mut store = service.store().await;
    let join = "INSERT INTO memberships (id, account_id, user_id, role, created_at) \
                SELECT randomblob(16), a.id, u.id, 'viewer', 1 FROM accounts a, users u \
                WHERE a.name = 'ann' AND u.email = 'bob@example.com'";
    sqlx::query(join).execute(&mut store).await.expect("joined");
    let page = ann.get("/dashboard/account").await.text;
    let paths = page.split("/dashboard/account/members/").skip(1);
    let removals = paths.filter_map(|rest| rest.split_once("/remove?").map(|(user, _)| user));
    let users: Vec<_> = removals.filter(|user| !user.contains('"')).collect();
    assert_eq!(users.len(), 2, "{users:?}");
    let mut asked = 0;
    for user in users {
        let path = format!("/dashboard/account/members/{user}/remove");
        let question = ann.post(&path, &[]).await;
        if question.text.contains("Leave the account ann?") {
            // A viewer may not ask for the removal of another member. In another account of the
            // viewer, there is no such member.
            let refused = bob.post(&path, &[]).await;
            assert!([403, 404].contains(&refused.status), "{}", refused.text);
            continue;
        }
        asked += 1;
        confirm(&ann, &path, &[], &["Remove bob@example.com?", "API keys stay"]).await;
        ann.get("/dashboard/account").await.hides(&["bob@example.com"]);
        ann.post(&path, &[]).await.shows(404, &[]);
    }
    assert_eq!(asked, 1);
    let gone = "/dashboard/account/invitations/inv_nothing/take-back";
    ann.post(gone, &[]).await.shows(404, &[]);
}

#[tokio::test]
async fn a_pause_can_be_undone_from_the_note_about_it() {
    let (service, ann) = with_owner(&[]).await;
    let api = key_of(&service, &ann, "deploy").await;
    let id = api.create("https://a.example/", json!({ "name": "Nightly" })).await;
    let page = format!("/dashboard/schedules/{id}");
    ann.get(&page).await.shows(200, &[]).hides(&[">Undo<"]);
    let paused = ann.post(&format!("{page}/toggle"), &[("enabled", "false")]).await;
    let address = paused.header("location").to_owned();
    let shown = ann.get(&address).await;
    shown.shows(200, &["The schedule is paused.", ">Undo<", "name=\"enabled\" value=\"true\""]);
    let resumed = ann.post(&format!("{page}/toggle"), &[("enabled", "true")]).await;
    // The old address says nothing that is no longer true.
    ann.get(&address).await.shows(200, &[]).hides(&["The schedule is paused."]);
    ann.get(resumed.header("location")).await.shows(200, &["The schedule is resumed.", ">Undo<"]);
    let noted = ann.post(&format!("{page}/pause"), &[("note", "why")]).await;
    ann.get(noted.header("location")).await.shows(200, &["The schedule is paused.", ": why"]);
}
