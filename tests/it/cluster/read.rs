//! Reads the final state through the API.

use std::sync::Arc;

use punctual::domain::Timestamp;
use serde_json::Value;
use tokio::task::JoinSet;

use super::history::{Attempt, Job, Schedule, Skip};
use crate::harness::client::ApiClient;

fn text(record: &Value, name: &str) -> String {
    record[name].as_str().unwrap_or_default().to_owned()
}

fn number(record: &Value, name: &str) -> u32 {
    let number = record[name].as_u64().unwrap_or_else(|| panic!("no {name} in {record}"));
    number.try_into().expect("small")
}

fn instant_if(record: &Value, name: &str) -> Option<i64> {
    let instant: Timestamp = record[name].as_str()?.parse().expect("an instant");
    Some(instant.as_millis())
}

fn instant(record: &Value, name: &str) -> i64 {
    instant_if(record, name).unwrap_or_else(|| panic!("no {name} in {record}"))
}

/// Parses a job of a list or a single job, as an account sees it.
pub fn job(record: &Value, account: usize) -> Job {
    let attempts = record["attempts"].as_array().into_iter().flatten();
    Job {
        id: text(record, "id"),
        schedule: text(record, "scheduleId"),
        status: text(record, "status"),
        trigger: text(record, "trigger"),
        tick: instant(record, "scheduledRunAtUtc"),
        created: instant(record, "createdAt"),
        started: instant_if(record, "startedAtUtc"),
        completed: instant_if(record, "completedAtUtc"),
        updated: instant(record, "updatedAt"),
        number: number(record, "attemptNumber"),
        most: number(record, "maxAttempts"),
        error: record["errorCode"].as_str().map(str::to_owned),
        endpoint: text(record, "endpoint"),
        body: text(record, "body"),
        attempts: attempts.map(attempt).collect(),
        account,
    }
}

fn attempt(record: &Value) -> Attempt {
    Attempt {
        number: number(record, "number"),
        started: instant_if(record, "startedAtUtc"),
        completed: instant_if(record, "completedAtUtc"),
        duration: record["durationMs"].as_i64(),
        status: record["statusCode"].as_u64().map(|status| status.try_into().expect("small")),
        error: record["errorCode"].as_str().map(str::to_owned),
    }
}

/// Returns all jobs of an account up to a tick, with their attempts.
pub async fn jobs(api: &ApiClient, account: usize, cut: i64) -> Vec<Job> {
    let listed = api.jobs(&format!("to={}", Timestamp::from_millis(cut))).await;
    let mut jobs = Vec::with_capacity(listed.len());
    let mut asked = JoinSet::new();
    let permits = Arc::new(tokio::sync::Semaphore::new(6));
    for record in listed {
        let mut listed = job(&record, account);
        if listed.number == 1 && listed.status == "SUCCESS" {
            // Its only attempt is in the list.
            listed.attempts = vec![attempt(&with_number(&record))];
            jobs.push(listed);
            continue;
        }
        let (api, permits) = (api.clone(), permits.clone());
        asked.spawn(async move {
            let _permit = permits.acquire().await.expect("open");
            job(&api.job(&listed.id).await, account)
        });
    }
    jobs.extend(asked.join_all().await);
    jobs
}

fn with_number(record: &Value) -> Value {
    let mut attempt = record.clone();
    attempt["number"] = 1.into();
    attempt
}

/// Returns all schedules of an account.
pub async fn schedules(api: &ApiClient, account: usize) -> Vec<Schedule> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let reply = api.get(&format!("/v1/schedules?pageSize=1000{cursor}")).await;
        let page = reply.data().as_array().expect("schedules");
        all.extend(page.iter().map(|record| Schedule {
            id: text(record, "id"),
            name: text(record, "name"),
            enabled: record["isEnabled"] == true,
            next: instant_if(record, "nextRunAtUtc"),
            account,
        }));
        match reply.body["pagination"]["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

/// Returns the skips of a schedule.
pub async fn skips(api: &ApiClient, schedule: &str) -> Vec<Skip> {
    let reply = api.get(&format!("/v1/schedules/{schedule}/skips?pageSize=1000")).await;
    let skips = reply.data()["skips"].as_array().expect("skips").clone();
    let read = |record: &Value| Skip {
        schedule: schedule.to_owned(),
        first: instant(record, "firstUtc"),
        last: instant(record, "lastUtc"),
        count: number(record, "count").into(),
        reason: text(record, "reason"),
    };
    skips.iter().map(read).collect()
}
