//! The queue of a cluster, in Redis 6 or later, Valkey, or a Redis Cluster.
//!
//! Every transition is one script, so that it happens as a whole or not at all. A request without
//! an answer may have taken effect or not. Therefore pushing again and building again change
//! nothing, and a taker that asks again gets the same answer. Every wait is bounded, and every
//! operation gets its connection anew, so nothing has to be restarted after the server was away,
//! wiped or replaced. A server that was wiped answers `IndexAnswer::Foreign` until the leaders have
//! built their indexes again.
//!
//! Hints that the server does not take are kept in the process and sent as soon as the server takes
//! them (`changes`). If the process dies before that, they are lost.
//!
//! When the server has used up its memory, pushing fails and the job rescuer pushes again later.
//! Taking tickets and moving ticks on still work.

mod back_off;
mod capacity;
mod changes;
mod check;
mod checkup;
mod due;
mod entry;
mod failure;
mod hints;
mod keys;
mod nodes;
mod run_queue;
mod server;
mod settings;
mod tickets;

use std::sync::Arc;

use async_trait::async_trait;
use redis::Script;
use tokio::sync::Notify;

use super::{
    Capacity, DueTicks, IndexAnswer, OwnedSchedule, Queue, RateVerdict, RateWindow, Result,
    ShardChanges, TakenTickets, WindowState,
};
use crate::domain::Timestamp;
use crate::domain::shard::{Epoch, ShardId};
use crate::domain::ticket::Ticket;
use crate::runtime::{Clock, Random, TaskKind, Tasks};
use changes::HintSender;
use check::ping;
pub use checkup::check_up;
use due::{DueIndexes, millis};
use hints::RedisHints;
use run_queue::RedisRunQueue;
use server::RedisServer;
pub use settings::{InvalidRedisSettings, RedisSettings};

/// The queue of a cluster.
pub struct RedisQueue {
    server: Arc<RedisServer>,
    random: Random,
    indexes: DueIndexes,
    run_queue: RedisRunQueue,
    count: Script,
    give_back: Script,
    hints: Arc<RedisHints>,
    messenger: Arc<HintSender>,
}

impl RedisQueue {
    /// Creates a queue for `shards` shards, which connects in the background: operations fail until
    /// the server is there.
    ///
    /// # Errors
    /// If the settings cannot be used.
    pub fn start(
        settings: RedisSettings,
        shards: u16,
        clock: Clock,
        random: Random,
        tasks: &Tasks,
    ) -> Result<Self> {
        let server = Arc::new(RedisServer::new(&settings, clock)?);
        let bytes = random.bits().to_be_bytes();
        let replica = u64::from_be_bytes(*bytes.first_chunk().expect("there are sixteen"));
        let hints = Arc::new(RedisHints::new(replica));
        let listening = hints.clone().listen(settings, server.clone(), tasks.clone());
        tasks.spawn(TaskKind::Hints, listening);
        let messenger = Arc::new(HintSender::new(server.clone(), hints.clone()));
        tasks.spawn(TaskKind::Hints, messenger.clone().send_pending(tasks.clone()));
        let run_queue = RedisRunQueue::new(server.clone(), shards, replica);
        let count = Script::new(include_str!("scripts/count.lua"));
        let give_back = Script::new(include_str!("scripts/give_back.lua"));
        let indexes = DueIndexes::new(server.clone());
        Ok(Self { server, random, indexes, run_queue, count, give_back, hints, messenger })
    }
}

/// Checks that the server of these settings takes writes.
///
/// # Errors
/// If it does not. The error says what to do about it.
pub async fn ask(settings: &RedisSettings, clock: Clock) -> Result<()> {
    ping(&RedisServer::new(settings, clock)?).await
}

#[async_trait]
impl Queue for RedisQueue {
    async fn adopt(&self, shard: ShardId, epoch: Epoch) -> Result<IndexAnswer<()>> {
        self.indexes.adopt(shard, epoch).await
    }

    async fn rebuild(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Timestamp)],
    ) -> Result<IndexAnswer<()>> {
        self.indexes.rebuild((shard, epoch, self.random.bits()), entries).await
    }

    async fn set_due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Option<Timestamp>)],
    ) -> Result<IndexAnswer<()>> {
        self.indexes.set_due(shard, epoch, entries).await
    }

    async fn due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        span: (Option<Timestamp>, Timestamp),
        limit: usize,
    ) -> Result<IndexAnswer<DueTicks>> {
        self.indexes.due(shard, epoch, span, limit).await
    }

    async fn hint(&self, shard: ShardId, changes: &ShardChanges) -> Result<()> {
        self.messenger.hint(shard, changes).await;
        Ok(())
    }

    async fn take_hints(&self, shard: ShardId, limit: usize) -> Result<ShardChanges> {
        changes::take(&self.server, shard, limit).await
    }

    async fn push(&self, tickets: &[Ticket]) -> Result<()> {
        let lent = self.server.connect("push").await?;
        let new = self.run_queue.push(&lent, tickets).await?;
        if new > 0 {
            self.hints.send_tickets(&lent).await?;
        }
        Ok(())
    }

    async fn put_back(&self, tickets: &[Ticket]) -> Result<()> {
        let lent = self.server.connect("push").await?;
        self.run_queue.push(&lent, tickets).await.map(drop)
    }

    async fn take(&self, now: Timestamp, capacity: &Capacity) -> Result<TakenTickets> {
        self.run_queue.take(now, capacity).await
    }

    async fn count(
        &self,
        subject: &str,
        windows: &[RateWindow],
        now: Timestamp,
    ) -> Result<RateVerdict> {
        if windows.is_empty() {
            return Ok(RateVerdict { window_states: Vec::new(), allowed: true });
        }
        let lent = self.server.connect("count").await?;
        let mut script = self.count.prepare_invoke();
        script.arg(now.as_millis());
        for window in windows {
            script.key(self.server.keys.counter(subject, window.span));
            script.arg(window.limit).arg(millis(window.span));
        }
        let answer: Vec<i64> = lent.run(&script).await?;
        let window_state = |(window, answer): (&RateWindow, &[i64])| WindowState {
            window: *window,
            remaining: window.limit.saturating_sub(u32::try_from(answer[0]).unwrap_or(u32::MAX)),
            resets_at: Timestamp::from_millis(answer[1]),
        };
        let window_states = windows.iter().zip(answer.get(1..).unwrap_or_default().chunks_exact(2));
        Ok(RateVerdict {
            window_states: window_states.map(window_state).collect(),
            allowed: answer.first() == Some(&1),
        })
    }

    async fn give_back(&self, subject: &str, windows: &[RateWindow], now: Timestamp) -> Result<()> {
        if windows.is_empty() {
            return Ok(());
        }
        let lent = self.server.connect("give_back").await?;
        let mut script = self.give_back.prepare_invoke();
        script.arg(now.as_millis());
        for window in windows {
            script.key(self.server.keys.counter(subject, window.span));
        }
        lent.run(&script).await
    }

    async fn ping(&self) -> Result<()> {
        ping(&self.server).await
    }

    fn due_hint(&self) -> Arc<Notify> {
        self.hints.due.clone()
    }

    fn ticket_hint(&self) -> Arc<Notify> {
        self.hints.tickets.clone()
    }

    fn is_away(&self) -> bool {
        false
    }
}
