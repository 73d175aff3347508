//! The names of the keys. All keys of a shard have its number as their hash tag, so that a cluster
//! keeps them on one node.

use std::fmt::Display;
use std::time::Duration;

use crate::domain::shard::ShardId;

/// Builds names under a prefix.
pub(super) struct RedisKeys {
    prefix: String,
}

impl RedisKeys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    fn of(&self, shard: ShardId, what: impl Display) -> String {
        format!("{}:{{{shard}}}:{what}", self.prefix)
    }

    /// Returns the key of the epoch that built the due index.
    pub(super) fn marker(&self, shard: ShardId) -> String {
        self.of(shard, "epoch")
    }

    /// Returns the key of the due index.
    pub(super) fn due(&self, shard: ShardId) -> String {
        self.of(shard, "due")
    }

    /// Returns the key of a due index that is being built.
    pub(super) fn building(&self, shard: ShardId, token: u128) -> String {
        self.of(shard, format_args!("due:{token:032x}"))
    }

    /// Returns the key of the schedules that have changed.
    pub(super) fn hints(&self, shard: ShardId) -> String {
        self.of(shard, "hints")
    }

    /// Returns the key of the tickets that wait for their start.
    pub(super) fn tickets(&self, shard: ShardId) -> String {
        self.of(shard, "tickets")
    }

    /// Returns the key of the ready tickets, by account and host.
    pub(super) fn ready(&self, shard: ShardId) -> String {
        self.of(shard, "ready")
    }

    /// Returns the key of the numbers of tickets that accounts have added to a full shard before
    /// their start.
    pub(super) fn admitted(&self, shard: ShardId) -> String {
        self.of(shard, "admitted")
    }

    /// Returns the key of the account that was served last.
    pub(super) fn turn(&self, shard: ShardId) -> String {
        self.of(shard, "turn")
    }

    /// Returns the key of the last answer that a taker was given.
    pub(super) fn taken(&self, shard: ShardId, taker: u64) -> String {
        self.of(shard, format_args!("taken:{taker:016x}"))
    }

    /// Returns the key of a subject's counter for windows of one span. The counters of a subject
    /// share their hash tag.
    pub(super) fn counter(&self, subject: &str, span: Duration) -> String {
        format!("{}:count:{{{subject}}}:{}", self.prefix, span.as_secs())
    }

    /// Returns the key that is written to check that the server takes writes.
    pub(super) fn ping(&self) -> String {
        format!("{}:ping", self.prefix)
    }

    /// Returns the key and channel with which the checkup tries the user's rights.
    pub(super) fn trial(&self) -> String {
        format!("{}:checkup", self.prefix)
    }

    /// Returns the channel on which changed due indexes are announced.
    pub(super) fn due_channel(&self) -> String {
        format!("{}:due-hints", self.prefix)
    }

    /// Returns the channel on which new tickets are announced.
    pub(super) fn ticket_channel(&self) -> String {
        format!("{}:ticket-hints", self.prefix)
    }
}
