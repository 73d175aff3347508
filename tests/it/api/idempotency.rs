//! `Idempotency-Key`: a call takes effect once, and a repeated call gets the same response.

use punctual::domain::AccountId;
use punctual::domain::audit::Author;
use punctual::domain::call::IdempotencyKey;
use serde_json::{Value, json};
use sqlx::{Connection, Executor};

use super::harness::{Answer, Service, id, schedule_with};
use crate::harness::wait::until;

const IN_PROGRESS: (&str, &str) =
    ("IDEMPOTENCY_IN_PROGRESS", "A call with this idempotency key is still running");
const REUSED: (&str, &str) =
    ("IDEMPOTENCY_KEY_REUSED", "The idempotency key was used for another request");

pub const LOST: &str = "The call took effect, but its answer was lost and cannot be returned again";

pub async fn post(service: &Service, path: &str, key: &str, body: &Value) -> Answer {
    service.call("POST", path).header("idempotency-key", key).json(body).send().await
}

async fn schedules(service: &Service) -> u64 {
    let list = service.get("/v1/schedules").await;
    list.body["pagination"]["total"].as_u64().expect("a number")
}

#[track_caller]
pub fn same(first: &Answer, again: &Answer) {
    assert_eq!((first.status, &first.text), (again.status, &again.text));
    for header in ["location", "content-type", "allow"] {
        assert_eq!(first.header(header), again.header(header), "{header}");
    }
    assert_ne!(first.header("x-request-id"), again.header("x-request-id"));
}

#[tokio::test]
async fn every_post_is_answered_the_same_again_and_done_once() {
    let service = Service::start().await;
    let (schedule, job) = service.job().await;
    let new = schedule_with(json!({}));
    for (number, (path, body)) in [
        ("/v1/schedules".to_owned(), new.clone()),
        ("/v1/schedules/bulk".to_owned(), json!([new, new])),
        ("/v1/schedules/preview".to_owned(), new.clone()),
        (format!("/v1/schedules/{schedule}/trigger"), json!({})),
        (format!("/v1/jobs/{job}/cancel"), json!({})),
        (format!("/v1/jobs/{job}/retry"), json!({})),
        // Errors are stored, too.
        ("/v1/schedules".to_owned(), json!({ "name": 1 })),
        ("/v1/schedules/sch_x/trigger".to_owned(), json!({})),
        ("/v1/account".to_owned(), json!({})),
        ("/v1/nothing".to_owned(), json!({})),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("key {number}");
        let before = entries(&service).await;
        let first = post(&service, &path, &key, &body).await;
        let after = entries(&service).await;
        service.advance(100);
        let again = post(&service, &path, &key, &body).await;
        same(&first, &again);
        assert_eq!(entries(&service).await, after, "{path}: nothing happens again");
        if first.status == 200 || first.status == 201 {
            let changes =
                usize::from(!path.ends_with("preview")) + usize::from(path.ends_with("bulk"));
            assert_eq!(after, before + changes, "{path}");
        }
    }
}

async fn entries(service: &Service) -> usize {
    let log = service.get("/v1/audit-log?pageSize=1000").await;
    log.ok()["entries"].as_array().expect("an array").len()
}

#[tokio::test]
async fn a_key_belongs_to_its_body_path_and_account_for_a_day() {
    let service = Service::start().await;
    let (one, two) = (schedule_with(json!({})), schedule_with(json!({ "name": "two" })));
    let first = post(&service, "/v1/schedules", "k", &one).await;
    assert_eq!(first.status, 201);
    post(&service, "/v1/schedules", "k", &two).await.refused(409, REUSED.0, REUSED.1);
    let schedule = id(&first.body["data"]);
    let trigger = format!("/v1/schedules/{schedule}/trigger");
    post(&service, &trigger, "k", &one).await.ok();
    let other_key = service.other_account_key().await;
    let theirs = service.call("POST", "/v1/schedules").key(&other_key);
    let theirs = theirs.header("idempotency-key", "k").json(&two).send().await;
    assert_eq!(theirs.status, 201, "{}", theirs.text);
    service.advance(24 * 3_600 - 1);
    same(&first, &post(&service, "/v1/schedules", "k", &one).await);
    service.advance(1);
    assert_eq!(post(&service, "/v1/schedules", "k", &two).await.status, 201);
    assert_eq!(schedules(&service).await, 2);
    // Other methods ignore the header.
    let patch = service.call("PATCH", &format!("/v1/schedules/{schedule}"));
    patch.header("idempotency-key", "k").json(&json!({ "name": "x" })).send().await.ok();
}

