//! The hints for the leaders of shards: for each shard a set of the schedules that have changed,
//! and a mark if any of them may have.
//!
//! Hints that the server does not take now are kept, and a task of its own sends them later. While
//! some are kept, callers do not wait for the server. For a shard with many changes only the mark
//! is kept, so that memory is bounded, however long the server fails.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::due::{BATCH, millis};
use super::entry;
use super::hints::RedisHints;
use super::server::{LentConnection, RedisServer};
use crate::domain::shard::ShardId;
use crate::queue::{OwnedSchedule, QueueError, Result, ShardChanges};
use crate::runtime::{Mutex, Tasks};

/// The lifetime of hints that no leader takes. A leader that comes later has read the store after
/// the change.
const LIFE: Duration = Duration::from_secs(3_600);
/// The member that stands for all schedules. It cannot be an id, because ids are longer.
const MARK: &[u8] = b"*";
/// The maximum number of schedules of a shard that are kept by name. For more, only the mark is
/// kept, and the leader compares all schedules of the shard with the store.
const MAX_KEPT: usize = 1_000;
const FASTEST_RETRY: Duration = Duration::from_millis(100);
const SLOWEST_RETRY: Duration = Duration::from_secs(1);

/// Takes the hints for a shard.
pub(super) async fn take(
    server: &RedisServer,
    shard: ShardId,
    limit: usize,
) -> Result<ShardChanges> {
    let lent = server.connect("take_hints").await?;
    let mut pop = redis::cmd("SPOP");
    pop.arg(server.keys.hints(shard)).arg(limit.min(BATCH));
    let taken: Vec<Vec<u8>> = lent.query(&pop).await?;
    let all = taken.iter().any(|member| member == MARK);
    let schedules = taken.iter().filter_map(|member| entry::of_whole(member)).collect();
    Ok(ShardChanges { schedules, all })
}

/// Sends hints to a shard's leader. Sending them twice changes nothing.
async fn leave(lent: &LentConnection<'_>, shard: ShardId, changes: &ShardChanges) -> Result<()> {
    let key = lent.server.keys.hints(shard);
    let ids = changes.schedules.iter().map(|schedule| entry::whole(*schedule).to_vec());
    let members: Vec<_> = ids.chain(changes.all.then(|| MARK.to_vec())).collect();
    for batch in members.chunks(BATCH) {
        let mut pipeline = redis::pipe();
        pipeline.cmd("SADD").arg(&key).arg(batch);
        pipeline.cmd("PEXPIRE").arg(&key).arg(millis(LIFE));
        lent.query_all::<()>(&pipeline).await?;
    }
    Ok(())
}

/// Sends hints, and keeps those that the server does not take now.
pub(super) struct HintSender {
    server: Arc<RedisServer>,
    hints: Arc<RedisHints>,
    kept: Mutex<PendingHints>,
    /// Notified when a hint is kept.
    keeping: Notify,
}

/// Hints that the server did not take.
#[derive(Default)]
struct PendingHints {
    shards: BTreeMap<ShardId, PendingShard>,
    /// The shard whose hints were tried last.
    last: Option<ShardId>,
    /// Set from the first hint that the server did not take until no hint is kept any more.
    is_away: bool,
}

#[derive(Default)]
struct PendingShard {
    schedules: BTreeSet<OwnedSchedule>,
    all: bool,
}

impl PendingHints {
    fn keep(&mut self, shard: ShardId, changes: &ShardChanges) {
        let kept = self.shards.entry(shard).or_default();
        kept.schedules.extend(&changes.schedules);
        kept.all |= changes.all || kept.schedules.len() > MAX_KEPT;
        if kept.all {
            kept.schedules.clear();
        }
    }

    /// Returns `true` if no shard comes after the one that was tried last.
    fn is_round_over(&self) -> bool {
        self.after_last().is_none()
    }

    fn after_last(&self) -> Option<(&ShardId, &PendingShard)> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        self.shards.range((after, Bound::Unbounded)).next()
    }

    /// Returns the hints to send next. Goes round the shards, because some nodes of a cluster may
    /// be unreachable for long. When no hint is left, the server counts as available again.
    fn next(&mut self) -> Option<(ShardId, ShardChanges)> {
        let next = self.after_last().or_else(|| self.shards.first_key_value());
        let next = next.map(|(shard, _)| *shard);
        self.is_away = next.is_some();
        self.last = next;
        let next = next.and_then(|shard| self.shards.remove_entry(&shard));
        next.map(|(shard, PendingShard { schedules, all })| {
            (shard, ShardChanges { schedules: schedules.into_iter().collect(), all })
        })
    }
}

