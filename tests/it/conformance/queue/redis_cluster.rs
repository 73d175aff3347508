//! Tests for Redis Cluster only: shards on several nodes, one of which fails or gives slots away.

use std::time::Instant;

use super::redis::{FAILS_WITHIN, queue_at};
use super::world::*;
use crate::harness::redis_cluster::RedisCluster;
use crate::harness::wait::{until, within};

/// Returns ticket `n` of a shard.
fn of(shard: u16, n: u128) -> Ticket {
    Ticket { shard: ShardId(shard), ..ticket(u128::from(shard) * 1_000_000 + n, n, 1, 0) }
}

/// Returns ticket `n` of each shard.
fn of_each(n: u128) -> Vec<Ticket> {
    (0..SHARDS).map(|shard| of(shard, n)).collect()
}

/// Returns the shards of a node.
async fn shards_of(cluster: &RedisCluster, node: usize) -> Vec<u16> {
    let mut own = Vec::new();
    for shard in 0..SHARDS {
        if cluster.owner(&format!("{{{shard}}}")).await == node {
            own.push(shard);
        }
    }
    own
}

/// Takes until `wanted` tickets have arrived. Failing calls are repeated.
async fn take_all(queue: &SharedQueue, wanted: usize) -> Vec<Ticket> {
    let mut all = Vec::new();
    within(FAILS_WITHIN * 4, "tickets of the other nodes are handed out", async || {
        if let Ok((taken, _)) = queue.take(at(0), &room(99)).await {
            all.extend(taken);
        }
        (all.len() >= wanted).then_some(())
    })
    .await;
    all
}

async fn is_whole_again(queue: &SharedQueue) {
    let all = of_each(500);
    until("all shards take tickets", async || queue.push(&all).await.ok()).await;
    let mut left: HashSet<_> = all.iter().map(|ticket| ticket.job).collect();
    until("all shards give tickets", async || {
        if let Ok((taken, _)) = queue.take(at(0), &room(99)).await {
            for ticket in taken {
                left.remove(&ticket.job);
            }
        }
        left.is_empty().then_some(())
    })
    .await;
}

