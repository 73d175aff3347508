//! The zone and the clock of the times on pages, which each user chooses, and the field for a zone.

use serde_json::json;

use super::with_owner;
use crate::harness::pages::PageVisitor;

const DISPLAY: &str = "/dashboard/account/display";

#[tokio::test]
async fn a_user_chooses_the_zone_and_the_clock_of_all_pages() {
    let (service, ann) = with_owner(&[]).await;
    let mut store = service.store().await;
    // 2026-07-01, 15:30:05 UTC.
    sqlx::query("UPDATE accounts SET created_at = 1782919805000 WHERE name = 'ann'")
        .execute(&mut store)
        .await
        .expect("set");
    let ben = PageVisitor::sign_up(service.api.address(), "ben").await;
    ann.get("/dashboard/account").await.shows(200, &[">1 Jul 2026, 15:30:05<", "in UTC."]);
    for (zone, timezone, clock, shown) in [
        ("own", "Asia/Kolkata", "12", "1 Jul 2026, 9:00:05 PM"),
        ("own", " Europe/Berlin ", "24", "1 Jul 2026, 17:30:05"),
        ("utc", "Mars/Olympus", "12", "1 Jul 2026, 3:30:05 PM"),
        ("browser", "", "24", "1 Jul 2026, 15:30:05"),
    ] {
        let form = [("zone", zone), ("timezone", timezone), ("clock", clock)];
        let saved = ann.post(DISPLAY, &form).await;
        assert_eq!((saved.status, saved.header("location")), (303, "/dashboard/account#times"));
        let page = ann.get("/dashboard/account").await;
        page.shows(
            200,
            &[
                &format!(">{shown}<"),
                &format!("<option value=\"{zone}\" selected>"),
                &format!("<option value=\"{clock}\" selected>"),
            ],
        );
    }
    ben.get("/dashboard/account").await.shows(200, &["in UTC."]);
    ann.get("/dashboard/account/audit").await.shows(200, &["<code>user.time_display_set</code>"]);
}

#[tokio::test]
async fn an_unknown_zone_has_a_message_with_similar_names() {
    let (service, ann) = with_owner(&[]).await;
    let form = [("zone", "own"), ("timezone", "berlin"), ("clock", "24")];
    let messages = ["id=\"timezone-message\"", "Similar names: Europe/Berlin", "value=\"berlin\""];
    ann.post(DISPLAY, &form).await.shows(422, &messages);

    let url = service.target.url("/ok");
    let schedule = [
        ("name", "Nightly"),
        ("cronExpression", "0 3 * * *"),
        ("timezone", "New York"),
        ("endpoint", &url),
        ("httpMethod", "GET"),
    ];
    let page = ann.post("/dashboard/schedules/new", &schedule).await;
    page.shows(422, &["id=\"timezone-message\"", "Similar names: America/New_York"]);
    let help = "/dashboard/schedules/cron?cronExpression=0+3+*+*+*&timezone=New+York";
    ann.get(help).await.shows(200, &["choose a time zone", "Similar names: America/New_York"]);
    let rows = service.api.create(&url, json!({ "timezone": "America/New_York" })).await;
    assert!(rows.starts_with("sch_"), "the list has names that are accepted: {rows}");
}

#[tokio::test]
async fn the_list_of_zones_can_be_searched_for_cities_offsets_and_abbreviations() {
    let (_service, ann) = with_owner(&[]).await;
    for path in ["/dashboard/schedules/new", "/dashboard/schedules/import", "/dashboard/account"] {
        let page = ann.get(path).await;
        for part in [
            "list=\"timezones\"",
            "<option value=\"Asia/Kolkata\" label=\"Kolkata, UTC+05:30, IST\">",
            "<option value=\"Etc/GMT+5\" label=\"GMT+5, UTC-05:00\">",
        ] {
            assert!(page.text.contains(part), "no {part} on {path}");
        }
    }
}
