//! The versions of a schedule's definition: their authors and changes, and using one again.

use punctual::domain::VersionId;
use serde_json::json;

use super::{key_of, with_owner};
use crate::harness::app::Service;
use crate::harness::pages::PageVisitor;

const FORM: [(&str, &str); 6] = [
    ("name", "Nightly"),
    ("cronExpression", "0 3 * * *"),
    ("timezone", "UTC"),
    ("endpoint", "https://a.example/?token=t0ken-one"),
    ("httpMethod", "POST"),
    ("isEnabled", "true"),
];

/// Returns the form with other values of some fields, and with further fields.
fn form<'a>(revision: &'a str, changed: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let kept = FORM.iter().filter(|(name, _)| !changed.iter().any(|(its, _)| its == name));
    kept.chain(changed).copied().chain([("revision", revision)]).collect()
}

/// Creates a schedule by the form. Returns the path of its page.
async fn create(ann: &PageVisitor, changed: &[(&str, &str)]) -> String {
    let made = ann.post("/dashboard/schedules/new", &form("", changed)).await;
    assert_eq!(made.status, 303, "{}", made.text);
    made.header("location").to_owned()
}

/// Returns the ids of the stored versions of a schedule, newest first.
async fn stored(service: &Service) -> Vec<(String, String)> {
    let query = "SELECT lower(hex(id)), endpoint FROM schedule_versions ORDER BY id DESC";
    sqlx::query_as(query).fetch_all(&mut service.store().await).await.expect("read")
}

/// Returns the paths on a page that use a version again, in their order.
fn uses(text: &str) -> Vec<String> {
    let links = text.split("href=\"").filter_map(|rest| rest.split('"').next());
    links.filter(|path| path.ends_with("/use")).map(str::to_owned).collect()
}

#[tokio::test]
async fn versions_are_listed_with_authors_and_changes() {
    let (_service, ann) = with_owner(&[]).await;
    let secret = [("header-name", "X-Key"), ("header-value", "s3cret-one"), ("body", "one <b>")];
    let page = create(&ann, &secret).await;
    let versions = format!("{page}/versions");
    ann.get(&page).await.shows(200, &["/versions\">1 version</a>"]);
    ann.get(&versions).await.shows(
        200,
        &["Versions of Nightly", " by ann@example.com", "Current", "created with this version"],
    );

    let edited = [
        ("timeoutSeconds", "60"),
        ("endpoint", "https://a.example/?token=t0ken-two"),
        ("header-name", "X-Key"),
        ("header-value", "s3cret-two"),
        ("body", "two <b>"),
    ];
    let saved = ann.post(&format!("{page}/edit"), &form("1", &edited)).await;
    assert_eq!(saved.status, 303, "{}", saved.text);
    // A new name is no new version.
    let renamed: Vec<_> = edited.into_iter().chain([("name", "Renamed")]).collect();
    ann.post(&format!("{page}/edit"), &form("2", &renamed)).await.shows(303, &[]);

    ann.get(&page).await.shows(200, &["/versions\">2 versions</a>"]);
    let listed = ann.get(&versions).await;
    listed.shows(
        200,
        &[
            "Versions of Renamed",
            "Stored versions: 2",
            "<th scope=\"row\">URL</th><td><code>https://a.example/?token=•••</code>",
            "The part that is not shown has changed.",
            "<th scope=\"row\">Timeout of an attempt</th><td>30 s</td><td>60 s</td>",
            "one &lt;b&gt;",
            "two &lt;b&gt;",
            "Header X-Key",
            "Use this version again",
        ],
    );
    listed.hides(&["t0ken", "s3cret", "<b>", "<th scope=\"row\">Method"]);
    assert_eq!(listed.text.matches(" by ann@example.com").count(), 2);
}

#[tokio::test]
async fn an_old_version_is_used_again() {
    let (service, ann) = with_owner(&[]).await;
    let page = create(&ann, &[("body", "one")]).await;
    let edited = [("endpoint", "https://b.example/"), ("maxRetries", "5")];
    ann.post(&format!("{page}/edit"), &form("1", &edited)).await.shows(303, &[]);
    let versions = format!("{page}/versions");
    let links = uses(&ann.get(&versions).await.text);
    let [old] = &links[..] else { panic!("{links:?}") };

    let ask = ann.get(old).await;
    ask.shows(200, &["Use an old version of Nightly again?", "a.example", "b.example", "Attempts"]);
    let outdated = ann.post(old, &[("revision", "1")]).await;
    outdated.shows(422, &["The schedule was changed while this page was open."]);
    assert_eq!(stored(&service).await.len(), 2, "nothing changed");

    ann.post(old, &[("revision", "2")]).await.shows(303, &[]);
    let now = stored(&service).await;
    assert_eq!((now.len(), now[0].1.as_str()), (3, FORM[3].1));
    ann.get(&page).await.shows(200, &["a.example", "Body, 3 bytes", "3 versions"]);
    // Another use changes nothing.
    let again = ann.get(old).await;
    again.shows(200, &["The current definition is the same."]).hides(&["type=\"submit\">Use"]);
    ann.post(old, &[("revision", "3")]).await.shows(303, &[]);
    assert_eq!(stored(&service).await.len(), 3);
}

