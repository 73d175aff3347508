use punctual::domain::shard::{Epoch, ShardId};
use punctual::store::ReplicaLease;

use super::world::{SHARD, World, fenced, minute};

fn lease(name: &str, is_cut_off: bool, until: i64) -> ReplicaLease {
    let (name, until) = (name.to_owned(), minute(until));
    ReplicaLease { name, is_cut_off, without_cluster: false, without_queue: false, until }
}

pub async fn replicas_are_alive_as_long_as_they_say(w: &World) {
    let renew = async |name, is_cut_off, until, now| {
        let lease = lease(name, is_cut_off, until);
        w.store.renew_replica(&lease, minute(now)).await.expect("renewed");
    };
    let alive = async |now| w.store.leadership(minute(now)).await.expect("read").alive;
    renew("b", false, 3, 1).await;
    renew("a", false, 2, 1).await;
    assert_eq!(alive(2).await, [lease("a", false, 2), lease("b", false, 3)]);
    assert_eq!(alive(3).await, [lease("b", false, 3)]);
    renew("a", true, 9, 4).await;
    assert_eq!(alive(4).await, [lease("a", true, 9)], "it is alive again, and cut off");
    renew("c", false, 200, 120).await;
    assert_eq!(alive(3).await, [lease("c", false, 200)], "those that ended long ago are removed");
    w.store.end_replica("c").await.expect("ended");
    w.store.end_replica("c").await.expect("it has none");
    assert!(alive(3).await.is_empty());
}

pub async fn replicas_say_which_servers_they_work_without(w: &World) {
    for (without_cluster, without_queue) in [(true, false), (false, true), (false, false)] {
        let lease = ReplicaLease { without_cluster, without_queue, ..lease("a", false, 2) };
        w.store.renew_replica(&lease, minute(1)).await.expect("renewed");
        assert_eq!(w.store.leadership(minute(1)).await.expect("read").alive, [lease]);
    }
}

pub async fn a_leader_is_replaced_by_one_replica(w: &World) {
    let leader = async |shard: ShardId| {
        let leaders = w.store.leadership(minute(1)).await.expect("read").leaders;
        assert_eq!(leaders.len(), 4, "one for each shard");
        let leader = leaders[usize::from(shard.0)].clone();
        assert_eq!(leader.shard, shard);
        (leader.epoch, leader.replica)
    };
    let replace = async |shard, seen, replica| {
        w.store.replace_leader(shard, seen, replica, minute(1)).await.expect("answered")
    };
    let first = w.fence.epoch;
    assert_eq!(leader(SHARD).await, (first, "replica".to_owned()));
    let id = w.schedule().await;
    let firing = w.firing(id).await;
    let next = Epoch(first.0 + 1);
    assert_eq!(replace(SHARD, Epoch(first.0 - 1), "late").await, None, "it has been raised since");
    assert_eq!(replace(SHARD, first, "quick").await, Some(next));
    assert_eq!(replace(SHARD, first, "slow").await, None);
    assert_eq!(replace(SHARD, first, "quick").await, Some(next), "the answer was lost");
    assert_eq!(leader(SHARD).await, (next, "quick".to_owned()));
    let fired = w.store.fire(&[w.fence], minute(1), &[firing]).await.expect("answered");
    assert_eq!(fired, fenced(), "the leader before changes nothing more");
    let by_right = w.store.raise_epoch(SHARD, "named", minute(1)).await.expect("raised");
    assert!(by_right > next);
    assert_eq!(replace(SHARD, first, "quick").await, None, "it has been replaced itself");
    assert_eq!(replace(SHARD, next, "quick").await, None);
}

pub async fn a_shard_without_a_leader_is_taken_by_one_replica(w: &World) {
    let shard = ShardId((SHARD.0 + 1) % 4);
    let leaders = w.store.leadership(minute(1)).await.expect("read").leaders;
    let leader = &leaders[usize::from(shard.0)];
    assert_eq!((leader.epoch, leader.replica.as_str()), (Epoch(0), ""));
    let replace = async |replica, seen| {
        w.store.replace_leader(shard, Epoch(seen), replica, minute(1)).await.expect("answered")
    };
    assert_eq!(replace("far", 1).await, None, "no leader has had that epoch");
    assert_eq!(replace("one", 0).await, Some(Epoch(1)));
    assert_eq!(replace("other", 0).await, None);
    assert_eq!(replace("one", 0).await, Some(Epoch(1)), "the answer was lost");
}
