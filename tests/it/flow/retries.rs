//! Retries: which attempts are repeated, and when.

use std::time::Duration;

use serde_json::json;

use super::{attempts, end};
use crate::harness::app::Service;
use crate::harness::dns::{Answer, Dns};

#[tokio::test]
async fn a_failure_that_may_pass_is_tried_again_until_it_has() {
    let service = Service::start().await;
    let url = service.target.url("/seq/500,0,503,200");
    let id = service.api.run(&url, json!({ "maxRetries": 5 })).await;
    let job = service.api.finished(&id).await;
    assert_eq!(end(&job), ("SUCCESS", None, 4));
    let expected = [
        (1, Some(500), Some("HTTP_STATUS")),
        (2, None, Some("NETWORK")),
        (3, Some(503), Some("HTTP_STATUS")),
        (4, Some(200), None),
    ];
    assert_eq!(attempts(&job), expected);
    assert_eq!((&job["statusCode"], &job["response"]), (&json!(200), &json!("told")));
    let hits = service.target.hits_of(&id);
    assert_eq!(hits.iter().map(|hit| hit.attempt).collect::<Vec<_>>(), [1, 2, 3, 4]);
    // 20 ms, doubled each time. The jitter subtracts at most one half.
    for (two, least_ms) in hits.windows(2).zip([10, 20, 40]) {
        assert!(two[1].at - two[0].at >= Duration::from_millis(least_ms), "{two:?}");
    }
}

#[tokio::test]
async fn attempts_end_with_max_retries() {
    let service = Service::start().await;
    for (path, code, error) in [
        ("/seq/408", 408, "HTTP_STATUS"),
        ("/seq/429", 429, "HTTP_STATUS"),
        ("/seq/599", 599, "HTTP_STATUS"),
    ] {
        let id = service.api.run(&service.target.url(path), json!({ "maxRetries": 2 })).await;
        let job = service.api.finished(&id).await;
        assert_eq!(end(&job), ("FAILED", Some(error), 2), "{path}");
        assert_eq!(job["statusCode"], code);
        assert_eq!(service.target.hits_of(&id).len(), 2);
    }
}

#[tokio::test]
async fn a_final_status_is_not_tried_again() {
    let service = Service::start().await;
    for path in ["/seq/404", "/seq/301", "/seq/400", "/seq/410"] {
        let expected = json!({ "maxRetries": 5, "expectedStatusCodes": "200" });
        let id = service.api.run(&service.target.url(path), expected).await;
        let job = service.api.finished(&id).await;
        assert_eq!(end(&job), ("FAILED", Some("HTTP_STATUS"), 1), "{path}");
        assert_eq!(service.target.hits_of(&id).len(), 1);
    }
}

#[tokio::test]
async fn expected_status_codes_decide_about_success() {
    let service = Service::start().await;
    for (path, expected, status) in [
        ("/seq/500", Some("500"), "SUCCESS"),
        ("/seq/410", Some("200-299, 410"), "SUCCESS"),
        ("/seq/201", Some("200"), "FAILED"),
        ("/seq/302", None, "SUCCESS"),
    ] {
        let fields = json!({ "maxRetries": 3, "expectedStatusCodes": expected });
        let id = service.api.run(&service.target.url(path), fields).await;
        let job = service.api.finished(&id).await;
        assert_eq!(
            (job["status"].as_str(), &job["attemptNumber"]),
            (Some(status), &json!(1)),
            "{path}"
        );
    }
}

#[tokio::test]
async fn retry_after_postpones_the_next_attempt() {
    let service = Service::start().await;
    let id = service.api.run(&service.target.url("/later/5"), json!({ "maxRetries": 2 })).await;
    let waiting = service.api.job_when(&id, "PENDING").await;
    assert!(waiting["nextAttemptAtUtc"].is_string() || waiting["attemptNumber"] == 0, "{waiting}");
    let job = service.api.finished(&id).await;
    assert_eq!(end(&job), ("SUCCESS", None, 2));
    let hits = service.target.hits_of(&id);
    assert!(hits[1].at - hits[0].at >= Duration::from_secs(5), "{hits:?}");
}

#[tokio::test]
async fn a_target_that_hangs_is_left_at_the_timeout() {
    let service = Service::start().await;
    let fields = json!({ "maxRetries": 2, "timeoutSeconds": 5 });
    let id = service.api.run(&service.target.url("/hang"), fields).await;
    let job = service.api.finished_within(Duration::from_secs(40), &id).await;
    assert_eq!(end(&job), ("FAILED", Some("TIMEOUT"), 2));
    for hit in service.target.hits_of(&id) {
        let lasted = hit.ended.expect("left") - hit.at;
        assert_eq!(hit.answered, None);
        // The timeout includes the time until the request arrives.
        assert!(lasted >= Duration::from_secs(2), "{lasted:?}");
    }
    // This is the duration of the last attempt. Both of them take 10 s.
    let lasted = job["durationMs"].as_u64().expect("a number");
    assert!((5_000..10_000).contains(&lasted), "{lasted}");
}

#[tokio::test]
async fn a_name_that_leads_inside_is_not_called() {
    let dns = Dns::start().await;
    dns.script("inside.test", [Answer::addresses(&["10.0.0.7"], 60)]);
    let servers = dns.address().to_string();
    let service = Service::with(&[("dns.servers", &servers)]).await;
    let id = service.api.run("http://inside.test/", json!({ "maxRetries": 3 })).await;
    let job = service.api.finished(&id).await;
    assert_eq!(end(&job), ("FAILED", Some("BLOCKED_ADDRESS"), 1));
    assert!(!job.to_string().contains("10.0.0.7"), "{job}");

    let id = service.api.run("http://nowhere.test/", json!({ "maxRetries": 2 })).await;
    let job = service.api.finished(&id).await;
    assert_eq!(end(&job), ("FAILED", Some("DNS"), 2));
}

#[tokio::test]
async fn a_target_that_does_not_listen_is_tried_again() {
    let service = Service::start().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let id = service.api.run(&format!("http://{address}/"), json!({ "maxRetries": 2 })).await;
    let job = service.api.finished(&id).await;
    assert_eq!(end(&job), ("FAILED", Some("CONNECT"), 2));
}
