//! Tests of the Redis adapter alone, mainly of its behaviour when the server fails.

use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use punctual::queue::redis::{RedisQueue, RedisSettings};
use punctual::runtime::{Clock, Random, Tasks};

use super::world::*;
use crate::harness::certificates::Authority;
use crate::harness::link::{Link, Mood};
use crate::harness::lossy_proxy::LossyProxy;
use crate::harness::servers::{PASSWORD, RedisServer, free_node_port, shared};
use crate::harness::wait::{until, within};

/// The maximum time until an operation fails. Usually it takes 1 to 2 s.
pub const FAILS_WITHIN: Duration = Duration::from_secs(6);

pub fn queue_at(url: &str, prefix: &str) -> (SharedQueue, Tasks) {
    start(RedisSettings::parse(url, prefix, None, None).expect("valid"))
}

fn start(settings: RedisSettings) -> (SharedQueue, Tasks) {
    let (clock, tasks) = (Clock::system(), Tasks::new());
    let queue = RedisQueue::start(settings, SHARDS, clock, Random::system(), &tasks);
    (Arc::new(queue.expect("valid")), tasks)
}

/// Opens a queue on the shared server, under its own prefix.
pub async fn open() -> Opened {
    open_at("PUNCTUAL_TEST_REDIS")
}

/// Opens a queue on the shared cluster, under its own prefix.
pub async fn open_cluster() -> Opened {
    open_at("PUNCTUAL_TEST_REDIS_CLUSTER")
}

fn open_at(server: &str) -> Opened {
    let prefix = format!("test-{:032x}", Random::system().bits());
    let (queue, tasks) = queue_at(&shared(server), &prefix);
    (queue, Box::new(tasks))
}

async fn own() -> (RedisServer, SharedQueue, Tasks) {
    let server = RedisServer::start(&[]).await;
    let (queue, tasks) = queue_at(&server.url(), "test");
    (server, queue, tasks)
}

/// Waits until the queue works: it can be built, takes a ticket and hands it out.
async fn recovered(queue: &SharedQueue) {
    until("the queue is back", async || queue.push(&[]).await.ok()).await;
    until("the due index can be built", async || queue.rebuild(SHARD, EPOCH, &[]).await.ok()).await;
    queue.push(&[ticket(77, 1, 1, 0)]).await.expect("pushed");
    assert_eq!(take(queue, 0, &room(9)).await.len(), 1);
}

/// A take does not send the accounts and hosts that still have room, of which there can be many.
#[tokio::test]
async fn a_take_tells_of_those_alone_who_may_have_no_more() {
    let (server, queue, _tasks) = own().await;
    queue.push(&[ticket(1, 1, 1, 0), ticket(2, 2, 2, 0)]).await.expect("pushed");
    let mut room = Capacity { total: 500, per_account: 100, per_host: 50, ..Capacity::default() };
    for number in 0..1_000 {
        room.accounts.insert(account(number.into()), if number == 1 { 0 } else { 99 });
        room.hosts.insert(HostKey(number), 49);
    }
    // From here on the server has the scripts.
    assert_eq!(take(&queue, 0, &room).await, jobs(&[ticket(2, 2, 2, 0)]));
    queue.push(&[ticket(3, 2, 2, 0)]).await.expect("pushed");
    let received = async || -> u64 {
        let stats: String = server.run(redis::cmd("INFO").arg("stats")).await;
        let bytes = stats.lines().find_map(|line| line.strip_prefix("total_net_input_bytes:"));
        bytes.expect("a figure").trim().parse().expect("a number")
    };
    let before = received().await;
    let taken = take(&queue, 0, &room).await;
    assert_eq!(taken, jobs(&[ticket(3, 2, 2, 0)]), "account 1 has no room");
    let bytes = received().await - before;
    assert!(bytes < 4_000, "{bytes} bytes for one ticket");
}

