//! Cases of the run queue.

use super::world::*;

pub async fn a_ticket_is_handed_out_once_and_not_before_its_start(queue: &SharedQueue) {
    let tickets = [ticket(1, 1, 1, 100), ticket(2, 1, 1, 200)];
    queue.push(&tickets).await.expect("pushed");
    queue.push(&tickets).await.expect("pushed again");
    let (taken, next) = queue.take(at(99), &room(9)).await.expect("asked");
    assert_eq!((taken.len(), next), (0, Some(at(100))));
    let (taken, next) = queue.take(at(100), &room(9)).await.expect("asked");
    assert_eq!((jobs(&taken), next), (jobs(&tickets[..1]), Some(at(200))));
    assert_eq!(taken[0], tickets[0], "with all that was pushed");
    assert_eq!(take(queue, 900, &room(9)).await, jobs(&tickets[1..]));
    assert_eq!(take(queue, 900, &room(9)).await, []);
    queue.push(&tickets[..1]).await.expect("pushed for another attempt");
    assert_eq!(take(queue, 900, &room(9)).await, jobs(&tickets[..1]));
}

pub async fn a_push_wakes_the_executor(queue: &SharedQueue) {
    let woken = queue.ticket_hint();
    queue.push(&[ticket(1, 1, 1, 0)]).await.expect("pushed");
    tokio::time::timeout(Duration::from_secs(5), woken.notified()).await.expect("woken");
}

pub async fn tickets_that_are_put_back_wake_no_task_and_are_handed_out_again(queue: &SharedQueue) {
    queue.push(&[ticket(1, 1, 1, 0), ticket(2, 2, 1, 0)]).await.expect("pushed");
    let (taken, _) = queue.take(at(0), &room(9)).await.expect("asked");
    let woken = queue.ticket_hint();
    // The push wakes the executor, and so does a subscription that the queue has just begun.
    tokio::time::timeout(Duration::from_secs(5), woken.notified()).await.expect("woken");
    while tokio::time::timeout(Duration::from_secs(1), woken.notified()).await.is_ok() {}
    queue.put_back(&taken).await.expect("put back");
    let hint = tokio::time::timeout(Duration::from_millis(100), woken.notified()).await;
    assert!(hint.is_err(), "nothing is new");
    assert_eq!(take(queue, 0, &room(9)).await.len(), 2);
}

pub async fn no_more_is_handed_out_than_there_is_room(queue: &SharedQueue) {
    let tickets: Vec<_> = (0..40).map(|n| ticket(n, n % 2, (n % 4) as u64, 0)).collect();
    queue.push(&tickets).await.expect("pushed");
    assert_eq!(take(queue, 0, &room(0)).await, []);
    let narrow = Capacity {
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
    let rest = take(queue, 0, &room(100)).await;
    assert_eq!(rest.len(), 35, "tickets without room are still there");
    let all: HashSet<_> = rest.into_iter().chain(jobs(&taken)).collect();
    assert_eq!(all.len(), 40, "nothing was handed out twice");
}

pub async fn an_account_with_many_tickets_does_not_keep_others_waiting(queue: &SharedQueue) {
    let crowd: Vec<_> = (0..5_000).map(|n| ticket(n, 1, 1, 0)).collect();
    queue.push(&crowd).await.expect("pushed");
    queue.push(&[ticket(9_001, 2, 2, 5), ticket(9_002, 3, 2, 5)]).await.expect("pushed");
    let taken = take(queue, 5, &room(3)).await;
    let quiet: HashSet<_> =
        jobs(&[ticket(9_001, 2, 2, 5), ticket(9_002, 3, 2, 5)]).into_iter().collect();
    assert_eq!(taken.iter().filter(|job| quiet.contains(job)).count(), 2, "{taken:?}");
}

pub async fn a_host_without_room_does_not_keep_others_waiting(queue: &SharedQueue) {
    let slow: Vec<_> = (0..500).map(|n| ticket(n, 1, 1, 0)).collect();
    queue.push(&slow).await.expect("pushed");
    let other = ticket(900, 1, 2, 5);
    queue.push(&[other]).await.expect("pushed");
    let full = Capacity { hosts: HashMap::from([(HostKey(1), 0)]), ..room(10) };
    assert_eq!(take(queue, 5, &full).await, [other.job]);
}

pub async fn no_account_host_or_shard_is_always_the_last(queue: &SharedQueue) {
    // Three accounts, three hosts, three shards. Keys of hosts are hashes, so they can be any
    // number.
    let host = |n: u16| u64::from(n) * (u64::MAX / 3);
    let crowds: Vec<_> = (0..900_u16)
        .map(|n| Ticket {
            shard: ShardId(n / 9 % 3),
            ..ticket(n.into(), (n % 3).into(), host(n / 3 % 3), 0)
        })
        .collect();
    queue.push(&crowds).await.expect("pushed");
    let mut served: HashMap<_, usize> = HashMap::new();
    for _ in 0..90 {
        let (taken, _) = queue.take(at(0), &room(3)).await.expect("asked");
        for ticket in taken {
            *served.entry(format!("account {}", ticket.account)).or_default() += 1;
            *served.entry(format!("host {}", ticket.host.0)).or_default() += 1;
            *served.entry(format!("shard {}", ticket.shard)).or_default() += 1;
        }
    }
    assert_eq!(served.len(), 9, "{served:?}");
    assert!(served.values().all(|count| *count >= 30), "of 270, three times 90: {served:?}");
}

pub async fn every_shard_is_served_within_the_room(queue: &SharedQueue) {
    let spread: Vec<_> = (0..60_u16)
        .map(|n| Ticket { shard: ShardId(n % SHARDS), ..ticket(n.into(), 1, 1, 0) })
        .collect();
    queue.push(&spread).await.expect("pushed");
    let narrow = Capacity { per_host: 25, ..room(40) };
    assert_eq!(take(queue, 0, &narrow).await.len(), 25, "the host's room, over all shards");
    let one_shard = Ticket { shard: ShardId(SHARDS - 1), ..ticket(100, 2, 2, 0) };
    queue.push(&[one_shard]).await.expect("pushed");
    let full = Capacity { hosts: HashMap::from([(HostKey(1), 0)]), ..room(1) };
    assert_eq!(take(queue, 0, &full).await, [one_shard.job], "wherever the room is usable");
    assert_eq!(take(queue, 0, &room(100)).await.len(), 35);
}

pub async fn many_takers_get_each_ticket_once(queue: &SharedQueue) {
    let tickets: Vec<_> = (0..1_000_u16)
        .map(|n| Ticket { shard: ShardId(n % 3), ..ticket(n.into(), (n % 5).into(), 1, 0) })
        .collect();
    queue.push(&tickets).await.expect("pushed");
    let mut takers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let queue = queue.clone();
        takers.spawn(async move {
            let mut mine = Vec::new();
            loop {
                let some = take(&queue, 0, &room(20)).await;
                if some.is_empty() {
                    return mine;
                }
                mine.extend(some);
            }
        });
    }
    let all = takers.join_all().await.concat();
    assert_eq!(all.len(), 1_000);
    assert_eq!(all.into_iter().collect::<HashSet<_>>().len(), 1_000);
}

