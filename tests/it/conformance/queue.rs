//! What every queue keeps.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use punctual::domain::shard::{Epoch, ShardId};
use punctual::domain::ticket::{HostKey, Ticket};
use punctual::domain::{AccountId, JobId, ScheduleId, Timestamp};
use punctual::queue::memory::MemoryQueue;
use punctual::queue::{Due, Index, Room, SharedQueue, Window};

const SHARD: ShardId = ShardId(3);
const EPOCH: Epoch = Epoch(7);

/// Runs a case on a fresh queue of every adapter.
async fn on_every_queue<F: Future<Output = ()>>(case: impl Fn(SharedQueue) -> F) {
    case(Arc::new(MemoryQueue::new())).await;
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(1_900_000_000_000 + ms)
}

fn schedule(n: u128) -> ScheduleId {
    ScheduleId::new(at(0), n)
}

fn account(n: u128) -> AccountId {
    AccountId::new(at(0), n)
}

/// Ticket `n` of an account to a host, that may start at `start` milliseconds.
fn ticket(n: u128, of: u128, host: u64, start: i64) -> Ticket {
    Ticket {
        job: JobId::new(at(0), n),
        shard: SHARD,
        account: account(of),
        host: HostKey(host),
        start: at(start),
    }
}

fn room(total: usize) -> Room {
    Room { total, per_account: 1_000, per_host: 1_000, ..Room::default() }
}

async fn take(queue: &SharedQueue, now: i64, room: &Room) -> Vec<JobId> {
    let (tickets, _) = queue.take(at(now), room).await.expect("the queue answers");
    tickets.into_iter().map(|ticket| ticket.job).collect()
}

fn jobs(tickets: &[Ticket]) -> Vec<JobId> {
    tickets.iter().map(|ticket| ticket.job).collect()
}

async fn due(queue: &SharedQueue, now: i64, limit: usize) -> Due {
    match queue.due(SHARD, EPOCH, at(now), limit).await.expect("the queue answers") {
        Index::Own(due) => due,
        Index::Foreign => panic!("the index is another epoch's"),
    }
}

#[tokio::test]
async fn an_index_gives_what_is_due_earliest_first() {
    on_every_queue(|queue| async move {
        let entries = [(schedule(1), at(300)), (schedule(2), at(100)), (schedule(3), at(200))];
        queue.rebuild(SHARD, EPOCH, &entries).await.expect("rebuilt");
        assert_eq!(due(&queue, 99, 9).await, Due { schedules: vec![], next: Some(at(100)) });
        let both = vec![(schedule(2), at(100)), (schedule(3), at(200))];
        assert_eq!(due(&queue, 200, 9).await, Due { schedules: both, next: Some(at(300)) });
        let first = vec![(schedule(2), at(100))];
        assert_eq!(due(&queue, 999, 1).await, Due { schedules: first, next: Some(at(200)) });
    })
    .await;
}

#[tokio::test]
async fn an_entry_moves_and_goes() {
    on_every_queue(|queue| async move {
        let entries = [(schedule(1), at(100)), (schedule(2), at(150))];
        queue.rebuild(SHARD, EPOCH, &entries).await.expect("rebuilt");
        let moved = [(schedule(1), Some(at(500))), (schedule(2), None), (schedule(3), None)];
        assert_eq!(queue.set_due(SHARD, EPOCH, &moved).await.expect("set"), Index::Own(()));
        assert_eq!(due(&queue, 499, 9).await, Due { schedules: vec![], next: Some(at(500)) });
        let left = vec![(schedule(1), at(500))];
        assert_eq!(due(&queue, 500, 9).await, Due { schedules: left, next: None });
    })
    .await;
}