/// IndexAnswer entries in the form of an earlier release are removed when they are due. The leader
/// finds their schedules when it compares the index with the store.
#[tokio::test]
async fn entries_of_another_form_are_removed_and_keep_nothing_waiting() {
    let (server, queue, _tasks) = own().await;
    queue.rebuild(SHARD, EPOCH, &[(schedule(1), at(1))]).await.expect("built");
    let keys: Vec<String> = server.run(redis::cmd("KEYS").arg("*:due")).await;
    let [index] = &keys[..] else { panic!("one index: {keys:?}") };
    let mut add = redis::cmd("ZADD");
    add.arg(index).arg(at(1).as_millis()).arg(&[7_u8; 14][..]);
    let _: () = server.run(&add).await;
    for _ in 0..2 {
        let due = queue.due(SHARD, EPOCH, (None, at(5)), 9).await.expect("read");
        let IndexAnswer::Own(due) = due else { panic!("its own") };
        assert_eq!(due.schedules, [(schedule(1), at(1))]);
    }
    let left: usize = server.run(redis::cmd("ZCARD").arg(index)).await;
    assert_eq!(left, 1);
}

/// The entries of one tick are read together. An entry of another length is removed.
#[tokio::test]
async fn an_unreadable_entry_among_many_of_its_tick_is_removed() {
    let (server, queue, _tasks) = own().await;
    let entries: Vec<_> = (0..200).map(|n| (schedule(n), at(1))).collect();
    queue.rebuild(SHARD, EPOCH, &entries).await.expect("built");
    let [index]: [String; 1] = server.run(redis::cmd("KEYS").arg("*:due")).await;
    let mut first = redis::cmd("ZRANGE");
    first.arg(&index).arg(0).arg(0).arg("WITHSCORES");
    let [(_, score)]: [(Vec<u8>, String); 1] = server.run(&first).await;
    let mut add = redis::cmd("ZADD");
    add.arg(&index).arg(score).arg(&[255_u8; 14][..]);
    let _: () = server.run(&add).await;
    for _ in 0..2 {
        let mut read = due(&queue, 5, 900).await.schedules;
        read.sort_unstable();
        assert_eq!(read, entries);
    }
    let left: usize = server.run(redis::cmd("ZCARD").arg(&index)).await;
    assert_eq!(left, 200);
}

/// The user that docs/cluster.md recommends has enough rights.
#[tokio::test]
async fn a_user_with_few_rights_is_enough() {
    let server = RedisServer::start(&[]).await;
    let mut user = redis::cmd("ACL");
    user.arg("SETUSER").arg("punctual").arg("on").arg(">secret").arg("~punctual:*");
    user.arg("&punctual:*").arg("+@all").arg("-@dangerous").arg("+info");
    let _: () = server.run(&user).await;
    let url = format!("redis://punctual:secret@127.0.0.1:{}", server.port);
    let (queue, _tasks) = queue_at(&url, "punctual");
    queue.ping().await.expect("written");
    let entries = [(schedule(1), at(1))];
    queue.rebuild(SHARD, EPOCH, &entries).await.expect("built");
    queue.set_due(SHARD, EPOCH, &[(schedule(2), Some(at(2)))]).await.expect("set");
    let due = queue.due(SHARD, EPOCH, (None, at(5)), 9).await.expect("read");
    assert!(matches!(due, IndexAnswer::Own(due) if due.schedules.len() == 2));
    let changes = ShardChanges::of([schedule(1)]);
    queue.hint(SHARD, &changes).await.expect("hinted");
    assert_eq!(queue.take_hints(SHARD, 9).await.expect("taken"), changes);
    let window = RateWindow { span: Duration::from_secs(60), limit: 3 };
    assert!(queue.count("key:1", &[window], at(1)).await.expect("counted").allowed);
    recovered(&queue).await;
}

