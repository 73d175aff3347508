//! Authentication: all ways to present a key, and requests without one.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual::accounts::{Authenticator, PresentedKey, RateLimiter, Refusal};
use punctual::domain::KeyId;
use punctual::domain::audit::Author;
use punctual::domain::key::ApiKey;
use serde_json::json;

use super::away_queue::AwayQueue;
use super::harness::{Service, Setup, id, schedule_with};
use punctual::accounts::RateLimits;

const DAY: Duration = Duration::from_secs(24 * 3_600);

#[tokio::test]
async fn a_missing_key_is_told_apart_from_a_wrong_one() {
    let service = Service::start().await;
    for (method, path) in
        [("GET", "/v1/schedules"), ("POST", "/v1/jobs/x/retry"), ("GET", "/v1/no")]
    {
        let missing = ("MISSING_API_KEY", "API key is required");
        let invalid = ("INVALID_API_KEY", "Invalid API key");
        service.bare(method, path).send().await.refused(401, missing.0, missing.1);
        for blank in ["", " ", "\t "] {
            let answer = service.bare(method, path).header("x-api-key", blank).send().await;
            answer.refused(401, missing.0, missing.1);
        }
        for wrong in ["x", "pnc_", &service.key.to_uppercase(), &format!("{}0", service.key)] {
            let answer = service.bare(method, path).key(wrong).send().await;
            answer.refused(401, invalid.0, invalid.1);
        }
    }
}

#[tokio::test]
async fn bulk_creation_has_words_of_its_own() {
    let service = Service::start().await;
    let path = "/v1/schedules/bulk";
    let missing = service.bare("POST", path).send().await;
    missing.refused(401, "UNAUTHORIZED", "Missing x-api-key header");
    let invalid = service.bare("POST", path).key("nonsense").send().await;
    invalid.refused(401, "UNAUTHORIZED", "Invalid API key");
    let key = service.expiring_key(DAY).await;
    service.clock.advance(DAY);
    let expired = service.bare("POST", path).key(&key).send().await;
    expired.refused(401, "EXPIRED_API_KEY", "API key has expired");
    let usual = service.bare("GET", path).send().await;
    usual.refused(401, "MISSING_API_KEY", "API key is required");
}

#[tokio::test]
async fn a_key_is_taken_from_its_header_only_and_only_once() {
    let service = Service::start().await;
    let path = format!("/v1/schedules?x-api-key={}", service.key);
    service.bare("GET", &path).send().await.refused(401, "MISSING_API_KEY", "API key is required");
    let twice = service.call("GET", "/v1/schedules").header("X-Api-Key", &service.key).send().await;
    twice.refused(401, "INVALID_API_KEY", "Invalid API key");
    let huge = service.bare("GET", "/v1/schedules").key(&"x".repeat(10_000)).send().await;
    huge.refused(401, "INVALID_API_KEY", "Invalid API key");
    let bytes = http::HeaderValue::from_bytes(b"pnc_\xff").expect("allowed");
    let mut call = service.bare("GET", "/v1/schedules");
    call = call.raw_header("x-api-key", bytes);
    call.send().await.refused(401, "INVALID_API_KEY", "Invalid API key");
}

#[tokio::test]
async fn a_wrong_checksum_never_reaches_the_store() {
    let service = Service::start().await;
    service.store.close().await;
    let mut typo = service.key.clone();
    typo.replace_range(10..11, if &typo[10..11] == "a" { "b" } else { "a" });
    let answer = service.bare("GET", "/v1/schedules").key(&typo).send().await;
    answer.refused(401, "INVALID_API_KEY", "Invalid API key");
    let answer = service.get("/v1/schedules").await;
    assert_eq!(answer.status, 503, "a well-formed one does: {}", answer.text);
}

#[tokio::test]
async fn a_well_formed_key_with_another_secret_is_wrong() {
    let service = Service::start().await;
    let known: ApiKey = service.key.parse().expect("a key");
    let forged = ApiKey::new(known.id(), |bytes| bytes.fill(7));
    let unknown = ApiKey::new(KeyId::new(super::harness::START, 5), |bytes| bytes.fill(7));
    for key in [forged, unknown] {
        for _ in 0..2 {
            let answer = service.bare("GET", "/v1/schedules").key(key.reveal()).send().await;
            answer.refused(401, "INVALID_API_KEY", "Invalid API key");
        }
    }
    service.get("/v1/schedules").await.ok();
}