#[tokio::test]
async fn keys_have_1_to_255_characters_and_come_once() {
    let service = Service::start().await;
    let wrong = |why: &str| json!({ "Idempotency-Key": [why] });
    let new = schedule_with(json!({}));
    for key in ["", &"k".repeat(256)] {
        let refused = post(&service, "/v1/schedules", key, &new).await;
        refused.invalid(wrong("Must be 1 to 255 characters"));
    }
    let refused = post(&service, "/v1/schedules", "schlüssel", &new).await;
    refused.invalid(wrong("Must be ASCII characters"));
    let twice = service.call("POST", "/v1/schedules").header("idempotency-key", "a");
    let refused = twice.header("idempotency-key", "b").json(&new).send().await;
    refused.invalid(wrong("Must be given once"));
    let longest = post(&service, "/v1/schedules", &"k".repeat(255), &new).await;
    assert_eq!(longest.status, 201, "{}", longest.text);
}

#[tokio::test]
async fn two_calls_at_once_take_effect_once() {
    let service = Service::start().await;
    let new = schedule_with(json!({}));
    let call = || post(&service, "/v1/schedules", "k", &new);
    let (one, two) = tokio::join!(call(), call());
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert!(statuses == [201, 409] || statuses == [201, 201], "{statuses:?}");
    let (made, other) = if one.status == 201 { (&one, &two) } else { (&two, &one) };
    match other.status {
        409 => drop(other.refused(409, IN_PROGRESS.0, IN_PROGRESS.1)),
        _ => same(made, other),
    }
    same(made, &call().await);
    assert_eq!(schedules(&service).await, 1);
}

/// The main use of the header: the client disconnected before the response.
#[tokio::test]
async fn a_client_that_disconnects_gets_the_answer_when_it_returns() {
    let service = Service::start().await;
    let many = json!(vec![schedule_with(json!({})); 500]);
    let mut store = service.second_connection().await;
    {
        let mut call = Box::pin(post(&service, "/v1/schedules/bulk", "k", &many));
        let is_reserved = async {
            until("the key is reserved", async || {
                let count = sqlx::query_scalar("SELECT count(*) FROM idempotency_keys");
                let count: i64 = count.fetch_one(&mut store).await.expect("counted");
                (count == 1).then_some(())
            })
            .await;
        };
        tokio::select! {
            biased;
            () = is_reserved => {}
            answer = &mut call => panic!("it did not wait: {}", answer.text),
        }
    }
    let answer = until("the key has a stored response", async || {
        let answer = post(&service, "/v1/schedules/bulk", "k", &many).await;
        (answer.status != 409).then_some(answer)
    });
    assert_eq!(answer.await.body["data"]["count"], 500);
    assert_eq!(schedules(&service).await, 500);
}

#[tokio::test]
async fn effects_of_a_process_that_died_are_answered_from_their_receipt() {
    let service = Service::start().await;
    let (schedule, job) = service.job().await;
    let new = schedule_with(json!({}));
    let calls = [
        ("/v1/schedules".to_owned(), new.clone()),
        ("/v1/schedules/bulk".to_owned(), json!([new, new])),
        (format!("/v1/schedules/{schedule}/trigger"), json!({})),
        (format!("/v1/jobs/{job}/cancel"), json!({})),
        (format!("/v1/jobs/{job}/retry"), json!({})),
    ];
    let mut answers = Vec::new();
    for (path, body) in &calls {
        answers.push(post(&service, path, "k", body).await);
    }
    let mut store = service.second_connection().await;
    store.execute("UPDATE idempotency_keys SET answer = NULL").await.expect("forgotten");
    store.close().await.expect("closed");
    let before = entries(&service).await;
    let running = post(&service, &calls[0].0, "k", &calls[0].1).await;
    running.refused(409, IN_PROGRESS.0, IN_PROGRESS.1);
    service.advance(60);
    for ((path, body), first) in calls.iter().zip(&answers) {
        same(first, &post(&service, path, "k", body).await);
    }
    assert_eq!(entries(&service).await, before, "nothing is done again");
}

