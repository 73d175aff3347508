//! The due index: a sorted set for each shard, beside a marker with the epoch that built it.
//!
//! Every script reads the marker first. Reading and setting ticks do nothing if it is not the
//! caller's epoch; adopting and rebuilding do nothing if it is a higher one. The marker expires
//! some time after the last visit of its leader. So if the store is set back to an earlier state,
//! its lower epochs are not kept out for ever.

use std::time::Duration;

use futures_util::future::try_join_all;
use redis::Script;

use super::entry;
use super::failure::RedisFailure;
use super::keys::RedisKeys;
use super::server::RedisServer;
use crate::domain::Timestamp;
use crate::domain::shard::{Epoch, ShardId};
use crate::queue::{Due, Index, OwnedSchedule, QueueError, Result};

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

/// The scripts of the due index.
pub(super) struct DueIndexes {
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
    pub(super) fn new() -> Self {
        Self {
            adopt: Script::new(include_str!("scripts/adopt.lua")),
            due: Script::new(include_str!("scripts/due.lua")),
            set_due: Script::new(include_str!("scripts/set_due.lua")),
            put_up: Script::new(include_str!("scripts/put_up.lua")),
        }
    }

    pub(super) async fn adopt(
        &self,
        server: &RedisServer,
        keys: &RedisKeys,
        (shard, epoch): (ShardId, Epoch),
    ) -> Result<Index<()>> {
        let lent = server.connect("adopt").await?;
        let mut script = self.adopt.key(keys.marker(shard));
        script.arg(epoch.0).arg(millis(MARKER_LIFE));
        let own = lent.answer("adopt", script.invoke_async::<bool>(&mut lent.link())).await?;
        Ok(if own { Index::Own(()) } else { Index::Foreign })
    }

    /// Builds an index beside the present one, which it then replaces. No other rebuild has the
    /// same `token`.
    pub(super) async fn rebuild(
        &self,
        server: &RedisServer,
        keys: &RedisKeys,
        (shard, epoch, token): (ShardId, Epoch, u128),
        entries: &[(OwnedSchedule, Timestamp)],
    ) -> Result<Index<()>> {
        const OPERATION: &str = "rebuild";
        let lent = server.connect(OPERATION).await?;
        let mut link = lent.link();
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
            let (added,): (u64,) = lent.answer(OPERATION, pipeline.query_async(&mut link)).await?;
            built += added;
        }
        let mut script = self.put_up.key(keys.marker(shard));
        script.key(keys.due(shard)).key(building);
        script.arg(epoch.0).arg(millis(MARKER_LIFE)).arg(built);
        match lent.answer(OPERATION, script.invoke_async::<i64>(&mut link)).await? {
            1 => Ok(Index::Own(())),
            0 => Ok(Index::Foreign),
            _ => Err(QueueError::new(OPERATION, RedisFailure::Lossy)),
        }
    }

    pub(super) async fn set_due(
        &self,
        server: &RedisServer,
        keys: &RedisKeys,
        (shard, epoch): (ShardId, Epoch),
        entries: &[(OwnedSchedule, Option<Timestamp>)],
    ) -> Result<Index<()>> {
        let lent = &server.connect("set_due").await?;
        let batches = entries.chunks(BATCH).map(|batch| {
            let mut script = self.set_due.key(keys.marker(shard));
            script.key(keys.due(shard)).arg(epoch.0).arg(millis(MARKER_LIFE));
            for (schedule, tick) in batch {
                let (score, member) = match tick {
                    Some(tick) => entry::encode(*schedule, *tick),
                    None => (String::new(), entry::member(*schedule)),
                };
                script.arg(score).arg(member);
            }
            let mut link = lent.link();
            async move { lent.answer("set_due", script.invoke_async::<bool>(&mut link)).await }
        });
        let own = try_join_all(batches).await?.into_iter().all(|own| own);
        Ok(if own { Index::Own(()) } else { Index::Foreign })
    }

    pub(super) async fn due(
        &self,
        server: &RedisServer,
        keys: &RedisKeys,
        (shard, epoch): (ShardId, Epoch),
        span: (Option<Timestamp>, Timestamp),
        limit: usize,
    ) -> Result<Index<Due>> {
        let (mut due, mut place, mut unreadable) = (Due::default(), 0, Vec::new());
        loop {
            let most = (limit - place).min(PAGE);
            let page = self.page(server, keys, (shard, epoch), span, (place, most)).await?;
            let Some((groups, next)) = page else { return Ok(Index::Foreign) };
            let before = place;
            for (score, length, members) in groups {
                let empty = (length == 0).then_some(&[][..]);
                for member in members.chunks(length.max(1)).chain(empty) {
                    place += 1;
                    match entry::decode(&score, member) {
                        Some(read) => due.schedules.push(read),
                        None => unreadable.push(member.to_vec()),
                    }
                }
            }
            if place - before < most || place >= limit {
                due.next = entry::tick(&next);
                break;
            }
        }
        if !unreadable.is_empty() {
            self.remove(server, keys, (shard, epoch), unreadable).await?;
        }
        Ok(Index::Own(due))
    }

    /// Returns a page of the due entries in groups, and then the score that follows.
    async fn page(
        &self,
        server: &RedisServer,
        keys: &RedisKeys,
        (shard, epoch): (ShardId, Epoch),
        (after, now): (Option<Timestamp>, Timestamp),
        (place, most): (usize, usize),
    ) -> Result<Option<(Vec<DueGroup>, Vec<u8>)>> {
        let lent = server.connect("due").await?;
        let mut script = self.due.key(keys.marker(shard));
        script.key(keys.due(shard)).arg(epoch.0).arg(millis(MARKER_LIFE));
        match after {
            Some(after) => script.arg(after.as_millis() + 1),
            None => script.arg("-inf"),
        };
        script.arg(now.as_millis() + 1).arg(place).arg(most);
        let mut link = lent.link();
        lent.answer("due", script.invoke_async(&mut link)).await
    }

    /// Removes entries that no leader of this version has written. Otherwise they would be due for
    /// ever.
    async fn remove(
        &self,
        server: &RedisServer,
        keys: &RedisKeys,
        (shard, epoch): (ShardId, Epoch),
        members: Vec<Vec<u8>>,
    ) -> Result<()> {
        tracing::warn!(%shard, entries = members.len(), "removing unreadable entries of a due index");
        let lent = server.connect("due").await?;
        for batch in members.chunks(BATCH) {
            let mut script = self.set_due.key(keys.marker(shard));
            script.key(keys.due(shard)).arg(epoch.0).arg(millis(MARKER_LIFE));
            for member in batch {
                script.arg("").arg(member);
            }
            let mut link = lent.link();
            lent.answer("due", script.invoke_async::<bool>(&mut link)).await?;
        }
        Ok(())
    }
}
