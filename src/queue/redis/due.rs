//! The due index: a sorted set for each shard, beside a marker with the epoch that built it.
//!
//! Every script looks at the marker and does nothing if it is not the caller's. The marker lives on
//! as long as its leader comes by: if the store is set back to an earlier state, its lower epochs
//! are not kept out for ever.

use std::time::Duration;

use futures_util::future::try_join_all;
use redis::Script;

use super::entry;
use super::failure::Failure;
use super::keys::Keys;
use super::server::Server;
use crate::domain::shard::{Epoch, ShardId};
use crate::domain::{ScheduleId, Timestamp};
use crate::queue::{Due, Index, QueueError, Result};

/// The most entries a script or command handles: the server does nothing else meanwhile.
pub(super) const BATCH: usize = 500;
/// How long a marker outlives the last visit of its leader.
const MARKER_LIFE: Duration = Duration::from_secs(120);
/// How long what was built of an index is kept if its leader does not go on.
const BUILDING_LIFE: Duration = Duration::from_secs(60);

/// The scripts of the due index.
pub(super) struct DueIndexes {
    adopt: Script,
    due: Script,
    set_due: Script,
    put_up: Script,
}

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
        server: &Server,
        keys: &Keys,
        (shard, epoch): (ShardId, Epoch),
    ) -> Result<Index<()>> {
        let lent = server.connect("adopt").await?;
        let mut script = self.adopt.key(keys.marker(shard));
        script.arg(epoch.0).arg(millis(MARKER_LIFE));
        let own = lent.answer("adopt", script.invoke_async::<bool>(&mut lent.link())).await?;
        Ok(if own { Index::Own(()) } else { Index::Foreign })
    }

    /// Builds an index beside the present one and then puts it in its place. `token` is unlike that
    /// of any other rebuild.
    pub(super) async fn rebuild(
        &self,
        server: &Server,
        keys: &Keys,
        (shard, epoch, token): (ShardId, Epoch, u128),
        entries: &[(ScheduleId, Timestamp)],
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
            _ => Err(QueueError::new(OPERATION, Failure::Lossy)),
        }
    }

    pub(super) async fn set_due(
        &self,
        server: &Server,
        keys: &Keys,
        (shard, epoch): (ShardId, Epoch),
        entries: &[(ScheduleId, Option<Timestamp>)],
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
        server: &Server,
        keys: &Keys,
        (shard, epoch): (ShardId, Epoch),
        now: Timestamp,
        limit: usize,
    ) -> Result<Index<Due>> {
        let lent = server.connect("due").await?;
        let mut script = self.due.key(keys.marker(shard));
        script.key(keys.due(shard)).arg(epoch.0).arg(millis(MARKER_LIFE));
        script.arg(now.as_millis() + 1).arg(limit.min(BATCH));
        let mut link = lent.link();
        let found: Option<(Vec<Vec<u8>>, Vec<u8>)> =
            lent.answer("due", script.invoke_async(&mut link)).await?;
        let Some((entries, next)) = found else { return Ok(Index::Foreign) };
        let entries = entries.chunks_exact(2);
        let schedules = entries.filter_map(|entry| entry::decode(&entry[1], &entry[0])).collect();
        Ok(Index::Own(Due { schedules, next: entry::tick(&next) }))
    }
}