#[tokio::test]
async fn a_key_that_is_known_not_to_work_never_reaches_the_store() {
    let service = Service::start().await;
    let unknown = ApiKey::new(KeyId::new(super::harness::START, 5), |bytes| bytes.fill(7));
    let show = async || service.bare("GET", "/v1/schedules").key(unknown.reveal()).send().await;
    show().await.refused(401, "INVALID_API_KEY", "Invalid API key");
    service.store.close().await;
    show().await.refused(401, "INVALID_API_KEY", "Invalid API key");
    service.advance(5);
    assert_eq!(show().await.status, 503, "it is looked up again");
}

#[tokio::test]
async fn an_expired_key_is_reported_as_expired_for_thirty_days() {
    let service = Service::start().await;
    let key = service.expiring_key(DAY).await;
    let call = async || service.bare("GET", "/v1/schedules").key(&key).send().await;
    call().await.ok();
    service.clock.advance(DAY - Duration::from_millis(1));
    call().await.ok();
    service.clock.advance(Duration::from_millis(1));
    call().await.refused(401, "EXPIRED_API_KEY", "API key has expired");
    service.clock.advance(30 * DAY - Duration::from_millis(1));
    call().await.refused(401, "EXPIRED_API_KEY", "API key has expired");
    service.clock.advance(Duration::from_millis(1));
    call().await.refused(401, "INVALID_API_KEY", "Invalid API key");
}

#[tokio::test]
async fn a_revocation_holds_within_five_seconds_and_a_new_key_works_at_once() {
    let service = Service::start().await;
    service.get("/v1/account").await.ok();
    let id = service.key.parse::<ApiKey>().expect("a key").id();
    service.accounts.revoke_key(Author::SERVICE, id).await.expect("revoked");
    service.advance(5);
    service.get("/v1/account").await.refused(401, "INVALID_API_KEY", "Invalid API key");
    let key = service.expiring_key(DAY).await;
    service.bare("GET", "/v1/account").key(&key).send().await.ok();
}

#[tokio::test]
async fn a_rotated_key_works_until_the_overlap_is_over() {
    let service = Service::start().await;
    let old = service.key.parse::<ApiKey>().expect("a key").id();
    let new = service.accounts.rotate_key(Author::SERVICE, old, DAY).await.expect("rotated");
    let call = async |key: &str| service.bare("GET", "/v1/account").key(key).send().await;
    call(new.reveal()).await.ok();
    service.clock.advance(DAY - Duration::from_millis(1));
    call(&service.key).await.ok();
    service.clock.advance(Duration::from_millis(1));
    call(&service.key).await.refused(401, "EXPIRED_API_KEY", "API key has expired");
    call(new.reveal()).await.ok();
}

#[tokio::test]
async fn a_key_that_can_read_cannot_change() {
    let service = Service::start().await;
    let schedule = id(&service.create(json!({})).await);
    let key = service.read_key().await;
    let of = |rest: &str| format!("/v1/schedules/{schedule}{rest}");
    for (method, path) in [
        ("POST", "/v1/schedules".to_owned()),
        ("POST", "/v1/schedules/bulk".to_owned()),
        ("PUT", of("")),
        ("PATCH", of("")),
        ("DELETE", of("")),
        ("PATCH", of("/toggle")),
        ("POST", of("/trigger")),
        ("POST", "/v1/jobs/x/retry".to_owned()),
        ("POST", "/v1/jobs/x/cancel".to_owned()),
    ] {
        let answer = service.call(method, &path).key(&key).json(&json!({})).send().await;
        assert_eq!((answer.status, &answer.body["error"]["code"]), (403, &json!("FORBIDDEN")));
    }
    for path in ["/v1/schedules", &of(""), "/v1/jobs", "/v1/account", &of("/skips")] {
        service.call("GET", path).key(&key).send().await.ok();
    }
    let preview = service.call("POST", "/v1/schedules/preview").key(&key);
    preview.json(&schedule_with(json!({}))).send().await.ok();
}

