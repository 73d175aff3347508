//! The checks after a fault, from outside: responses, jobs and requests agree.

use std::collections::{BTreeMap, BTreeSet};

use punctual::domain::Timestamp;
use serde_json::Value;

use crate::harness::client::ApiClient;
use crate::harness::recorder::{Hit, Recorder};

/// The responses to users while faults occurred.
#[derive(Default)]
pub struct History {
    /// The job ids that triggers returned.
    pub jobs: BTreeSet<String>,
    /// The schedule ids that creates returned.
    pub schedules: BTreeSet<String>,
    /// The number of triggers without a response. Each may have made a job.
    pub unanswered: usize,
    /// The final jobs, as they were first seen.
    finals: BTreeMap<String, Value>,
}

impl History {
    /// Reads all jobs. Asserts that final jobs have not changed.
    pub async fn check_finals(&mut self, api: &ApiClient) {
        for job in api.jobs("").await {
            let id = text(&job, "id").to_owned();
            if let Some(before) = self.finals.get(&id) {
                assert_eq!(*before, job, "JOB-2: a final job has changed");
            }
            if is_final(&job) {
                self.finals.insert(id, job);
            }
        }
    }

    /// Checks all invariants after all jobs have finished. Returns the jobs.
    pub async fn judge(&mut self, api: &ApiClient, target: &Recorder) -> Vec<Value> {
        self.check_finals(api).await;
        let jobs = api.jobs("").await;
        let known: BTreeSet<_> = jobs.iter().map(|job| text(job, "id").to_owned()).collect();
        assert_eq!(known.len(), jobs.len(), "a job is listed twice");
        let lost: Vec<_> = self.jobs.difference(&known).collect();
        assert!(lost.is_empty(), "triggers were answered and forgotten: {lost:?}");
        let manual = jobs.iter().filter(|job| job["trigger"] == "manual").count();
        let extra = manual - self.jobs.len();
        assert!(extra <= self.unanswered, "{extra} jobs without a request");
        for id in &self.schedules {
            let reply = api.get(&format!("/v1/schedules/{id}")).await;
            assert_eq!(reply.status, 200, "a create was answered and forgotten: {reply:?}");
        }
        for hit in target.hits() {
            assert!(known.contains(&hit.job), "a hit of an unknown job: {hit:?}");
        }
        for job in &jobs {
            let job = api.job(text(job, "id")).await;
            judge_job(&job, &target.hits_of(text(&job, "id")));
        }
        jobs
    }
}

fn judge_job(job: &Value, hits: &[Hit]) {
    let details = || format!("{job:#} {hits:#?}");
    assert!(is_final(job), "JOB-3: {}", details());
    let number = job["attemptNumber"].as_u64().expect("a number");
    assert!(number <= job["maxAttempts"].as_u64().expect("a number"), "JOB-1: {}", details());
    let attempts = job["attempts"].as_array().expect("attempts");
    let numbers: Vec<_> = attempts.iter().map(|attempt| attempt["number"].as_u64()).collect();
    assert_eq!(numbers, (1..=number).map(Some).collect::<Vec<_>>(), "JOB-1: {}", details());
    let increase = hits.windows(2).all(|two| two[0].attempt < two[1].attempt);
    assert!(increase, "JOB-1: hits twice or out of order: {}", details());
    let scheduled: Timestamp = instant(job, "scheduledRunAtUtc");
    for hit in hits {
        assert!(u64::from(hit.attempt) <= number, "an attempt that is not recorded: {}", details());
        // Both times are from this machine. The service rounds down to milliseconds.
        assert!(hit.wall_ms >= scheduled.as_millis(), "TICK-3: {}", details());
    }
    for attempt in attempts.iter().filter(|attempt| attempt["statusCode"].is_u64()) {
        let number = attempt["number"].as_u64().expect("a number");
        let hit = hits.iter().find(|hit| u64::from(hit.attempt) == number);
        let answered = hit.and_then(|hit| hit.answered).map(u64::from);
        assert_eq!(
            attempt["statusCode"].as_u64(),
            answered,
            "store and target differ: {}",
            details()
        );
    }
    assert!(scheduled <= instant(job, "completedAtUtc"), "{}", details());
}

pub fn is_final(job: &Value) -> bool {
    matches!(text(job, "status"), "SUCCESS" | "FAILED")
}

pub fn text<'a>(record: &'a Value, name: &str) -> &'a str {
    record[name].as_str().unwrap_or_else(|| panic!("no {name} in {record}"))
}

pub fn instant(record: &Value, name: &str) -> Timestamp {
    text(record, name).parse().expect("an instant")
}