#[tokio::test]
async fn wiped_it_is_foreign_until_it_is_rebuilt() {
    let (server, queue, _tasks) = own().await;
    let entries = [(schedule(1), at(1))];
    queue.rebuild(SHARD, EPOCH, &entries).await.expect("rebuilt");
    queue.push(&[ticket(1, 1, 1, 0)]).await.expect("pushed");
    let _: () = server.run(&redis::cmd("FLUSHALL")).await;
    assert_eq!(
        queue.due(SHARD, EPOCH, (None, at(9)), 9).await.expect("asked"),
        IndexAnswer::Foreign
    );
    let change = [(schedule(1), Some(at(5)))];
    assert_eq!(queue.set_due(SHARD, EPOCH, &change).await.expect("asked"), IndexAnswer::Foreign);
    assert_eq!(take(&queue, 9, &room(9)).await, [], "the job rescuer pushes it again");
    queue.rebuild(SHARD, EPOCH, &entries).await.expect("rebuilt");
    assert_eq!(due(&queue, 9, 9).await.schedules, entries);
}

#[tokio::test]
async fn forgotten_scripts_are_loaded_again() {
    let (server, queue, _tasks) = own().await;
    recovered(&queue).await;
    let _: () = server.run(redis::cmd("SCRIPT").arg("FLUSH")).await;
    let tickets: Vec<_> =
        (0..8).map(|n| Ticket { shard: ShardId(n), ..ticket(n.into(), 1, 1, 0) }).collect();
    queue.push(&tickets).await.expect("pushed");
    let _: () = server.run(redis::cmd("SCRIPT").arg("FLUSH")).await;
    assert_eq!(take(&queue, 0, &room(9)).await.len(), 8);
    assert_eq!(due(&queue, 9, 9).await, DueTicks::default());
}

#[tokio::test]
async fn a_dead_server_fails_fast_and_recovers_by_itself() {
    let (mut server, queue, _tasks) = own().await;
    recovered(&queue).await;
    server.kill();
    let begun = Instant::now();
    queue.take(at(0), &room(1)).await.expect_err("the server is down");
    assert!(begun.elapsed() < FAILS_WITHIN, "{:?}", begun.elapsed());
    server.restart().await;
    recovered(&queue).await;
}