#[tokio::test]
async fn an_address_that_shows_many_wrong_keys_is_stopped_before_any_look_up() {
    let limits = RateLimits { per_minute: 3, per_hour: 100 };
    let service = Service::with(Setup { limits, ..Setup::default() }).await;
    let unknown = |secret: u8| {
        let id = KeyId::new(super::harness::START, u128::from(secret));
        ApiKey::new(id, |bytes| bytes.fill(secret)).reveal().to_owned()
    };
    for secret in 1..=3 {
        let answer = service.bare("GET", "/v1/jobs").key(&unknown(secret)).send().await;
        answer.refused(401, "INVALID_API_KEY", "Invalid API key");
    }
    service.store.close().await;
    let answer = service.bare("GET", "/v1/jobs").key(&unknown(4)).send().await;
    answer.refused(429, "RATE_LIMIT_EXCEEDED", "Rate limit exceeded");
    let elsewhere = service.bare("GET", "/v1/jobs").key(&unknown(4)).from(9).send().await;
    assert_eq!(elsewhere.status, 503, "another address still reaches the store");
}

/// Failed attempts at one replica count at all replicas.
#[tokio::test]
async fn an_address_that_failed_elsewhere_is_stopped_before_any_look_up() {
    let service = Service::start().await;
    let limits = RateLimits { per_minute: 3, per_hour: 100 };
    let replica = || {
        let limiter = RateLimiter::new(service.queue.clone(), limits);
        let (store, clock) = (service.store.clone(), service.clock.clone());
        Authenticator::new(store, limiter, clock, Arc::default())
    };
    let (one, two) = (replica(), replica());
    let address = IpAddr::from([192, 0, 2, 7]);
    for _ in 0..3 {
        let decision = one.admit(PresentedKey::Text("wrong"), address).await;
        assert!(matches!(decision.outcome, Err(Refusal::Invalid)), "{:?}", decision.outcome);
    }
    let known = one.admit(PresentedKey::Text(&service.key), IpAddr::from([192, 0, 2, 8])).await;
    assert!(known.outcome.is_ok(), "{:?}", known.outcome);
    service.store.close().await;
    let unknown = ApiKey::new(KeyId::new(super::harness::START, 1), |bytes| bytes.fill(1));
    let admit =
        async |address| two.admit(PresentedKey::Text(unknown.reveal()), address).await.outcome;
    let refused = admit(address).await;
    assert!(matches!(refused, Err(Refusal::TooMany)), "{refused:?}");
    let elsewhere = admit(IpAddr::from([192, 0, 2, 9])).await;
    assert!(matches!(elsewhere, Err(Refusal::Store(_))), "{elsewhere:?}");
    let works = one.admit(PresentedKey::Text(&service.key), address).await.outcome;
    assert!(works.is_ok(), "a key that is known is not counted for its address: {works:?}");
}

/// The counters are in a remote queue, such as Redis.
#[tokio::test]
async fn a_call_with_a_cached_key_calls_the_shared_counters_once() {
    let service = Service::start().await;
    let queue = Arc::new(AwayQueue::far());
    let limiter = RateLimiter::new(queue.clone(), RateLimits { per_minute: 4, per_hour: 100 });
    let (store, clock) = (service.store.clone(), service.clock.clone());
    let authenticator = Authenticator::new(store, limiter, clock, Arc::default());
    let unknown = ApiKey::new(KeyId::new(super::harness::START, 1), |bytes| bytes.fill(1));
    let mistaken = ApiKey::new(KeyId::new(super::harness::START, 2), |bytes| bytes.fill(2));
    let address = IpAddr::from([192, 0, 2, 1]);
    for (text, times, why) in [
        (&*service.key, 2, "one that must be looked up needs its address's allowance first"),
        (&service.key, 1, "the key is cached"),
        ("x", 1, "a malformed key is counted once"),
        (unknown.reveal(), 1, "an unknown key counts for its address, which has failed before"),
        (unknown.reveal(), 1, "the refusal is cached"),
        (mistaken.reveal(), 1, "another unknown key counts in the same way"),
    ] {
        queue.asked.store(0, Ordering::Relaxed);
        authenticator.admit(PresentedKey::Text(text), address).await;
        assert_eq!(queue.asked.load(Ordering::Relaxed), times, "{why}");
    }
    // The allowance that a valid key took from such an address is given back.
    let other = service.other_account_key().await;
    for key in [&other, &service.read_key().await] {
        let decision = authenticator.admit(PresentedKey::Text(key), address).await;
        assert!(decision.outcome.is_err(), "the address has used up its four");
    }
    service.advance(60);
    for key in [&other, &service.read_key().await, &service.read_key().await] {
        let decision = authenticator.admit(PresentedKey::Text(key), address).await;
        assert!(decision.outcome.is_ok(), "{:?}", decision.outcome);
    }
    for left in (0..4).rev() {
        let decision = authenticator.admit(PresentedKey::Nothing, address).await;
        assert_eq!(decision.window_state.expect("counted").remaining, left);
    }
    for hostile in ["a}:{b", "*", "pnc_\r\nFLUSHALL\r\n", "' OR 1 --"] {
        let address = IpAddr::from([0x2001, 0xdb8, 0, 1, 2, 3, 4, 5]);
        authenticator.admit(PresentedKey::Text(hostile), address).await;
    }
    queue.assert_names_only_ids(&["key:", "address:192.0.2.1", "address:2001:db8:0:1::/64"]);
}

