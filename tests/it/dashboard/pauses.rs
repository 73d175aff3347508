//! The note of a pause: pages show it until the schedule is resumed.

use serde_json::json;

use super::with_owner;

#[tokio::test]
async fn a_pause_has_a_note_until_it_ends() {
    let (service, ann) = with_owner(&[]).await;
    let new = [
        ("name", "Nightly"),
        ("cronExpression", "0 3 * * *"),
        ("timezone", "UTC"),
        ("endpoint", "https://a.example/"),
        ("httpMethod", "GET"),
        ("isEnabled", "true"),
    ];
    let page = ann.post("/dashboard/schedules/new", &new).await.header("location").to_owned();
    let (pause, toggle) = (format!("{page}/pause"), format!("{page}/toggle"));
    ann.get(&page).await.shows(200, &["Enabled", "Pause with a note"]);
    ann.get(&pause).await.shows(200, &["Pause Nightly", "name=\"note\""]);

    let long = "x".repeat(201);
    let refused = ann.post(&pause, &[("note", &long)]).await;
    refused.shows(422, &["Must be at most 200 characters.", "note-message", &long]);
    ann.get(&page).await.shows(200, &["Enabled"]);

    assert_eq!(ann.post(&pause, &[("note", " Moved <b> ")]).await.status, 303);
    let note = ["Paused by ann@example.com on ", ": Moved &lt;b&gt;<"];
    ann.get(&page).await.shows(200, &note).hides(&["Pause with a note"]);
    ann.get("/dashboard/schedules").await.shows(200, &note);
    // Saving other fields keeps the note, another note replaces it.
    let edited: Vec<_> = new.iter().copied().filter(|(name, _)| *name != "isEnabled").collect();
    let edited: Vec<_> = edited.into_iter().chain([("revision", "2")]).collect();
    let saved = ann.post(&format!("{page}/edit"), &edited).await;
    assert_eq!(saved.status, 303, "{}", saved.text);
    ann.get(&page).await.shows(200, &note);
    ann.post(&pause, &[("note", "Later")]).await.shows(303, &[]);
    ann.get(&page).await.shows(200, &[": Later<"]).hides(&["Moved"]);

    ann.post(&toggle, &[("enabled", "true")]).await.shows(303, &[]);
    ann.post(&toggle, &[("enabled", "false")]).await.shows(303, &[]);
    ann.get(&page).await.shows(200, &["Paused"]).hides(&["Paused by", "Later"]);

    let foreign = service.api.create("https://a.example/", json!({})).await;
    let foreign = format!("/dashboard/schedules/{foreign}/pause");
    ann.get(&foreign).await.shows(404, &[]);
    ann.post(&foreign, &[("note", "x")]).await.shows(404, &[]);
}