impl HintSender {
    pub(super) fn new(server: Arc<RedisServer>, hints: Arc<RedisHints>) -> Self {
        Self { server, hints, kept: Mutex::default(), keeping: Notify::new() }
    }

    /// Sends hints to a shard's leader and wakes it, now or later.
    pub(super) async fn hint(&self, shard: ShardId, changes: &ShardChanges) {
        if self.keep_while_away(shard, changes) {
            return;
        }
        if let Err(error) = self.send(shard, changes).await {
            self.keep(shard, changes, &error);
            self.keeping.notify_one();
        }
    }

    /// Sends the kept hints as soon as the server takes them, until the first stage of a stop.
    pub(super) async fn send_pending(self: Arc<Self>, tasks: Tasks) {
        let sending = async {
            loop {
                self.keeping.notified().await;
                let mut retry = FASTEST_RETRY;
                loop {
                    let next = self.kept.lock().next();
                    let Some((shard, changes)) = next else { break };
                    if let Err(error) = self.send(shard, &changes).await {
                        self.keep(shard, &changes, &error);
                        if self.kept.lock().is_round_over() {
                            self.server.clock.sleep(retry).await;
                            retry = (retry * 2).min(SLOWEST_RETRY);
                        }
                    }
                }
                tracing::info!("all kept hints of changed schedules sent");
            }
        };
        tasks.stopping().run_until_cancelled(sending).await;
    }

    async fn send(&self, shard: ShardId, changes: &ShardChanges) -> Result<()> {
        let lent = self.server.connect("hint").await?;
        leave(&lent, shard, changes).await?;
        self.hints.send_due(&lent).await
    }

    /// Keeps hints while the server is away; returns `true` if it does. The check and the keeping
    /// are one step: a hint that is kept after `send_pending` has found none left would not be
    /// sent.
    fn keep_while_away(&self, shard: ShardId, changes: &ShardChanges) -> bool {
        let mut kept = self.kept.lock();
        if kept.is_away {
            kept.keep(shard, changes);
        }
        kept.is_away
    }

    fn keep(&self, shard: ShardId, changes: &ShardChanges, error: &QueueError) {
        let mut kept = self.kept.lock();
        kept.keep(shard, changes);
        if !std::mem::replace(&mut kept.is_away, true) {
            tracing::warn!(%error, "hints not sent, keeping them until the queue is reachable");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{AccountId, ScheduleId, Timestamp};

    #[test]
    fn of_many_changes_only_the_mark_is_kept() {
        let some = |from: u128, to: u128| {
            let at = Timestamp::from_millis(0);
            let member = |bits| OwnedSchedule {
                schedule: ScheduleId::new(at, bits),
                account: AccountId::new(at, 1),
            };
            ShardChanges::of((from..to).map(member).collect::<Vec<_>>())
        };
        let mut kept = PendingHints::default();
        kept.keep(ShardId(1), &some(0, 600));
        kept.keep(ShardId(1), &some(300, 1_000));
        kept.keep(ShardId(0), &some(0, 1_001));
        kept.keep(ShardId(0), &some(0, 1));
        assert_eq!(kept.next(), Some((ShardId(0), ShardChanges::all())));
        assert_eq!(kept.next(), Some((ShardId(1), some(0, 1_000))));
        assert_eq!(kept.next(), None);
    }

    #[test]
    fn a_shard_that_stays_away_keeps_back_no_other() {
        let mut kept = PendingHints::default();
        kept.keep(ShardId(0), &ShardChanges::all());
        kept.keep(ShardId(1), &ShardChanges::all());
        assert_eq!(kept.next(), Some((ShardId(0), ShardChanges::all())));
        kept.keep(ShardId(0), &ShardChanges::all());
        assert!(!kept.is_round_over());
        assert_eq!(kept.next(), Some((ShardId(1), ShardChanges::all())));
        assert!(kept.is_round_over());
        assert_eq!(kept.next(), Some((ShardId(0), ShardChanges::all())));
    }
}