/// Makes a node without replicas fail or hang. Only its own shards may wait for it.
async fn others_continue(
    fail: impl FnOnce(&mut RedisCluster, usize),
    mend: impl AsyncFnOnce(&mut RedisCluster, usize),
) {
    let mut cluster = RedisCluster::start().await;
    let (queue, _tasks) = queue_at(&cluster.url(), "test");
    until("the Redis cluster accepts tickets", async || queue.push(&of_each(1)).await.ok()).await;
    let down = cluster.owner("{3}").await;
    let lost = shards_of(&cluster, down).await;
    let left: Vec<_> = (0..SHARDS).filter(|shard| !lost.contains(shard)).collect();
    assert!(!left.is_empty(), "the shards are on several nodes");
    for shard in 0..SHARDS {
        queue.rebuild(ShardId(shard), EPOCH, &[(schedule(1), at(1))]).await.expect("built");
    }
    fail(&mut cluster, down);

    let taken = take_all(&queue, left.len()).await;
    let shards: HashSet<_> = taken.iter().map(|ticket| ticket.shard.0).collect();
    assert_eq!(shards, left.iter().copied().collect());
    for shard in &left {
        // While the client reconnects to the failed node, calls for other nodes wait, too.
        let due = until("a due index on another node is readable", async || {
            queue.due(ShardId(*shard), EPOCH, (None, at(5)), 9).await.ok()
        });
        assert!(matches!(due.await, IndexAnswer::Own(due) if due.schedules.len() == 1));
    }
    let begun = Instant::now();
    queue.due(SHARD, EPOCH, (None, at(5)), 9).await.expect_err("its node is down");
    assert!(begun.elapsed() < FAILS_WITHIN, "{:?}", begun.elapsed());
    // Tickets for the other nodes are not lost, although the push fails.
    let again = of_each(2);
    let mut shards = HashSet::new();
    until("pushed tickets of the other nodes are handed out", async || {
        queue.push(&again).await.expect_err("some of it");
        if let Ok((taken, _)) = queue.take(at(0), &room(99)).await {
            shards.extend(taken.iter().map(|ticket| ticket.shard.0));
        }
        (shards.len() == left.len()).then_some(())
    })
    .await;

    mend(&mut cluster, down).await;
    is_whole_again(&queue).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_a_dead_node_others_continue() {
    others_continue(
        |cluster, node| cluster.nodes[node].kill(),
        async |cluster, node| cluster.nodes[node].restart().await,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_a_hanging_node_others_continue() {
    others_continue(
        |cluster, node| cluster.nodes[node].process().pause(),
        async |cluster, node| cluster.nodes[node].process().resume(),
    )
    .await;
}

/// The nodes redirect the client (MOVED, ASK) and ask it to wait (TRYAGAIN). The job rescuer
/// restores the tickets of a failed take. The next test shows that the scripts lose none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_slots_move_tickets_are_pushed_and_handed_out() {
    let cluster = RedisCluster::start().await;
    let (queue, _tasks) = queue_at(&cluster.url(), "test");
    until("the Redis cluster accepts tickets", async || queue.push(&of_each(1)).await.ok()).await;
    assert_eq!(take_all(&queue, usize::from(SHARDS)).await.len(), usize::from(SHARDS));
    let from = cluster.owner("{3}").await;
    let to = (from + 1) % cluster.nodes.len();
    let moved = std::cell::Cell::new(false);
    let moving = async {
        cluster.move_slots(from, to).await;
        moved.set(true);
    };
    let mut work = MovedTickets::default();
    let working = async {
        while !moved.get() {
            if work.pushed.len() < 5_000 {
                work.push(&queue).await;
            }
            work.take(&queue).await;
        }
    };
    tokio::join!(moving, working);
    assert_eq!(cluster.owner("{3}").await, to);
    work.take_the_rest(&queue).await;
    let MovedTickets { pushed, taken, repeated } = work;
    println!("{} tickets, {repeated} pushed again", pushed.len());
    let each: HashSet<_> = taken.iter().collect();
    assert_eq!(each.len(), pushed.len());
    assert!(taken.len() <= pushed.len() + repeated, "{} are too many", taken.len());
    is_whole_again(&queue).await;
}

/// The tickets that are pushed and taken while slots move.
#[derive(Default)]
struct MovedTickets {
    pushed: Vec<Ticket>,
    taken: Vec<JobId>,
    /// The number of tickets that may be in the queue twice.
    repeated: usize,
}

impl MovedTickets {
    async fn push(&mut self, queue: &SharedQueue) {
        let first = 10 + self.pushed.len() as u128;
        let batch = of_each(first);
        until("the batch of tickets is pushed", async || {
            let is_done = queue.push(&batch).await.is_ok();
            // Some of them may be queued, and taken before they are pushed again.
            self.repeated += if is_done { 0 } else { batch.len() };
            is_done.then_some(())
        })
        .await;
        self.pushed.extend(batch);
    }

    async fn take(&mut self, queue: &SharedQueue) {
        if let Ok((tickets, _)) = queue.take(at(0), &room(99)).await {
            self.taken.extend(tickets.iter().map(|ticket| ticket.job));
        }
    }

    /// Takes until all tickets have arrived. Pushes missing ones again, as the job rescuer does.
    async fn take_the_rest(&mut self, queue: &SharedQueue) {
        until("all pushed tickets are handed out", async || {
            self.take(queue).await;
            let taken: HashSet<_> = self.taken.iter().collect();
            let pushed = self.pushed.iter();
            let missing = pushed.filter(|ticket| !taken.contains(&ticket.job));
            let missing: Vec<_> = missing.copied().collect();
            if queue.push(&missing).await.is_ok() {
                self.repeated += missing.len();
            }
            missing.is_empty().then_some(())
        })
        .await;
    }
}

/// The server aborts a script that reads a key which it has just emptied, after the removals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_ticket_of_a_shard_whose_slot_moves_is_handed_out() {
    let cluster = RedisCluster::start().await;
    let (queue, _tasks) = queue_at(&cluster.url(), "test");
    // All keys of this shard exist. Missing keys cannot be read while the slot moves.
    let tickets = [of(3, 1), of(3, 2), Ticket { start: at(1_000_000), ..of(3, 3) }];
    until("the Redis cluster accepts tickets", async || queue.push(&tickets).await.ok()).await;
    let one = until("the first ticket is handed out", async || {
        let taken = queue.take(at(0), &room(1)).await.ok()?.0;
        taken.first().map(|ticket| ticket.job)
    });
    let one = one.await;
    cluster.begin_to_move("{3}").await;
    let (others, _) = queue.take(at(0), &room(9)).await.expect("the slot is where it was");
    assert_eq!(others.len(), 1);
    assert_ne!(others[0].job, one);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_all_nodes_were_dead_it_comes_back_by_itself() {
    let mut cluster = RedisCluster::start().await;
    let (queue, _tasks) = queue_at(&cluster.url(), "test");
    until("the Redis cluster accepts tickets", async || queue.push(&of_each(1)).await.ok()).await;
    for node in &mut cluster.nodes {
        node.kill();
    }
    for _ in 0..2 {
        let begun = Instant::now();
        queue.take(at(0), &room(9)).await.expect_err("no node is there");
        assert!(begun.elapsed() < FAILS_WITHIN, "{:?}", begun.elapsed());
    }
    for node in &mut cluster.nodes {
        node.restart().await;
    }
    is_whole_again(&queue).await;
}
