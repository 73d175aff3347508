//! The due index: a sorted set for each shard, beside a marker with the epoch that built it.
//!
//! Every script reads the marker first. Reading and setting ticks do nothing if it is not the
//! caller's epoch; adopting and rebuilding do nothing if it is a higher one. The marker expires
//! some time after the last visit of its leader. So if the store is set back to an earlier state,
//! its lower epochs are not kept out for ever.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use redis::Script;

use super::entry::{self, Score};
use super::failure::RedisFailure;
use super::server::{LentConnection, RedisServer};
use crate::domain::Timestamp;
use crate::domain::shard::{Epoch, ShardId};
use crate::queue::{DueTicks, IndexAnswer, OwnedSchedule, QueueError, Result};

/// The maximum number of entries that a script or command writes, because the server does nothing
/// else meanwhile.
pub(super) const BATCH: usize = 500;
/// The maximum number of due entries that a script reads. The server is busy with it for about one
/// millisecond. With 100,000 due entries of 64 shards, one page of each shard has nearly all.
const PAGE: usize = 2_000;
/// The time for which a marker outlives the last visit of its leader.
const MARKER_LIFE: Duration = Duration::from_secs(120);
/// The time for which a partly built index is kept if its leader does not go on.
const BUILDING_LIFE: Duration = Duration::from_secs(60);

/// The due indexes on a server, and their scripts.
pub(super) struct DueIndexes {
    server: Arc<RedisServer>,
    adopt: Script,
    due: Script,
    set_due: Script,
    put_up: Script,
}

