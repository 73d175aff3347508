//! The names of the keys. All keys of a shard have its number as their hash tag, so that in a
//! cluster they are on one node.

use std::fmt::Display;
use std::time::Duration;

use crate::domain::shard::ShardId;

/// Names under a prefix.
#[derive(Clone)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    fn of(&self, shard: ShardId, what: impl Display) -> String {
        format!("{}:{{{shard}}}:{what}", self.prefix)
    }

    /// The epoch that built the due index.
    pub(super) fn marker(&self, shard: ShardId) -> String {
        self.of(shard, "epoch")
    }

    /// The due index.
    pub(super) fn due(&self, shard: ShardId) -> String {
        self.of(shard, "due")
    }

    /// A due index while it is built.
    pub(super) fn building(&self, shard: ShardId, token: u128) -> String {
        self.of(shard, format_args!("due:{token:032x}"))
    }

    /// Schedules that have changed.
    pub(super) fn hints(&self, shard: ShardId) -> String {
        self.of(shard, "hints")
    }

    /// Tickets by their start.
    pub(super) fn tickets(&self, shard: ShardId) -> String {
        self.of(shard, "tickets")
    }

    /// Tickets that may start, by account and host.
    pub(super) fn ready(&self, shard: ShardId) -> String {
        self.of(shard, "ready")
    }

    /// The account that was served last.
    pub(super) fn turn(&self, shard: ShardId) -> String {
        self.of(shard, "turn")
    }

    /// What a taker was given last.
    pub(super) fn taken(&self, shard: ShardId, taker: u64) -> String {
        self.of(shard, format_args!("taken:{taker:016x}"))
    }

    /// A subject's counter for windows of one span; those of a subject share their hash tag.
    pub(super) fn counter(&self, subject: &str, span: Duration) -> String {
        format!("{}:count:{{{subject}}}:{}", self.prefix, span.as_secs())
    }

    /// What is written to see whether the server takes writes.
    pub(super) fn ping(&self) -> String {
        format!("{}:ping", self.prefix)
    }

    /// What rights are tried with.
    pub(super) fn trial(&self) -> String {
        format!("{}:checkup", self.prefix)
    }

    /// Where changed due indexes are announced.
    pub(super) fn due_channel(&self) -> String {
        format!("{}:due-hints", self.prefix)
    }

    /// Where new tickets are announced.
    pub(super) fn ticket_channel(&self) -> String {
        format!("{}:ticket-hints", self.prefix)
    }
}
