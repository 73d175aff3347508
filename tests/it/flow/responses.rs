//! The stored parts of a target's response.

use serde_json::{Value, json};

use crate::harness::app::Service;

/// Runs a schedule once and returns the job.
async fn answered(service: &Service, path: &str) -> Value {
    let id = service.api.run(&service.target.url(path), json!({ "maxRetries": 1 })).await;
    service.api.finished(&id).await
}

#[tokio::test]
async fn the_first_64_kib_are_kept() {
    let service = Service::start().await;
    for (size, kept, truncated) in
        [(65_536, 65_536, false), (65_537, 65_536, true), (3_000_000, 65_536, true), (0, 0, false)]
    {
        let job = answered(&service, &format!("/size/{size}")).await;
        assert_eq!(job["status"], "SUCCESS", "{size}");
        assert_eq!(job["response"].as_str().map(str::len), Some(kept), "{size}");
        assert_eq!(job["responseTruncated"], truncated, "{size}");
    }
}

#[tokio::test]
async fn any_bytes_can_come() {
    let service = Service::start().await;
    // NUL, a lone continuation byte, an overlong form, a cut character.
    for (hex, kept) in [
        ("610062", "a\u{fffd}b"),
        ("618062", "a\u{fffd}b"),
        ("c0af", "\u{fffd}\u{fffd}"),
        ("61e282", "a\u{fffd}"),
        ("f09f9880", "😀"),
    ] {
        let job = answered(&service, &format!("/raw/{hex}")).await;
        assert_eq!(
            (job["status"].as_str(), job["response"].as_str()),
            (Some("SUCCESS"), Some(kept))
        );
    }
}

#[tokio::test]
async fn a_list_shows_the_beginning_only() {
    let service = Service::start().await;
    let job = answered(&service, "/size/5000").await;
    let schedule = job["scheduleId"].as_str().expect("an id");
    let listed = service.api.jobs(&format!("scheduleId={schedule}")).await;
    assert_eq!(listed[0]["response"].as_str().map(str::len), Some(2_048));
    assert_eq!(listed[0]["responseTruncated"], true);
    assert_eq!(job["responseTruncated"], false);
}

#[tokio::test]
async fn status_headers_and_times_are_kept() {
    let service = Service::start().await;
    let job = answered(&service, "/slow/150").await;
    let headers: Value = match &job["responseHeaders"] {
        Value::String(text) => serde_json::from_str(text).expect("JSON"),
        other => panic!("{other}"),
    };
    assert_eq!(headers["content-length"], "4");
    let duration = job["durationMs"].as_u64().expect("a number");
    assert!((150..5_000).contains(&duration), "{duration}");
    let instant = |name: &str| job[name].as_str().expect("an instant").to_owned();
    assert!(instant("scheduledRunAtUtc") <= instant("startedAtUtc"));
    assert!(instant("startedAtUtc") <= instant("completedAtUtc"));
    let timings = &job["attempts"][0]["timings"];
    assert!(timings["firstByteMs"].as_u64().is_some_and(|ms| ms >= 149), "{timings}");
}