#[tokio::test]
async fn a_key_that_works_does_not_suffer_from_others_at_its_address() {
    let limits = RateLimits { per_minute: 3, per_hour: 100 };
    let service = Service::with(Setup { limits, ..Setup::default() }).await;
    service.get("/v1/jobs").await.ok();
    for _ in 0..5 {
        service.bare("GET", "/v1/jobs").key("wrong").send().await;
    }
    service.advance(10);
    service.get("/v1/jobs").await.ok();
    assert_eq!(service.bare("GET", "/v1/jobs").send().await.status, 429);
}

#[tokio::test]
async fn a_cached_key_works_during_a_short_outage_of_the_store() {
    let service = Service::start().await;
    service.get("/v1/account").await.ok();
    service.store.close().await;
    for seconds in [3, 0] {
        service.advance(seconds);
        let answer = service.get("/v1/nothing").await;
        assert_eq!(answer.status, 404, "a call without a store read is answered: {}", answer.text);
    }
    service.advance(1);
    assert_eq!(service.get("/v1/nothing").await.status, 503);
}

#[tokio::test]
async fn the_keys_of_a_deleted_account_open_nothing() {
    let service = Service::start().await;
    let path = format!("/v1/schedules/{}/trigger", id(&service.create(json!({})).await));
    service.get("/v1/account").await.ok();
    service.accounts.delete(Author::SERVICE, &service.account).await.expect("deleted");
    // The key stays in the cache for a few seconds, but the data of its account is gone.
    for (method, path) in [("GET", "/v1/account"), ("POST", "/v1/schedules"), ("POST", &*path)] {
        let answer = service.call(method, path).json(&schedule_with(json!({}))).send().await;
        answer.refused(401, "INVALID_API_KEY", "Invalid API key");
    }
    service.advance(5);
    let gone = service.get("/v1/schedules").await;
    gone.refused(401, "INVALID_API_KEY", "Invalid API key");
}

#[tokio::test]
async fn an_account_that_was_just_deleted_has_nothing_to_show() {
    let service = Service::start().await;
    let (schedule, job) = service.job().await;
    let path = format!("/v1/schedules/{schedule}");
    service.get(&path).await.ok();
    service.accounts.delete(Author::SERVICE, &service.account).await.expect("deleted");
    // The key stays in the cache for some seconds.
    service.get(&path).await.not_found("Schedule not found");
    service.get(&format!("{path}/skips")).await.not_found("Schedule not found");
    service.get(&format!("/v1/jobs/{job}")).await.not_found("Job not found");
    assert_eq!(*service.get("/v1/schedules").await.ok(), json!([]));
    assert_eq!(service.get("/v1/jobs").await.ok()["jobs"], json!([]));
    assert_eq!(service.get("/v1/audit-log").await.ok()["entries"], json!([]));
    for path in [format!("{path}/trigger"), format!("/v1/jobs/{job}/cancel")] {
        let answer = service.call("POST", &path).send().await;
        answer.refused(401, "INVALID_API_KEY", "Invalid API key");
    }
    service.get("/v1/account").await.refused(401, "INVALID_API_KEY", "Invalid API key");
    service.advance(4);
    service.get(&path).await.refused(401, "INVALID_API_KEY", "Invalid API key");
}
