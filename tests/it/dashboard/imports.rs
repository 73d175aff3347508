//! Imports: the preview of each line, and the button that creates all valid schedules or none.

use std::pin::pin;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use punctual::domain::plan::Plan;
use punctual::schedules::ScheduleImports;
use serde_json::json;

use super::watches::Watched;
use super::with_owner;
use crate::harness::app::Service;
use crate::harness::pages::{Page, PageVisitor};

const IMPORT: &str = "/dashboard/schedules/import";
const BOUNDARY: &str = "----a-boundary";
const CRONTAB: &str = "# jobs\nCRON_TZ=Europe/Berlin\nTZ=Asia/Tokyo\n\
    30 2 * * * curl -fsS -X POST -H 'X-Token: s3cret' -d 'a=1' https://a.example/report?key=k3y\n\
    @daily /opt/backup.sh\n\
    61 * * * * wget -q -O /dev/null https://b.example/\n\
    @hourly wget -q -O /dev/null https://c.example/ >/dev/null 2>&1\n";

/// Sends the form of the import, with the given fields and files.
async fn send(visitor: &PageVisitor, fields: &[(&str, &[u8])]) -> Page {
    let mut body = Vec::new();
    for (name, value) in fields {
        let file = if *name == "file" { "; filename=\"x\"" } else { "" };
        let head = format!(
            "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"{file}\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(value);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
    visitor.send("POST", IMPORT, &content_type, &body).await
}

/// Returns the names, expressions, zones, methods and URLs of all schedules.
async fn stored(service: &Service) -> Vec<(String, String, String, String, String)> {
    let query = "SELECT s.name, v.cron_expression, v.timezone, v.http_method, v.endpoint
                 FROM schedules AS s JOIN schedule_versions AS v ON v.id = s.version_id
                 ORDER BY v.endpoint";
    let rows = sqlx::query_as(query).fetch_all(&mut service.store().await).await;
    rows.expect("read")
}

#[tokio::test]
async fn a_crontab_is_previewed_and_created() {
    let (service, ann) = with_owner(&[]).await;
    ann.get(IMPORT).await.shows(200, &["<textarea", "type=\"file\"", "Preview"]);
    let fields: [(&str, &[u8]); 2] = [("text", CRONTAB.as_bytes()), ("timezone", b"UTC")];
    let page = send(&ann, &fields).await;
    page.shows(
        200,
        &[
            "2 of 4 can be imported",
            "POST a.example/report",
            "At 02:30",
            "Europe/Berlin",
            "key=•••",
            "Only commands that call curl or wget are supported",
            "CronExpression: Invalid cron expression",
            "Create 2 schedules",
            "Line 3 sets <code>TZ</code>, which has no effect on the times",
        ],
    );
    assert_eq!(stored(&service).await, []);

    let page = send(&ann, &[fields[0], fields[1], ("create", b"true")]).await;
    assert_eq!((page.status, page.header("location")), (303, "/dashboard/schedules"));
    let text = |row: [&str; 5]| {
        let [a, b, c, d, e] = row.map(str::to_owned);
        (a, b, c, d, e)
    };
    let expected = [
        text([
            "POST a.example/report",
            "30 2 * * *",
            "Europe/Berlin",
            "POST",
            "https://a.example/report?key=k3y",
        ]),
        text(["GET c.example", "0 * * * *", "Europe/Berlin", "GET", "https://c.example/"]),
    ];
    assert_eq!(stored(&service).await, expected);
}

#[tokio::test]
async fn json_of_the_api_and_of_an_export_is_read_from_a_file() {
    let (service, ann) = with_owner(&[]).await;
    let schedule = |name: &str| {
        json!({
            "kind": "schedule", "id": "sch_1", "name": name, "cronExpression": "0 3 * * *",
            "timezone": "UTC", "endpoint": format!("https://{name}.example/"),
            "httpMethod": "PUT", "isEnabled": name != "b", "nextRunAtUtc": null,
        })
    };
    let export = format!("{{\"kind\":\"account\"}}\n{}\n{}\n", schedule("a"), schedule("b"));
    let wrong = json!([schedule("c"), { "name": "d" }, 1]).to_string();
    let fields: [(&str, &[u8]); 3] =
        [("text", b"ignored"), ("timezone", b""), ("file", export.as_bytes())];
    send(&ann, &fields).await.shows(200, &["2 of 2 can be imported", "Paused"]);
    let page = send(&ann, &[("text", wrong.as_bytes()), ("timezone", b"")]).await;
    page.shows(200, &["1 of 3 can be imported", "Endpoint: Required", "Must be a JSON object"]);
    let page = send(&ann, &[fields[0], fields[1], fields[2], ("create", b"true")]).await;
    assert_eq!(page.status, 303, "{}", page.text);
    let names: Vec<_> = stored(&service).await.into_iter().map(|row| row.0).collect();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test]
async fn a_text_that_cannot_be_imported_stays_in_the_form() {
    let (service, ann) = with_owner(&[]).await;
    let utc: (&str, &[u8]) = ("timezone", b"UTC");
    let long = "x\n".repeat(1_001);
    for (fields, expected) in [
        ([("text", &b"# nothing"[..]), utc], ["The text has no schedules.", "# nothing"]),
        ([("text", b"{\"a\":"), utc], ["Line 1 is not valid JSON.", "{&quot;a&quot;:"]),
        ([("text", b"0 3 * * * curl a"), ("timezone", b"Mars")], ["Invalid timezone", "curl a"]),
        ([("text", long.as_bytes()), utc], ["Must hold 1 to 1000 schedules.", "x\nx"]),
        ([("file", b"\xff\xfe"), utc], ["The file is not a text in UTF-8.", "file-message"]),
    ] {
        send(&ann, &fields).await.shows(422, &expected).shows(422, &["<textarea"]);
    }
    let edit = send(&ann, &[("text", b"0 3 <b>"), utc, ("edit", b"true")]).await;
    edit.shows(200, &["<textarea", "0 3 &lt;b&gt;"]);
    let none = send(&ann, &[("text", b"nothing"), utc, ("create", b"true")]).await;
    none.shows(422, &["0 of 1 can be imported"]).hides(&["name=\"create\""]);
    let large = vec![b'x'; (2 << 20) + 1];
    let page = send(&ann, &[("text", &large), utc]).await;
    page.shows(422, &["Must be at most 2 MiB.", "text-message"]);
    // A browser sends line breaks as CR LF.
    let broken = "#\r\n".repeat(1 << 20);
    let page = send(&ann, &[("text", broken.as_bytes()), utc]).await;
    page.shows(422, &["The text has no schedules."]);
    send(&ann, &[("text", &vec![b'x'; 5 << 20]), utc])
        .await
        .shows(422, &["The form is too large."]);
    ann.post(IMPORT, &[("text", "x")]).await.shows(422, &["Not possible"]);
    assert_eq!(stored(&service).await, []);
}

#[tokio::test]
async fn two_imports_are_in_work_at_once() {
    let watched = Watched::new().await;
    let imports = ScheduleImports::new(watched.schedules.clone());
    let (one, _other) = (imports.begin().await.expect("a permit"), imports.begin().await);
    let mut third = pin!(imports.begin());
    assert!(third.as_mut().now_or_never().is_none());
    watched.clock.advance(Duration::from_secs(1));
    assert!(third.await.is_none(), "the wait is bounded");
    let mut third = pin!(imports.begin());
    assert!(third.as_mut().now_or_never().is_none());
    drop(one);
    assert!(third.await.is_some());
}

#[tokio::test]
async fn a_third_concurrent_import_is_answered_with_an_error_page() {
    let (service, ann) = with_owner(&[]).await;
    // Two imports wait for the lock of the store, so the third one finds no permit for a second.
    let mut store = service.store().await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut store).await.expect("locked");
    let text = b"@daily curl http://a.example/\n".as_slice();
    let fields = [("text", text), ("timezone", b"UTC"), ("create", b"true")];
    let mut answers: FuturesUnordered<_> = (0..3).map(|_| send(&ann, &fields)).collect();
    let first = answers.next().await.expect("an answer");
    first.shows(503, &["Other imports are in progress", "send the form again", "<h1>"]);
    sqlx::query("ROLLBACK").execute(&mut store).await.expect("unlocked");
    while answers.next().await.is_some() {}
    send(&ann, &fields).await.shows(303, &[]);
}

#[tokio::test]
async fn an_import_beyond_the_plan_creates_nothing() {
    let plan = Plan { schedules: Some(1), body_bytes: Some(5), ..Plan::unlimited("small") };
    let service = Service::on(&[("accounts.sign_up", "open")], plan).await;
    let ann = PageVisitor::sign_up(service.api.address(), "ann").await;
    let mut store = service.store().await;
    let on_plan = "UPDATE accounts SET plan = 'small' WHERE name = 'ann'";
    sqlx::query(on_plan).execute(&mut store).await.expect("set");
    let text = "@daily curl http://a.example/\n@daily curl http://b.example/\n\
                @daily curl -d a-long-body http://c.example/\n";
    let fields: [(&str, &[u8]); 2] = [("text", text.as_bytes()), ("timezone", b"UTC")];
    send(&ann, &fields).await.shows(200, &["2 of 3 can be imported", "bodyBytes"]);
    let page = send(&ann, &[fields[0], fields[1], ("create", b"true")]).await;
    page.shows(422, &["does not allow it", "schedules"]);
    assert_eq!(stored(&service).await, []);

    sqlx::query("UPDATE memberships SET role = 'viewer'").execute(&mut store).await.expect("set");
    ann.get(IMPORT).await.shows(403, &["Not allowed"]);
    send(&ann, &fields).await.shows(403, &["Not allowed"]);
}
