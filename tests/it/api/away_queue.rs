//! A queue that cannot be reached, for tests of the service without it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use punctual::accounts::RateLimits;
use punctual::domain::Timestamp;
use punctual::domain::shard::{Epoch, ShardId};
use punctual::domain::ticket::Ticket;
use punctual::queue::memory::MemoryQueue;
use punctual::queue::{
    Capacity, DueTicks, IndexAnswer, OwnedSchedule, Queue, QueueError, RateVerdict, RateWindow,
    Result, ShardChanges,
};
use serde_json::json;
use tokio::sync::Notify;

use super::harness::{Service, Setup, id};

/// A queue whose operations all fail. As a queue that is `far`, it still counts calls.
#[derive(Default)]
pub struct AwayQueue {
    notify: Arc<Notify>,
    counters: Option<MemoryQueue>,
    /// The number of calls that asked it to count.
    pub asked: AtomicU32,
    /// The subjects of the counted calls.
    pub subjects: Mutex<BTreeSet<String>>,
}

impl AwayQueue {
    /// Returns a queue that counts calls like a reachable remote one.
    pub fn far() -> Self {
        Self { counters: Some(MemoryQueue::default()), ..Self::default() }
    }

    /// S26: keys in the queue consist of ids, numbers, digests and client addresses. They cannot be
    /// misread and contain no secrets.
    pub fn assert_names_only_ids(&self, kinds: &[&str]) {
        let subjects = self.subjects.lock().expect("not poisoned");
        for subject in &*subjects {
            let inert = |c: char| c.is_ascii_alphanumeric() || "_:./-".contains(c);
            assert!(subject.chars().all(inert) && subject.len() < 80, "{subject}");
            assert!(kinds.iter().any(|kind| subject.starts_with(kind)), "{subject}");
        }
        for kind in kinds {
            assert!(
                subjects.iter().any(|subject| subject.starts_with(kind)),
                "{kind} {subjects:?}"
            );
        }
    }

    fn counts(&self, subject: &str) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.subjects.lock().expect("not poisoned").insert(subject.to_owned());
    }
}

fn refused<T>(operation: &'static str) -> Result<T> {
    Err(QueueError::new(operation, "connection refused"))
}

#[async_trait]
impl Queue for AwayQueue {
    async fn adopt(&self, _: ShardId, _: Epoch) -> Result<IndexAnswer<()>> {
        refused("adopt")
    }

    async fn rebuild(
        &self,
        _: ShardId,
        _: Epoch,
        _: &[(OwnedSchedule, Timestamp)],
    ) -> Result<IndexAnswer<()>> {
        refused("rebuild")
    }

    async fn set_due(
        &self,
        _: ShardId,
        _: Epoch,
        _: &[(OwnedSchedule, Option<Timestamp>)],
    ) -> Result<IndexAnswer<()>> {
        refused("set_due")
    }

    async fn due(
        &self,
        _: ShardId,
        _: Epoch,
        _: (Option<Timestamp>, Timestamp),
        _: usize,
    ) -> Result<IndexAnswer<DueTicks>> {
        refused("due")
    }

    async fn hint(&self, _: ShardId, _: &ShardChanges) -> Result<()> {
        refused("hint")
    }

    async fn take_hints(&self, _: ShardId, _: usize) -> Result<ShardChanges> {
        refused("take_hints")
    }

    async fn push(&self, _: &[Ticket]) -> Result<()> {
        refused("push")
    }

    async fn put_back(&self, _: &[Ticket]) -> Result<()> {
        refused("put_back")
    }

    async fn take(&self, _: Timestamp, _: &Capacity) -> Result<(Vec<Ticket>, Option<Timestamp>)> {
        refused("take")
    }

    async fn count(
        &self,
        subject: &str,
        windows: &[RateWindow],
        now: Timestamp,
    ) -> Result<RateVerdict> {
        self.counts(subject);
        match &self.counters {
            Some(counters) => counters.count(subject, windows, now).await,
            None => refused("count"),
        }
    }

    async fn give_back(&self, subject: &str, windows: &[RateWindow], now: Timestamp) -> Result<()> {
        self.counts(subject);
        match &self.counters {
            Some(counters) => counters.give_back(subject, windows, now).await,
            None => refused("give_back"),
        }
    }

    async fn ping(&self) -> Result<()> {
        refused("ping")
    }

    fn due_hint(&self) -> Arc<Notify> {
        self.notify.clone()
    }

    fn ticket_hint(&self) -> Arc<Notify> {
        self.notify.clone()
    }

    fn is_away(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn no_command_fails_without_the_queue() {
    let service = Service::with(Setup { queue_is_away: true, ..Setup::default() }).await;
    let created = service.create(json!({})).await;
    let path = format!("/v1/schedules/{}", id(&created));
    service.patch(&path, &json!({ "cronExpression": "* * * * *" })).await.ok();
    service.patch(&format!("{path}/toggle"), &json!({ "enabled": false })).await.ok();
    let triggered = service.call("POST", &format!("{path}/trigger")).send().await;
    let job = triggered.ok().as_str().expect("an id").to_owned();
    service.get(&format!("/v1/jobs/{job}")).await.ok();
    service.call("POST", &format!("/v1/jobs/{job}/cancel")).send().await.ok();
    service.call("POST", &format!("/v1/jobs/{job}/retry")).send().await.ok();
}

#[tokio::test]
async fn calls_are_still_limited_by_this_replica_alone() {
    let limits = RateLimits { per_minute: 2, per_hour: 100 };
    let service = Service::with(Setup { queue_is_away: true, limits, ..Setup::default() }).await;
    for remaining in ["1", "0"] {
        let answer = service.get("/v1/account").await;
        assert_eq!((answer.status, answer.limits().1), (200, remaining));
        assert_eq!(service.bare("GET", "/v1/account").send().await.status, 401);
    }
    let refused = service.get("/v1/account").await;
    refused.refused(429, "RATE_LIMIT_EXCEEDED", "Rate limit exceeded");
    assert_eq!(service.bare("GET", "/v1/account").send().await.status, 429);
    service.advance(60);
    service.get("/v1/account").await.ok();
}
