//! The due index and its hints.

use super::world::*;

const HOUR: Duration = Duration::from_secs(3_600);

pub async fn an_index_gives_what_is_due_earliest_first(queue: &SharedQueue) {
    let entries = [(schedule(1), at(300)), (schedule(2), at(100)), (schedule(3), at(200))];
    queue.rebuild(SHARD, EPOCH, &entries).await.expect("rebuilt");
    assert_eq!(due(queue, 99, 9).await, DueTicks { schedules: vec![], next: Some(at(100)) });
    let both = vec![(schedule(2), at(100)), (schedule(3), at(200))];
    assert_eq!(due(queue, 200, 9).await, DueTicks { schedules: both, next: Some(at(300)) });
    let first = vec![(schedule(2), at(100))];
    assert_eq!(due(queue, 999, 1).await, DueTicks { schedules: first, next: Some(at(200)) });
}

pub async fn an_entry_moves_and_goes(queue: &SharedQueue) {
    let entries = [(schedule(1), at(100)), (schedule(2), at(150))];
    queue.rebuild(SHARD, EPOCH, &entries).await.expect("rebuilt");
    let moved = [(schedule(1), Some(at(500))), (schedule(2), None), (schedule(3), None)];
    assert_eq!(queue.set_due(SHARD, EPOCH, &moved).await.expect("set"), IndexAnswer::Own(()));
    assert_eq!(due(queue, 499, 9).await, DueTicks { schedules: vec![], next: Some(at(500)) });
    let left = vec![(schedule(1), at(500))];
    assert_eq!(due(queue, 500, 9).await, DueTicks { schedules: left, next: None });
}

pub async fn an_index_belongs_to_one_epoch_and_shard(queue: &SharedQueue) {
    let missing = queue.due(SHARD, EPOCH, (None, at(0)), 9).await.expect("the queue answers");
    assert_eq!(missing, IndexAnswer::Foreign, "no leader has built it");
    queue.rebuild(SHARD, EPOCH, &[(schedule(1), at(1))]).await.expect("rebuilt");
    let older = Epoch(EPOCH.0 - 1);
    let change = [(schedule(1), None)];
    assert_eq!(queue.set_due(SHARD, older, &change).await.expect("asked"), IndexAnswer::Foreign);
    let foreign = queue.due(SHARD, Epoch(EPOCH.0 + 1), (None, at(9)), 9).await.expect("asked");
    assert_eq!(foreign, IndexAnswer::Foreign);
    let elsewhere = queue.due(ShardId(4), EPOCH, (None, at(9)), 9).await.expect("asked");
    assert_eq!(elsewhere, IndexAnswer::Foreign);
    assert_eq!(due(queue, 9, 9).await.schedules.len(), 1, "the refused change had no effect");
}

pub async fn a_rebuild_replaces_everything(queue: &SharedQueue) {
    queue.rebuild(SHARD, EPOCH, &[(schedule(1), at(1))]).await.expect("rebuilt");
    queue.rebuild(SHARD, EPOCH, &[(schedule(2), at(2))]).await.expect("rebuilt");
    let only = vec![(schedule(2), at(2))];
    assert_eq!(due(queue, 9, 9).await, DueTicks { schedules: only, next: None });
}

pub async fn hints_are_taken_once_and_wake_the_leader(queue: &SharedQueue) {
    let woken = queue.due_hint();
    let changes = ShardChanges::of([schedule(1), schedule(2), schedule(1)]);
    queue.hint(SHARD, &changes).await.expect("hinted");
    tokio::time::timeout(Duration::from_secs(5), woken.notified()).await.expect("woken");
    let first = queue.take_hints(SHARD, 1).await.expect("taken");
    let rest = queue.take_hints(SHARD, 9).await.expect("taken");
    assert_eq!((first.schedules.len(), rest.schedules.len()), (1, 1));
    assert!(!first.all && !rest.all);
    let both: HashSet<_> = first.schedules.into_iter().chain(rest.schedules).collect();
    assert_eq!(both, HashSet::from([schedule(1), schedule(2)]));
    assert!(queue.take_hints(SHARD, 9).await.expect("taken").is_empty());
    assert!(queue.take_hints(ShardId(4), 9).await.expect("taken").is_empty());
}

pub async fn a_hint_of_all_stands_beside_the_others(queue: &SharedQueue) {
    queue.hint(SHARD, &ShardChanges::all()).await.expect("hinted");
    queue
        .hint(SHARD, &ShardChanges { schedules: vec![schedule(1)], all: true })
        .await
        .expect("hinted");
    queue.hint(ShardId(4), &ShardChanges::of([schedule(2)])).await.expect("hinted");
    let taken = queue.take_hints(SHARD, 9).await.expect("taken");
    assert_eq!(taken, ShardChanges { schedules: vec![schedule(1)], all: true });
    assert!(queue.take_hints(SHARD, 9).await.expect("taken").is_empty());
    let other = queue.take_hints(ShardId(4), 9).await.expect("taken");
    assert_eq!(other, ShardChanges::of([schedule(2)]));
}

