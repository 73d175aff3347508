//! Short constructors and queries for the cases.

pub use std::any::Any;
pub use std::collections::{HashMap, HashSet};
pub use std::sync::Arc;
pub use std::time::Duration;

pub use punctual::domain::shard::{Epoch, ShardId};
pub use punctual::domain::ticket::{HostKey, Ticket};
pub use punctual::domain::{AccountId, JobId, ScheduleId, Timestamp};
pub use punctual::queue::{
    Capacity, DueTicks, IndexAnswer, OwnedSchedule, RateWindow, ShardChanges, SharedQueue,
};

pub const SHARD: ShardId = ShardId(3);
pub const EPOCH: Epoch = Epoch(7);
/// The number of shards.
pub const SHARDS: u16 = 8;

/// A new queue and its environment, which is dropped after the test.
pub type Opened = (SharedQueue, Box<dyn Any>);

pub fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(1_900_000_000_000 + ms)
}

pub fn schedule(n: u128) -> OwnedSchedule {
    OwnedSchedule { schedule: ScheduleId::new(at(0), n), account: account(n % 3) }
}

pub fn account(n: u128) -> AccountId {
    AccountId::new(at(0), n)
}

/// Returns ticket `n` of account `of` to a host. It may start at `start` milliseconds.
pub fn ticket(n: u128, of: u128, host: u64, start: i64) -> Ticket {
    Ticket {
        job: JobId::new(at(0), n),
        shard: SHARD,
        account: account(of),
        host: HostKey(host),
        start: at(start),
    }
}

pub fn room(total: usize) -> Capacity {
    Capacity { total, per_account: 1_000, per_host: 1_000, ..Capacity::default() }
}

pub async fn take(queue: &SharedQueue, now: i64, room: &Capacity) -> Vec<JobId> {
    let (tickets, _) = queue.take(at(now), room).await.expect("the queue answers");
    tickets.into_iter().map(|ticket| ticket.job).collect()
}

pub fn jobs(tickets: &[Ticket]) -> Vec<JobId> {
    tickets.iter().map(|ticket| ticket.job).collect()
}

pub async fn due(queue: &SharedQueue, now: i64, limit: usize) -> DueTicks {
    match queue.due(SHARD, EPOCH, (None, at(now)), limit).await.expect("the queue answers") {
        IndexAnswer::Own(due) => due,
        IndexAnswer::Foreign => panic!("the index is another epoch's"),
    }
}