#[tokio::test]
async fn an_old_version_that_is_no_longer_allowed_is_refused() {
    let (service, ann) = with_owner(&[]).await;
    let page =
        create(&ann, &[("body", "one"), ("header-name", "X-A"), ("header-value", "1")]).await;
    let edited = [("endpoint", "https://b.example/")];
    ann.post(&format!("{page}/edit"), &form("1", &edited)).await.shows(303, &[]);
    let spoil = "UPDATE schedule_versions SET endpoint = 'ftp://a.example' WHERE retired_at > 0";
    sqlx::query(spoil).execute(&mut service.store().await).await.expect("changed");
    let links = uses(&ann.get(&format!("{page}/versions")).await.text);
    ann.post(&links[0], &[("revision", "2")]).await.shows(422, &["endpoint: ", "Use this version"]);

    let spoil = "UPDATE schedule_versions SET body = headers WHERE retired_at > 0";
    sqlx::query(spoil).execute(&mut service.store().await).await.expect("changed");
    let why = "The body or headers of this version cannot be decrypted.";
    ann.get(&links[0]).await.shows(200, &[why]).hides(&["type=\"submit\">Use"]);
    ann.post(&links[0], &[("revision", "2")]).await.shows(422, &[why]);
    assert_eq!(stored(&service).await.len(), 2);
}

#[tokio::test]
async fn many_versions_are_paged_and_pruned_ones_are_reported() {
    let (service, ann) = with_owner(&[]).await;
    let page = create(&ann, &[]).await;
    for number in 1..=22 {
        let (revision, endpoint) = (number.to_string(), format!("https://a.example/{number}"));
        let edited = form(&revision, &[("endpoint", &endpoint)]);
        ann.post(&format!("{page}/edit"), &edited).await.shows(303, &[]);
    }
    let newest = ann.get(&format!("{page}/versions")).await;
    newest.shows(200, &["Stored versions: 23", "https://a.example/2</code>", "Older →"]);
    newest.hides(&["<code>https://a.example/1</code>", "created with", "← Newer"]);
    let older =
        newest.text.split("rel=\"next\" href=\"").nth(1).and_then(|rest| rest.split('"').next());
    let older = older.expect("a link");
    ann.get(older).await.shows(200, &["a.example/1<", "created with this version", "← Newer"]);

    let first = "DELETE FROM schedule_versions WHERE id = (SELECT min(id) FROM schedule_versions)";
    sqlx::query(first).execute(&mut service.store().await).await.expect("deleted");
    sqlx::query("DELETE FROM audit_log")
        .execute(&mut service.store().await)
        .await
        .expect("deleted");
    let shown = ann.get(older).await;
    shown.shows(200, &["The versions before it were deleted", " by unknown"]);
    shown.hides(&["created with", "ann@example.com</h2>"]);
}

#[tokio::test]
async fn keys_are_named() {
    let (service, ann) = with_owner(&[]).await;
    let by_key = key_of(&service, &ann, "deploy").await;
    let id = by_key.create("https://a.example/", json!({})).await;
    let versions = ann.get(&format!("/dashboard/schedules/{id}/versions")).await;
    versions.shows(200, &[" by key deploy</h2>"]);
}

#[tokio::test]
async fn versions_of_other_accounts_are_not_found() {
    let (service, ann) = with_owner(&[]).await;
    let foreign = service.api.create("https://a.example/", json!({})).await;
    let [(version, _)] = &stored(&service).await[..] else { panic!("one version") };
    let version = u128::from_str_radix(version, 16).expect("an id");
    let version = VersionId::from_bytes(version.to_be_bytes());
    let own = create(&ann, &[]).await;
    for schedule in [format!("/dashboard/schedules/{foreign}"), own] {
        let used = format!("{schedule}/versions/{version}/use");
        ann.get(&used).await.shows(404, &[]);
        ann.post(&used, &[("revision", "1")]).await.shows(404, &[]);
    }
    ann.get(&format!("/dashboard/schedules/{foreign}/versions")).await.shows(404, &[]);
    assert_eq!(stored(&service).await.len(), 2, "one of each schedule");
}