#[tokio::test]
async fn an_index_belongs_to_one_epoch_and_shard() {
    on_every_queue(|queue| async move {
        let missing = queue.due(SHARD, EPOCH, at(0), 9).await.expect("the queue answers");
        assert_eq!(missing, Index::Foreign, "nobody has built it");
        queue.rebuild(SHARD, EPOCH, &[(schedule(1), at(1))]).await.expect("rebuilt");
        let older = Epoch(EPOCH.0 - 1);
        let change = [(schedule(1), None)];
        assert_eq!(queue.set_due(SHARD, older, &change).await.expect("asked"), Index::Foreign);
        let foreign = queue.due(SHARD, Epoch(EPOCH.0 + 1), at(9), 9).await.expect("asked");
        assert_eq!(foreign, Index::Foreign);
        let elsewhere = queue.due(ShardId(4), EPOCH, at(9), 9).await.expect("asked");
        assert_eq!(elsewhere, Index::Foreign);
        assert_eq!(due(&queue, 9, 9).await.schedules.len(), 1, "the refused change had no effect");
    })
    .await;
}

#[tokio::test]
async fn a_rebuild_replaces_everything() {
    on_every_queue(|queue| async move {
        queue.rebuild(SHARD, EPOCH, &[(schedule(1), at(1))]).await.expect("rebuilt");
        queue.rebuild(SHARD, EPOCH, &[(schedule(2), at(2))]).await.expect("rebuilt");
        let only = vec![(schedule(2), at(2))];
        assert_eq!(due(&queue, 9, 9).await, Due { schedules: only, next: None });
    })
    .await;
}

#[tokio::test]
async fn hints_are_taken_once_and_wake_the_leader() {
    on_every_queue(|queue| async move {
        let woken = queue.due_hint();
        queue.hint(SHARD, &[schedule(1), schedule(2), schedule(1)]).await.expect("hinted");
        tokio::time::timeout(Duration::from_secs(5), woken.notified()).await.expect("woken");
        let first = queue.take_hints(SHARD, 1).await.expect("taken");
        let rest = queue.take_hints(SHARD, 9).await.expect("taken");
        assert_eq!((first.len(), rest.len()), (1, 1));
        let both: HashSet<_> = first.into_iter().chain(rest).collect();
        assert_eq!(both, HashSet::from([schedule(1), schedule(2)]));
        assert_eq!(queue.take_hints(SHARD, 9).await.expect("taken"), []);
        assert_eq!(queue.take_hints(ShardId(4), 9).await.expect("taken"), []);
    })
    .await;
}

#[tokio::test]
async fn a_ticket_is_handed_out_once_and_not_before_its_start() {
    on_every_queue(|queue| async move {
        let tickets = [ticket(1, 1, 1, 100), ticket(2, 1, 1, 200)];
        queue.push(&tickets).await.expect("pushed");
        queue.push(&tickets).await.expect("pushed again");
        let (taken, next) = queue.take(at(99), &room(9)).await.expect("asked");
        assert_eq!((taken.len(), next), (0, Some(at(100))));
        let (taken, next) = queue.take(at(100), &room(9)).await.expect("asked");
        assert_eq!((jobs(&taken), next), (jobs(&tickets[..1]), Some(at(200))));
        assert_eq!(taken[0], tickets[0], "with all that was pushed");
        assert_eq!(take(&queue, 900, &room(9)).await, jobs(&tickets[1..]));
        assert_eq!(take(&queue, 900, &room(9)).await, []);
        queue.push(&tickets[..1]).await.expect("pushed for another attempt");
        assert_eq!(take(&queue, 900, &room(9)).await, jobs(&tickets[..1]));
    })
    .await;
}

#[tokio::test]
async fn a_push_wakes_the_executor() {
    on_every_queue(|queue| async move {
        let woken = queue.ticket_hint();
        queue.push(&[ticket(1, 1, 1, 0)]).await.expect("pushed");
        tokio::time::timeout(Duration::from_secs(5), woken.notified()).await.expect("woken");
    })
    .await;
}

