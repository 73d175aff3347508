use punctual::domain::schedule::SkipReason;
use punctual::store::{Change, End, Firing, TickRange, Upkeep};

use super::world::{World, definition, every_job, failure, minute, soon};

/// Gives a schedule a new version.
async fn renew_version(w: &World, id: punctual::domain::ScheduleId, at: i64) {
    let change = Change { version: Some(w.new_version(definition())), ..w.change(id).await };
    w.store.change_schedule(&w.write(minute(at)), id, &change).await.expect("change");
}

pub async fn old_jobs_skips_and_versions_go(w: &World) {
    let id = w.schedule().await;
    let firing = w.firing(id).await;
    let range = TickRange { first: minute(1), last: minute(1), count: 1 };
    let skips = vec![(range, SkipReason::Quota)];
    w.fire(soon(minute(1)), &[Firing { skips, jobs: vec![], ..firing }]).await;
    let old = w.manual_job(id, minute(2)).await;
    w.run(minute(2), old, End::Retry(failure(), minute(3))).await;
    w.run(minute(3), old, End::Failed(failure())).await;
    renew_version(w, id, 4).await;
    let young = w.manual_job(id, minute(5)).await;
    w.run(minute(5), young, End::Succeeded).await;

    let nothing = w.store.prune(minute(1), 100).await.expect("prune");
    assert_eq!(nothing, Upkeep::default());
    let pruned = w.store.prune(minute(5), 100).await.expect("prune");
    assert_eq!(pruned, Upkeep { jobs: 1, skips: 1, versions: 1 });
    assert_eq!(w.store.job(w.account, old).await.expect("read"), None);
    assert_eq!(w.listed(&every_job()).await, [young]);
    assert!(w.skips(id).await.is_empty());
    assert_eq!(w.store.prune(minute(5), 100).await.expect("prune"), Upkeep::default());
    assert_eq!(w.read(id).await.definition, definition());
    let read = w.read(id).await;
    assert_eq!(read.last_run_at, Some(minute(5)));
}

pub async fn unfinished_jobs_and_used_versions_stay(w: &World) {
    let id = w.schedule().await;
    let waiting = w.manual_job(id, minute(1)).await;
    let running = w.manual_job(id, minute(1)).await;
    w.claim(minute(1), &[running]).await;
    let slow = w.manual_job(id, minute(1)).await;
    w.run(minute(8), slow, End::Succeeded).await;
    renew_version(w, id, 2).await;
    let pruned = w.store.prune(minute(5), 100).await.expect("prune");
    assert_eq!(pruned, Upkeep::default(), "one has ended, but only after that");
    w.store.delete_schedule(&w.write(minute(9)), id).await.expect("delete");
    let pruned = w.store.prune(minute(10), 100).await.expect("prune");
    assert_eq!(pruned, Upkeep { jobs: 2, skips: 0, versions: 1 }, "the second has no jobs");
    assert_eq!(w.listed(&every_job()).await, [running]);
    assert_eq!(w.job(running).await.endpoint, "https://example.com/hook");
    assert_eq!(w.store.job(w.account, waiting).await.expect("read"), None);
}

pub async fn a_round_is_bounded(w: &World) {
    let id = w.schedule().await;
    for at in 1..=5 {
        let job = w.manual_job(id, minute(at)).await;
        w.run(minute(at), job, End::Succeeded).await;
    }
    let mut rounds = Vec::new();
    for _ in 0..4 {
        // A call that is repeated is another round.
        rounds.push(w.steady.prune(minute(9), 2).await.expect("prune").jobs);
    }
    assert_eq!(rounds, [2, 2, 1, 0]);
}