/// The maximum number of tickets in a shard.
const FULL: u128 = 250_000;
/// The maximum number of ready tickets of an account in a full shard.
const SHARE: u128 = 1_000;
/// A start time that has passed on every clock.
const LONG_AGO: i64 = -1_000_000_000_000;
/// A start time that comes on no clock.
const IN_CENTURIES: i64 = 10_000_000_000_000;

/// The backlog of one account fills a shard. Its further tickets are dropped. Other accounts can
/// still add tickets up to their share, and those beyond it are dropped. The same holds for tickets
/// that start later, such as retries.
pub async fn a_full_queue_takes_the_few_tickets_of_others(queue: &SharedQueue) {
    let backlog: Vec<_> = (0..FULL).map(|n| ticket(n, 1, 1, LONG_AGO)).collect();
    for some in backlog.chunks(25_000) {
        queue.push(some).await.expect("pushed");
    }
    // Makes the backlog ready, as takes of executors do: each makes at most 10,000 tickets ready.
    let noisy = Capacity { accounts: HashMap::from([(account(1), 0)]), ..room(500) };
    for _ in 0..FULL / 10_000 {
        assert_eq!(take(queue, 0, &noisy).await, []);
    }
    let start_at = |start, from: u128, count: u128, of, host| -> Vec<_> {
        (from..from + count).map(|n| ticket(FULL + n, of, host, start)).collect()
    };
    let now = |from, count, of, host| start_at(LONG_AGO, from, count, of, host);
    let later = |from, count, of, host| start_at(IN_CENTURIES, from, count, of, host);
    let [more, more_later] = [now(0, 500, 1, 2), later(500, 500, 1, 5)];
    let [few, few_later] = [now(1_000, 20, 2, 3), later(1_500, 20, 2, 6)];
    let [many, many_later] = [now(2_000, SHARE + 500, 3, 4), later(4_000, SHARE + 500, 4, 7)];
    let pushes = [&more, &few, &few, &many, &few, &more_later, &few_later, &many_later, &few_later];
    for tickets in pushes {
        queue.push(tickets).await.expect("pushed");
    }
    let of = async |at, host| {
        let hosts = (1..=7).map(|one| (HostKey(one), if one == host { 2_000 } else { 0 }));
        let room = Capacity { hosts: hosts.collect(), ..room(500) };
        let mut taken = Vec::new();
        loop {
            let some = take(queue, at, &room).await;
            if some.is_empty() {
                return taken;
            }
            taken.extend(some);
        }
    };
    let set = |jobs: Vec<_>| jobs.into_iter().collect::<HashSet<_>>();
    assert_eq!(of(0, 2).await, [], "of an account that has more than its share");
    assert_eq!(set(of(0, 3).await), set(jobs(&few)));
    assert_eq!(of(0, 4).await.len() as u128, SHARE);

    assert_eq!(of(IN_CENTURIES - 1, 6).await, [], "before their start");
    assert_eq!(of(IN_CENTURIES, 5).await, [], "later ones of an account with more than its share");
    assert_eq!(set(of(IN_CENTURIES, 6).await), set(jobs(&few_later)));
    assert_eq!(of(IN_CENTURIES, 7).await.len() as u128, SHARE);

    // The later ones that were taken do not count against tickets that may start now.
    let again = now(6_000, 20, 4, 4);
    queue.push(&again).await.expect("pushed");
    assert_eq!(set(of(0, 4).await), set(jobs(&again)));
}