#[tokio::test]
async fn no_more_is_handed_out_than_there_is_room() {
    on_every_queue(|queue| async move {
        let tickets: Vec<_> = (0..40).map(|n| ticket(n, n % 2, (n % 4) as u64, 0)).collect();
        queue.push(&tickets).await.expect("pushed");
        assert_eq!(take(&queue, 0, &room(0)).await, []);
        let narrow = Room {
            total: 30,
            per_account: 7,
            accounts: HashMap::from([(account(0), 2)]),
            per_host: 3,
            hosts: HashMap::from([(HostKey(1), 0)]),
        };
        let (taken, _) = queue.take(at(0), &narrow).await.expect("asked");
        let of_account = |n| taken.iter().filter(|t| t.account == account(n)).count();
        let to_host = |n| taken.iter().filter(|t| t.host == HostKey(n)).count();
        // Account 0 uses hosts 0 and 2, account 1 hosts 1 and 3.
        assert_eq!((of_account(0), of_account(1)), (2, 3));
        assert_eq!((to_host(1), to_host(3)), (0, 3));
        let rest = take(&queue, 0, &room(100)).await;
        assert_eq!(rest.len(), 35, "what found no room is still there");
        let all: HashSet<_> = rest.into_iter().chain(jobs(&taken)).collect();
        assert_eq!(all.len(), 40, "nothing was handed out twice");
    })
    .await;
}

#[tokio::test]
async fn an_account_with_many_tickets_does_not_keep_others_waiting() {
    on_every_queue(|queue| async move {
        let crowd: Vec<_> = (0..5_000).map(|n| ticket(n, 1, 1, 0)).collect();
        queue.push(&crowd).await.expect("pushed");
        queue.push(&[ticket(9_001, 2, 2, 5), ticket(9_002, 3, 2, 5)]).await.expect("pushed");
        let taken = take(&queue, 5, &room(3)).await;
        let quiet: HashSet<_> =
            jobs(&[ticket(9_001, 2, 2, 5), ticket(9_002, 3, 2, 5)]).into_iter().collect();
        assert_eq!(taken.iter().filter(|job| quiet.contains(job)).count(), 2, "{taken:?}");
    })
    .await;
}

#[tokio::test]
async fn a_host_without_room_does_not_keep_others_waiting() {
    on_every_queue(|queue| async move {
        let slow: Vec<_> = (0..500).map(|n| ticket(n, 1, 1, 0)).collect();
        queue.push(&slow).await.expect("pushed");
        let other = ticket(900, 1, 2, 5);
        queue.push(&[other]).await.expect("pushed");
        let full = Room { hosts: HashMap::from([(HostKey(1), 0)]), ..room(10) };
        assert_eq!(take(&queue, 5, &full).await, [other.job]);
    })
    .await;
}

#[tokio::test]
async fn requests_are_counted_in_all_windows_or_none() {
    on_every_queue(|queue| async move {
        let minute = Window { span: Duration::from_secs(60), limit: 3 };
        let hour = Window { span: Duration::from_secs(3_600), limit: 4 };
        let count = |now| {
            let queue = queue.clone();
            async move { queue.count("key:1", &[minute, hour], at(now)).await.expect("counted") }
        };
        for left in [2, 1, 0] {
            let verdict = count(1_000).await;
            assert!(verdict.allowed);
            assert_eq!(verdict.standings[0].remaining, left);
            assert_eq!(verdict.standings[0].resets_at, at(61_000));
        }
        let refused = count(2_000).await;
        assert!(!refused.allowed);
        assert_eq!(refused.standings[1].remaining, 1, "a refused request uses up nothing");
        assert!(count(61_000).await.allowed, "the minute is over");
        let refused = count(61_001).await;
        assert!(!refused.allowed, "the hour is full");
        assert_eq!((refused.standings[0].remaining, refused.standings[1].remaining), (2, 0));
        assert!(queue.count("key:2", &[minute], at(61_001)).await.expect("counted").allowed);
        assert!(queue.count("key:3", &[], at(0)).await.expect("counted").allowed);
    })
    .await;
}