#[tokio::test]
async fn hints_that_cannot_be_left_are_kept_and_left_later() {
    let (mut server, queue, _tasks) = own().await;
    recovered(&queue).await;
    // A call that waited for this server would take a second or more.
    server.process().pause();
    queue.hint(SHARD, &ShardChanges::of([schedule(1)])).await.expect("kept");
    let begun = Instant::now();
    for n in 2..100 {
        queue.hint(SHARD, &ShardChanges::of([schedule(n)])).await.expect("kept");
    }
    let many: Vec<_> = (0..1_001).map(schedule).collect();
    queue.hint(ShardId(4), &ShardChanges::of(many)).await.expect("kept");
    assert!(begun.elapsed() < Duration::from_secs(10), "no call waits: {:?}", begun.elapsed());
    server.restart().await;
    let mut told = HashSet::new();
    until("the leader gets hints", async || {
        let taken = queue.take_hints(SHARD, 500).await.unwrap_or_default();
        told.extend(taken.schedules);
        (told.len() == 99).then_some(())
    })
    .await;
    until("the leader gets a hint for all schedules", async || {
        let taken = queue.take_hints(ShardId(4), 500).await.unwrap_or_default();
        (taken == ShardChanges::all()).then_some(())
    })
    .await;
    // The leader may have the last kept hint before its sender has the server's answer. Until then
    // a new hint is kept, too, and sent next.
    queue.hint(SHARD, &ShardChanges::of([schedule(1)])).await.expect("sent or kept");
    until("the leader gets a new hint", async || {
        let taken = queue.take_hints(SHARD, 9).await.expect("taken");
        (taken == ShardChanges::of([schedule(1)])).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_slow_server_is_not_asked_for_one_shard_after_the_other() {
    let server = RedisServer::start(&[]).await;
    let line = Link::start(server.port).await;
    let url = server.url().replace(&server.port.to_string(), &line.port.to_string());
    let (queue, _tasks) = queue_at(&url, "test");
    let tickets: Vec<_> = (0..SHARDS)
        .flat_map(|shard| (0..2).map(move |n| (shard, n)))
        .map(|(shard, n)| {
            let number = u128::from(shard * 2 + n);
            Ticket { shard: ShardId(shard), ..ticket(number, number, 1, 0) }
        })
        .collect();
    queue.push(&tickets).await.expect("pushed");
    // Loads the scripts into the server.
    assert_eq!(take(&queue, 0, &room(1)).await.len(), 1);
    line.set(Mood::Slow(Duration::from_millis(300)));
    // All shards are asked at once, which gives one ticket. Then they are asked one after the
    // other, where the host has no room, until that has taken too long.
    let cramped = Capacity { per_host: 1, ..room(9) };
    let (taken, next) = queue.take(at(0), &cramped).await.expect("taken");
    assert_eq!((taken.len(), next), (1, Some(at(0))), "more tickets can be taken at once");
    line.set(Mood::Open);
    assert_eq!(take(&queue, 0, &room(99)).await.len(), 14);
}

#[tokio::test]
async fn a_hanging_server_fails_fast_and_recovers_by_itself() {
    let (server, queue, _tasks) = own().await;
    recovered(&queue).await;
    server.process().pause();
    for _ in 0..3 {
        let begun = Instant::now();
        let failed =
            queue.due(SHARD, EPOCH, (None, at(0)), 1).await.expect_err("it does not answer");
        assert!(begun.elapsed() < FAILS_WITHIN, "{:?}: {failed}", begun.elapsed());
    }
    server.process().resume();
    recovered(&queue).await;
}

#[tokio::test]
async fn a_lost_answer_is_requested_again() {
    let server = RedisServer::start(&[]).await;
    let line = LossyProxy::start(server.port, "{3}:taken:").await;
    let url = server.url().replace(&server.port.to_string(), &line.address.port().to_string());
    let (queue, _tasks) = queue_at(&url, "test");
    // Loads the script with a take from another shard, so that the first lost answer is that of a
    // take.
    queue.push(&[Ticket { shard: ShardId(4), ..ticket(9, 1, 1, 0) }]).await.expect("pushed");
    assert_eq!(take(&queue, 0, &room(9)).await.len(), 1);
    queue.push(&[ticket(1, 1, 1, 0), ticket(2, 2, 1, 0)]).await.expect("pushed");
    let taken = take(&queue, 0, &room(9)).await;
    assert!(line.lost() > 0, "an answer was lost");
    assert_eq!(taken.len(), 2);
}

#[tokio::test]
async fn a_full_server_takes_no_tickets_but_hands_them_out() {
    let server = RedisServer::start(&["--maxmemory", "0"]).await;
    let (queue, _tasks) = queue_at(&server.url(), "test");
    recovered(&queue).await;
    queue.rebuild(SHARD, EPOCH, &[(schedule(1), at(1))]).await.expect("rebuilt");
    let tickets: Vec<_> = (0..100).map(|n| ticket(n, n % 9, 1, 0)).collect();
    queue.push(&tickets).await.expect("pushed");
    let limit = |bytes: u64| {
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg("maxmemory").arg(bytes);
        command
    };
    let _: () = server.run(&limit(100_000)).await;
    let full = queue.push(&[ticket(500, 1, 1, 0)]).await.expect_err("it is full").to_string();
    assert!(full.starts_with("queue unavailable (push): the server has used up"), "{full}");
    let moved = [(schedule(1), Some(at(100)))];
    assert_eq!(queue.set_due(SHARD, EPOCH, &moved).await.expect("set"), IndexAnswer::Own(()));
    assert_eq!(due(&queue, 9, 9).await.next, Some(at(100)), "ticks move on");
    assert_eq!(take(&queue, 0, &room(60)).await.len(), 60);
    assert_eq!(take(&queue, 0, &room(60)).await.len(), 40);
    let _: () = server.run(&limit(0)).await;
    recovered(&queue).await;
}

#[tokio::test]
async fn a_server_that_cannot_write_to_its_disk_reports_it() {
    let (server, queue, _tasks) = own().await;
    recovered(&queue).await;
    let _: () = server.run(redis::cmd("CONFIG").arg("SET").arg("save").arg("3600 1")).await;
    std::fs::remove_dir_all(server.folder()).expect("removed");
    let _: () = server.run(&redis::cmd("BGSAVE")).await;
    let refused = until("Redis rejects writes", async || {
        queue.push(&[ticket(1, 1, 1, 0)]).await.err().map(|error| error.to_string())
    });
    let refused = refused.await;
    assert!(refused.contains("it cannot write to its disk"), "{refused}");
    let _: () = server.run(redis::cmd("CONFIG").arg("SET").arg("save").arg("")).await;
    until("Redis accepts writes again", async || queue.push(&[ticket(2, 1, 1, 0)]).await.ok())
        .await;
}

#[tokio::test]
async fn a_replica_of_redis_is_detected_and_a_new_primary_is_used() {
    let (server, queue, _tasks) = own().await;
    recovered(&queue).await;
    let _: () = server.run(redis::cmd("REPLICAOF").arg("127.0.0.1").arg(1)).await;
    let _: () =
        server.run(redis::cmd("CONFIG").arg("SET").arg("replica-read-only").arg("yes")).await;
    let refused =
        queue.push(&[ticket(1, 1, 1, 0)]).await.expect_err("it takes no writes").to_string();
    assert!(refused.contains("must name the primary"), "{refused}");
    let _: () = server.run(redis::cmd("REPLICAOF").arg("NO").arg("ONE")).await;
    recovered(&queue).await;
}

#[tokio::test]
async fn a_wrong_password_is_explained_without_showing_it() {
    let (server, cluster) = (RedisServer::start(&[]).await, RedisServer::start_cluster(&[]).await);
    let of_cluster = cluster.url_with("wrong-secret").replace("redis://", "redis+cluster://");
    let none = format!("redis://127.0.0.1:{}", server.port);
    for url in [server.url_with("wrong-secret"), none, of_cluster] {
        let (queue, _tasks) = queue_at(&url, "test");
        let refused = queue.push(&[ticket(1, 1, 1, 0)]).await.expect_err("refused");
        let said = format!("{refused} {refused:?}");
        assert!(said.contains("PUNCTUAL_QUEUE_URL"), "{said}");
        assert!(!said.contains("wrong-secret") && !said.contains(PASSWORD), "{said}");
    }
}

#[tokio::test]
async fn replicas_wake_each_other_at_once() {
    let (mut server, here, _tasks) = own().await;
    let (there, _their_tasks) = queue_at(&server.url(), "test");
    for round in 0..2 {
        let (tickets, due) = (there.ticket_hint(), there.due_hint());
        // A new subscription wakes both. Waits for the subscriptions, then drains these hints.
        within(Duration::from_secs(10), "both queues have subscribed to the hints", async || {
            let subscribed: (String, u64) =
                server.run(redis::cmd("PUBSUB").arg("NUMSUB").arg("test:due-hints")).await;
            (subscribed.1 == 2).then_some(())
        })
        .await;
        let hint = async |woken: &tokio::sync::Notify, seconds| {
            tokio::time::timeout(Duration::from_secs(seconds), woken.notified()).await
        };
        hint(&tickets, 5).await.expect("the subscription wakes the executors");
        hint(&due, 5).await.expect("the subscription wakes the leaders");
        while hint(&tickets, 1).await.is_ok() || hint(&due, 1).await.is_ok() {}
        let begun = Instant::now();
        here.push(&[ticket(round, 1, 1, 0)]).await.expect("pushed");
        hint(&tickets, 5).await.expect("the executors there");
        here.hint(SHARD, &ShardChanges::of([schedule(1)])).await.expect("hinted");
        hint(&due, 5).await.expect("the leaders there");
        println!("both hints arrived within {:?}", begun.elapsed());
        here.push(&[ticket(round, 1, 1, 0)]).await.expect("pushed again");
        assert!(hint(&tickets, 1).await.is_err(), "nothing is new");
        server.restart().await;
    }
}

#[tokio::test]
async fn an_idle_schedule_costs_at_most_136_bytes() {
    let (server, queue, _tasks) = own().await;
    let used = async || -> u64 {
        let told: redis::InfoDict = server.run(redis::cmd("INFO").arg("memory")).await;
        told.get("used_memory").expect("a figure")
    };
    recovered(&queue).await;
    let before = used().await;
    let random = Random::seeded(1);
    let entries: Vec<_> = (0..100_000_i64)
        .map(|n| {
            let schedule = ScheduleId::new(at(n * 1_000), random.bits());
            (OwnedSchedule { schedule, account: account(n.unsigned_abs().into()) }, at(n * 60_000))
        })
        .collect();
    queue.rebuild(SHARD, EPOCH, &entries).await.expect("rebuilt");
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let each = (used().await - before) as f64 / entries.len() as f64;
    println!("{each:.1} bytes for each idle schedule");
    assert!(each <= 136.0, "{each:.1} bytes");
    let first = due(&queue, 0, 1).await;
    assert_eq!(first.schedules, entries[..1]);
}

#[tokio::test]
async fn remains_of_a_rebuild_expire() {
    let (server, queue, _tasks) = own().await;
    let entries: Vec<_> = (0..200_000_u128).map(|n| (schedule(n), at(1))).collect();
    let begun = until("a part of the due index is built", async || {
        let keys: Vec<String> = server.run(redis::cmd("KEYS").arg("test:{3}:due:*")).await;
        (!keys.is_empty()).then_some(())
    });
    tokio::select! {
        built = queue.rebuild(SHARD, EPOCH, &entries) => panic!("too fast to be given up: {built:?}"),
        () = begun => {}
    }
    assert_eq!(
        queue.due(SHARD, EPOCH, (None, at(9)), 9).await.expect("asked"),
        IndexAnswer::Foreign
    );
    let keys: Vec<String> = server.run(redis::cmd("KEYS").arg("*")).await;
    assert!(!keys.is_empty());
    for key in keys {
        let left: i64 = server.run(redis::cmd("TTL").arg(&key)).await;
        assert!((0..=60).contains(&left), "{key} is kept for {left} s");
    }
}

#[tokio::test]
async fn over_tls_the_given_authority_is_trusted_and_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = Authority::new("of the test").server_files(&["127.0.0.1"], folder.path());
    let port = free_node_port();
    let (tls_port, text) = (port.to_string(), |path: &Path| path.display().to_string());
    let (certificate, key) = (text(&files.certificate), text(&files.key));
    let authority = text(&files.authority);
    let tls = [
        ["--tls-port", &tls_port],
        ["--tls-cert-file", &certificate],
        ["--tls-key-file", &key],
        ["--tls-ca-cert-file", &authority],
        ["--tls-auth-clients", "no"],
    ];
    let tls = tls.concat();
    let is_trusted = async |scheme: &str| {
        let url = format!("{scheme}://:{PASSWORD}@127.0.0.1:{port}");
        let trusting =
            RedisSettings::parse(&url, "test", None, Some(&files.authority)).expect("valid");
        let (queue, _tasks) = start(trusting);
        recovered(&queue).await;
        let (careful, _tasks) = queue_at(&url, "test");
        let refused = careful.push(&[ticket(1, 1, 1, 0)]).await.expect_err("unknown authority");
        assert!(format!("{refused:?}").contains("UnknownIssuer"), "{refused:?}");
    };
    let one = RedisServer::start(&tls).await;
    is_trusted("rediss").await;
    drop(one);
    // A cluster with this option announces the TLS ports of its nodes.
    let _cluster =
        RedisServer::start_cluster(&[&tls[..], &["--tls-cluster", "yes"]].concat()).await;
    is_trusted("rediss+cluster").await;
}

/// Not part of the suite: filling a queue takes too long to repeat it with faults.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_takes_the_few_tickets_of_others() {
    let (_server, queue, _tasks) = own().await;
    super::tickets::a_full_queue_takes_the_few_tickets_of_others(&queue).await;
}