#[tokio::test]
async fn a_rebuilt_answer_is_stored_and_ignores_later_changes() {
    let service = Service::start().await;
    let (one, two) = (schedule_with(json!({})), schedule_with(json!({ "name": "two" })));
    let both = json!([one, two]);
    let single = post(&service, "/v1/schedules", "s", &one).await;
    let bulk = post(&service, "/v1/schedules/bulk", "b", &both).await;
    assert_eq!((single.status, bulk.status), (201, 201));
    let forget = async || {
        let mut store = service.second_connection().await;
        store.execute("UPDATE idempotency_keys SET answer = NULL").await.expect("forgotten");
        store.close().await.expect("closed");
        service.advance(60);
    };
    forget().await;
    let path = |answer: &Value| format!("/v1/schedules/{}", id(answer));
    let renamed = path(&bulk.body["data"]["schedules"][0]);
    service.call("PATCH", &renamed).json(&json!({ "name": "x" })).send().await.ok();
    let deleted = path(&bulk.body["data"]["schedules"][1]);
    for gone in [&deleted, &path(&single.body["data"])] {
        service.call("DELETE", gone).send().await.ok();
    }
    same(&bulk, &post(&service, "/v1/schedules/bulk", "b", &both).await);
    let lost = post(&service, "/v1/schedules", "s", &one).await;
    lost.refused(409, "CONFLICT", LOST);
    let kept = "SELECT count(*) FROM idempotency_keys WHERE answer IS NOT NULL";
    let mut store = service.second_connection().await;
    let kept: i64 = sqlx::query_scalar(kept).fetch_one(&mut store).await.expect("counted");
    assert_eq!(kept, 2, "they are kept like any answer");
    same(&bulk, &post(&service, "/v1/schedules/bulk", "b", &both).await);
    same(&lost, &post(&service, "/v1/schedules", "s", &one).await);
}

#[tokio::test]
async fn a_call_that_died_before_its_effect_is_made_again_after_a_minute() {
    let service = Service::start().await;
    let account: AccountId = service.account.id;
    let key = IdempotencyKey::new(account, "POST", "/v1/schedules", "k");
    service.accounts.reserve(account, key, [0; 32]).await.expect("reserved");
    let new = schedule_with(json!({}));
    let call = || post(&service, "/v1/schedules", "k", &new);
    call().await.refused(409, REUSED.0, REUSED.1);
    service.advance(60);
    let first = call().await;
    assert_eq!(first.status, 201, "{}", first.text);
    same(&first, &call().await);
}

#[tokio::test]
async fn refusals_are_kept() {
    let service = Service::start().await;
    let new = schedule_with(json!({}));
    let suspend = async |suspended| {
        let set = service.accounts.set_suspended(Author::SERVICE, &service.account, suspended);
        set.await.expect("set");
    };
    suspend(true).await;
    let refused = post(&service, "/v1/schedules", "s", &new).await;
    assert_eq!(refused.status, 403);
    suspend(false).await;
    same(&refused, &post(&service, "/v1/schedules", "s", &new).await);
    assert_eq!(post(&service, "/v1/schedules", "t", &new).await.status, 201);
}

/// Permissions are checked before the idempotency key. A read-only key can neither use up the
/// idempotency keys of writing keys nor read their responses.
#[tokio::test]
async fn a_key_that_can_only_read_has_no_part_in_changes() {
    let service = Service::start().await;
    let new = schedule_with(json!({}));
    let read_key = service.read_key().await;
    let read = async |path: &str, key: &str| {
        let call = service.call("POST", path).key(&read_key).header("idempotency-key", key);
        call.json(&new).send().await
    };
    let refused = read("/v1/schedules", "k").await;
    assert_eq!(refused.status, 403);
    let made = post(&service, "/v1/schedules", "k", &new).await;
    assert_eq!(made.status, 201, "{}", made.text);
    same(&refused, &read("/v1/schedules", "k").await);
    same(&made, &post(&service, "/v1/schedules", "k", &new).await);
    assert_eq!(read("/v1/schedules", &"k".repeat(256)).await.status, 403);
    assert_eq!(read("/v1/nothing", "k").await.status, 404);
    // A call that changes nothing gets the stored response for any key of the account.
    let asked = read("/v1/schedules/preview", "k").await;
    service.advance(3_600);
    same(&asked, &read("/v1/schedules/preview", "k").await);
    same(&asked, &post(&service, "/v1/schedules/preview", "k", &new).await);
}

#[tokio::test]
async fn temporary_errors_are_not_kept() {
    let service = Service::start().await;
    let schedule = id(&service.create(json!({})).await);
    let trigger = format!("/v1/schedules/{schedule}/trigger");
    let mut store = service.second_connection().await;
    store.execute("ALTER TABLE runs RENAME TO gone").await.expect("broken");
    let failed = post(&service, &trigger, "k", &json!({})).await;
    assert_eq!(failed.status, 500, "{}", failed.text);
    store.execute("ALTER TABLE gone RENAME TO runs").await.expect("mended");
    store.close().await.expect("closed");
    post(&service, &trigger, "k", &json!({})).await.ok();
}
