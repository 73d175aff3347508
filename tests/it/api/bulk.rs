//! Bulk creation of schedules: all or none.

use std::fmt::Write;

use serde_json::{Value, json};

use super::harness::{Service, id, schedule_with};

const PATH: &str = "/v1/schedules/bulk";

fn batch(size: usize) -> Value {
    (0..size).map(|index| schedule_with(json!({ "name": format!("s{index}") }))).collect()
}

#[tokio::test]
async fn a_full_batch_is_created_in_order() {
    let service = Service::start().await;
    let answer = service.post(PATH, &batch(1_000)).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    assert_eq!(answer.body["success"], true);
    let data = &answer.body["data"];
    assert_eq!(data["count"], 1_000);
    let schedules = data["schedules"].as_array().expect("an array");
    for (index, schedule) in schedules.iter().enumerate() {
        assert_eq!(schedule, &json!({ "id": id(schedule), "name": format!("s{index}") }));
    }
    let read = service.get(&format!("/v1/schedules/{}", id(&schedules[999]))).await;
    assert_eq!(read.ok()["name"], "s999");
    assert_eq!(service.get("/v1/schedules").await.body["pagination"]["total"], 1_000);
}

#[tokio::test]
async fn one_wrong_item_refuses_all() {
    let service = Service::start().await;
    let mut items = batch(5);
    items[1]["cronExpression"] = json!("nonsense");
    items[3] = json!("text");
    items[4]["maxRetries"] = json!(true);
    items[4]["name"] = Value::Null;
    service.post(PATH, &items).await.invalid(json!({
        "1.cronExpression": ["Invalid cron expression"],
        "3": ["Must be a JSON object"],
        "4.maxRetries": ["Must be an integer"],
        "4.name": ["Required"],
    }));
    assert_eq!(service.get("/v1/schedules").await.body["pagination"]["total"], 0);
}

#[tokio::test]
async fn a_batch_is_an_array_of_1_to_1000() {
    let service = Service::start().await;
    let count = ["Must hold 1 to 1000 schedules"];
    service.post(PATH, &json!([])).await.invalid(json!({ "schedules": count }));
    service.post(PATH, &batch(1_001)).await.invalid(json!({ "schedules": count }));
    for other in [json!({}), json!({ "schedules": [] }), json!("x"), json!(null)] {
        let answer = service.post(PATH, &other).await;
        answer.invalid(json!({ "schedules": ["Must be an array"] }));
    }
    let malformed = service.call("POST", PATH).body("[{]").send().await;
    assert_eq!(malformed.body["error"]["details"]["formErrors"], json!(["Invalid JSON body"]));
}

#[tokio::test]
async fn a_batch_may_have_16_mib_and_a_schedule_1_mib() {
    let service = Service::start().await;
    let body = "x".repeat(200_000);
    let items: Value = (0..80).map(|_| schedule_with(json!({ "body": body }))).collect();
    assert!(items.to_string().len() > 15 << 20);
    assert_eq!(service.post(PATH, &items).await.status, 201);

    let mut over = String::from("[");
    write!(over, "{}{}]", schedule_with(json!({})), " ".repeat(16 << 20)).expect("written");
    let answer = service.call("POST", PATH).body(over).send().await;
    let message = "Request body must be at most 16777216 bytes";
    answer.refused(413, "PAYLOAD_TOO_LARGE", message);
    let single = format!("{}{}", schedule_with(json!({})), " ".repeat(1 << 20));
    let answer = service.call("POST", "/v1/schedules").body(single).send().await;
    answer.refused(413, "PAYLOAD_TOO_LARGE", "Request body must be at most 1048576 bytes");
}

#[tokio::test]
async fn the_leaders_get_a_hint_about_every_new_schedule() {
    use punctual::domain::shard::ShardId;
    use punctual::queue::Queue;

    let service = Service::start().await;
    service.post(PATH, &batch(50)).await;
    let mut hinted = 0;
    for shard in 0..super::harness::SHARDS {
        let hints = service.queue.take_hints(ShardId(shard), 100).await.expect("taken");
        assert!(
            hints
                .schedules
                .iter()
                .all(|member| { ShardId::of(member.schedule, super::harness::SHARDS).0 == shard })
        );
        hinted += hints.schedules.len();
    }
    assert_eq!(hinted, 50);
}