pub async fn a_rebuild_of_a_lower_epoch_changes_nothing(queue: &SharedQueue) {
    queue.rebuild(SHARD, EPOCH, &[(schedule(1), at(1))]).await.expect("rebuilt");
    let older = Epoch(EPOCH.0 - 1);
    let late = queue.rebuild(SHARD, older, &[(schedule(2), at(2))]).await.expect("asked");
    assert_eq!(late, IndexAnswer::Foreign, "the leader of the higher epoch has the index");
    let only = vec![(schedule(1), at(1))];
    assert_eq!(due(queue, 9, 9).await, DueTicks { schedules: only, next: None });
    queue.rebuild(SHARD, Epoch(10), &[]).await.expect("rebuilt");
    assert_eq!(
        queue.due(SHARD, EPOCH, (None, at(9)), 9).await.expect("asked"),
        IndexAnswer::Foreign
    );
    let none = IndexAnswer::Own(DueTicks::default());
    assert_eq!(queue.due(SHARD, Epoch(10), (None, at(9)), 9).await.expect("asked"), none);
}

pub async fn an_index_is_adopted_as_it_is(queue: &SharedQueue) {
    let none = queue.adopt(SHARD, EPOCH).await.expect("asked");
    assert_eq!(none, IndexAnswer::Foreign, "there is nothing to adopt");
    queue.rebuild(SHARD, EPOCH, &[(schedule(1), at(1))]).await.expect("rebuilt");
    let older = queue.adopt(SHARD, Epoch(EPOCH.0 - 1)).await.expect("asked");
    assert_eq!(older, IndexAnswer::Foreign, "the leader of the higher epoch has the index");
    let newer = Epoch(EPOCH.0 + 3);
    assert_eq!(queue.adopt(SHARD, newer).await.expect("adopted"), IndexAnswer::Own(()));
    let old = queue.set_due(SHARD, EPOCH, &[(schedule(1), None)]).await.expect("asked");
    assert_eq!(old, IndexAnswer::Foreign, "the leader before has it no more");
    let only = DueTicks { schedules: vec![(schedule(1), at(1))], next: None };
    let kept = queue.due(SHARD, newer, (None, at(9)), 9).await.expect("asked");
    assert_eq!(kept, IndexAnswer::Own(only));
    let other = queue.adopt(ShardId(4), newer).await.expect("asked");
    assert_eq!(other, IndexAnswer::Foreign, "each shard has its own");
}

pub async fn thousands_of_entries_come_in_order(queue: &SharedQueue) {
    let made = |n: i64| Timestamp::from_millis(at(0).as_millis() + n * 1_000_000_000);
    let entries: Vec<_> = (0..2_300_i64)
        .map(|n| {
            let id = ScheduleId::new(made(n % 7), n.unsigned_abs().into());
            (OwnedSchedule { schedule: id, account: account(1) }, at(n * 7 % 100))
        })
        .collect();
    queue.rebuild(SHARD, EPOCH, &entries).await.expect("rebuilt");
    let moved: Vec<_> = entries.iter().map(|(id, tick)| (*id, Some(tick.plus(HOUR)))).collect();
    assert_eq!(
        queue.set_due(SHARD, EPOCH, &moved[..1_100]).await.expect("set"),
        IndexAnswer::Own(())
    );
    let mut expected = entries[1_100..].to_vec();
    expected.sort_by_key(|(id, tick)| (*tick, *id));
    let mut seen = Vec::new();
    loop {
        let some = due(queue, 100, 500).await.schedules;
        if some.is_empty() {
            break;
        }
        let fired: Vec<_> = some.iter().map(|(id, _)| (*id, None)).collect();
        queue.set_due(SHARD, EPOCH, &fired).await.expect("set");
        seen.extend(some);
    }
    assert_eq!(seen, expected);
    assert_eq!(due(queue, 100, 9).await.next, Some(at(0).plus(HOUR)));
}

pub async fn many_entries_of_one_instant_come_in_order(queue: &SharedQueue) {
    let ticks = [(10, 100), (2_500, 200), (70, 300), (1, 400), (64, 500)];
    let ticks = ticks.into_iter().flat_map(|(count, tick)| std::iter::repeat_n(at(tick), count));
    let entries: Vec<_> = ticks
        .enumerate()
        .map(|(n, tick)| {
            let schedule = ScheduleId::new(at(0), n as u128);
            (OwnedSchedule { schedule, account: account(1) }, tick)
        })
        .collect();
    queue.rebuild(SHARD, EPOCH, &entries).await.expect("rebuilt");
    for (after, passed) in [(None, 0), (Some(at(100)), 10), (Some(at(299)), 2_510)] {
        for limit in [1, 63, 64, 65, 75, 100, 2_100, 2_511, 2_581, 9_999] {
            let due = queue.due(SHARD, EPOCH, (after, at(400)), limit).await.expect("read");
            let end = (passed + limit).min(2_581);
            let expected = DueTicks {
                schedules: entries[passed..end].to_vec(),
                next: entries.get(end).map(|(_, tick)| *tick),
            };
            assert_eq!(due, IndexAnswer::Own(expected), "{limit} after {after:?}");
        }
    }
}