/// Due entries with the same score and members of the same length: the score, the length, and the
/// members one after the other.
type DueGroup = (Vec<u8>, usize, Vec<u8>);

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl DueIndexes {
    pub(super) fn new(server: Arc<RedisServer>) -> Self {
        Self {
            server,
            adopt: Script::new(include_str!("scripts/adopt.lua")),
            due: Script::new(include_str!("scripts/due.lua")),
            set_due: Script::new(include_str!("scripts/set_due.lua")),
            put_up: Script::new(include_str!("scripts/put_up.lua")),
        }
    }

    pub(super) async fn adopt(&self, shard: ShardId, epoch: Epoch) -> Result<IndexAnswer<()>> {
        let lent = self.server.connect("adopt").await?;
        let mut script = self.adopt.key(self.server.keys.marker(shard));
        script.arg(epoch.0).arg(millis(MARKER_LIFE));
        Ok(if lent.run(&script).await? { IndexAnswer::Own(()) } else { IndexAnswer::Foreign })
    }

    /// Builds an index beside the present one, which it then replaces. No other rebuild has the
    /// same `token`.
    pub(super) async fn rebuild(
        &self,
        (shard, epoch, token): (ShardId, Epoch, u128),
        entries: &[(OwnedSchedule, Timestamp)],
    ) -> Result<IndexAnswer<()>> {
        const OPERATION: &str = "rebuild";
        let lent = self.server.connect(OPERATION).await?;
        let keys = &self.server.keys;
        let building = keys.building(shard, token);
        let mut built = 0_u64;
        for batch in entries.chunks(BATCH) {
            let mut pipeline = redis::pipe();
            let add = pipeline.cmd("ZADD").arg(&building);
            for (schedule, tick) in batch {
                let (score, member) = entry::encode(*schedule, *tick);
                add.arg(score).arg(member);
            }
            pipeline.cmd("PEXPIRE").arg(&building).arg(millis(BUILDING_LIFE)).ignore();
            let (added,): (u64,) = lent.query_all(&pipeline).await?;
            built += added;
        }
        let mut script = self.put_up.key(keys.marker(shard));
        script.key(keys.due(shard)).key(building);
        script.arg(epoch.0).arg(millis(MARKER_LIFE)).arg(built);
        match lent.run::<i64>(&script).await? {
            1 => Ok(IndexAnswer::Own(())),
            0 => Ok(IndexAnswer::Foreign),
            _ => Err(QueueError::new(OPERATION, RedisFailure::Lossy)),
        }
    }

    pub(super) async fn set_due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Option<Timestamp>)],
    ) -> Result<IndexAnswer<()>> {
        let lent = self.server.connect("set_due").await?;
        let encode = |(schedule, tick): &(OwnedSchedule, Option<Timestamp>)| match tick {
            Some(tick) => entry::encode(*schedule, *tick),
            None => (String::new(), entry::member(*schedule)),
        };
        let batches = entries.chunks(BATCH);
        let batches =
            batches.map(|batch| self.set(&lent, (shard, epoch), batch.iter().map(encode)));
        let own = try_join_all(batches).await?.into_iter().all(|own| own);
        Ok(if own { IndexAnswer::Own(()) } else { IndexAnswer::Foreign })
    }

    /// Sets the scores of a batch of members; an empty score removes the member. Returns `true` if
    /// the index is the caller's.
    async fn set(
        &self,
        lent: &LentConnection<'_>,
        (shard, epoch): (ShardId, Epoch),
        batch: impl Iterator<Item = (String, Vec<u8>)>,
    ) -> Result<bool> {
        let mut script = self.set_due.key(self.server.keys.marker(shard));
        script.key(self.server.keys.due(shard)).arg(epoch.0).arg(millis(MARKER_LIFE));
        for (score, member) in batch {
            script.arg(score).arg(member);
        }
        lent.run(&script).await
    }

    pub(super) async fn due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        span: (Option<Timestamp>, Timestamp),
        limit: usize,
    ) -> Result<IndexAnswer<DueTicks>> {
        let (mut due, mut position, mut unreadable) = (DueTicks::default(), 0, Vec::new());
        loop {
            let most = (limit - position).min(PAGE);
            let page = self.page((shard, epoch), span, (position, most)).await?;
            let Some((groups, next)) = page else { return Ok(IndexAnswer::Foreign) };
            let before = position;
            for (score, length, members) in groups {
                let score = Score::read(&score);
                let empty = (length == 0).then_some(&[][..]);
                for member in members.chunks(length.max(1)).chain(empty) {
                    position += 1;
                    let entry = score.and_then(|score| Some((score.schedule(member)?, score.tick)));
                    match entry {
                        Some(entry) => due.schedules.push(entry),
                        None => unreadable.push(member.to_vec()),
                    }
                }
            }
            if position - before < most || position >= limit {
                due.next = Score::read(&next).map(|score| score.tick);
                break;
            }
        }
        if !unreadable.is_empty() {
            self.remove((shard, epoch), unreadable).await?;
        }
        Ok(IndexAnswer::Own(due))
    }

    /// Returns a page of the due entries in groups, and then the score that follows.
    async fn page(
        &self,
        (shard, epoch): (ShardId, Epoch),
        (after, now): (Option<Timestamp>, Timestamp),
        (position, most): (usize, usize),
    ) -> Result<Option<(Vec<DueGroup>, Vec<u8>)>> {
        let lent = self.server.connect("due").await?;
        let mut script = self.due.key(self.server.keys.marker(shard));
        script.key(self.server.keys.due(shard)).arg(epoch.0).arg(millis(MARKER_LIFE));
        match after {
            Some(after) => script.arg(after.as_millis() + 1),
            None => script.arg("-inf"),
        };
        script.arg(now.as_millis() + 1).arg(position).arg(most);
        lent.run(&script).await
    }

    /// Removes entries that no leader of this version has written. Otherwise they would be due for
    /// ever.
    async fn remove(&self, (shard, epoch): (ShardId, Epoch), members: Vec<Vec<u8>>) -> Result<()> {
        tracing::warn!(%shard, entries = members.len(), "removing unreadable entries of a due index");
        let lent = self.server.connect("due").await?;
        for batch in members.chunks(BATCH) {
            let batch = batch.iter().map(|member| (String::new(), member.clone()));
            self.set(&lent, (shard, epoch), batch).await?;
        }
        Ok(())
    }
}
