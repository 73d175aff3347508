use punctual::domain::JobId;
use punctual::domain::schedule::SkipReason;
use punctual::store::{AttemptEnd, Firing, NewJob, NewKey, PrunedRows, ScheduleState, TickRange};

use super::accounts::new_key;
use super::signing::new_secret;
use super::world::{World, definition, every_job, failure, minute, soon};

/// Gives a schedule a new version.
async fn renew_version(w: &World, id: punctual::domain::ScheduleId, at: i64) {
    let change = ScheduleState { version: Some(w.new_version(definition())), ..w.change(id).await };
    w.store.change_schedule(&w.write(minute(at)), id, &change).await.expect("change");
}

pub async fn old_jobs_skips_and_versions_go(w: &World) {
    let id = w.schedule().await;
    let firing = w.firing(id).await;
    let range = TickRange { first: minute(1), last: minute(1), count: 1 };
    let skips = vec![(range, SkipReason::Quota)];
    w.fire(soon(minute(1)), &[Firing { skips, jobs: vec![], ..firing }]).await;
    let old = w.manual_job(id, minute(2)).await;
    w.run(minute(2), old, AttemptEnd::Retry(failure(), minute(3))).await;
    w.run(minute(3), old, AttemptEnd::Failed(failure())).await;
    renew_version(w, id, 4).await;
    let young = w.manual_job(id, minute(5)).await;
    w.run(minute(5), young, AttemptEnd::Succeeded).await;

    let nothing = w.store.prune(minute(1), 100).await.expect("prune");
    assert_eq!(nothing, PrunedRows::default());
    let pruned = w.store.prune(minute(5), 100).await.expect("prune");
    assert_eq!(pruned, PrunedRows { days: 0, jobs: 1, skips: 1, versions: 1 });
    assert_eq!(w.store.job(w.account, old).await.expect("read"), None);
    assert_eq!(w.listed(&every_job()).await, [young]);
    assert!(w.skips(id).await.is_empty());
    assert_eq!(w.store.prune(minute(5), 100).await.expect("prune"), PrunedRows::default());
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
    w.run(minute(8), slow, AttemptEnd::Succeeded).await;
    renew_version(w, id, 2).await;
    let pruned = w.store.prune(minute(5), 100).await.expect("prune");
    assert_eq!(pruned, PrunedRows::default(), "one has ended, but only after that");
    w.store.delete_schedule(&w.write(minute(9)), id).await.expect("delete");
    let pruned = w.store.prune(minute(10), 100).await.expect("prune");
    assert_eq!(
        pruned,
        PrunedRows { days: 0, jobs: 2, skips: 0, versions: 1 },
        "the second has no jobs"
    );
    assert_eq!(w.listed(&every_job()).await, [running]);
    assert_eq!(w.job(running).await.endpoint, "https://example.com/hook");
    assert_eq!(w.store.job(w.account, waiting).await.expect("read"), None);
}

pub async fn a_round_is_bounded(w: &World) {
    let id = w.schedule().await;
    for at in 1..=5 {
        let job = w.manual_job(id, minute(at)).await;
        w.run(minute(at), job, AttemptEnd::Succeeded).await;
    }
    let mut rounds = Vec::new();
    for _ in 0..4 {
        // A repeated call would prune another batch.
        rounds.push(w.steady.prune(minute(9), 2).await.expect("prune").jobs);
    }
    assert_eq!(rounds, [2, 2, 1, 0]);
}

pub async fn a_shorter_history_goes_row_by_row(w: &World) {
    let id = w.schedule().await;
    let firing = w.firing(id).await;
    let range = TickRange { first: minute(1), last: minute(1), count: 1 };
    let skips = vec![(range, SkipReason::Quota)];
    w.fire(soon(minute(1)), &[Firing { skips, jobs: vec![], ..firing }]).await;
    let mut jobs = Vec::new();
    for at in 2..=5 {
        jobs.push(w.manual_job(id, minute(at)).await);
        w.run(minute(at), jobs[jobs.len() - 1], AttemptEnd::Succeeded).await;
    }
    let waiting = w.manual_job(id, minute(2)).await;
    let other = w.new_schedule();
    let theirs = JobId::new(minute(2), 9);
    let job = NewJob { id: theirs, schedule: other.id };
    w.store
        .create_schedules(&w.write_for(w.foreign, minute(1)), &[other], None)
        .await
        .expect("create");
    w.store.create_job(&w.write_for(w.foreign, minute(2)), &job, None).await.expect("create");
    w.run(minute(2), theirs, AttemptEnd::Succeeded).await;

    let due =
        async |before| w.store.short_histories("unlimited", minute(before), 9).await.expect("read");
    assert_eq!(due(9).await, [w.account, w.foreign], "neither has ever been pruned by itself");
    assert!(w.store.short_histories("other", minute(9), 9).await.expect("read").is_empty());
    let mut rounds = Vec::new();
    for _ in 0..3 {
        // A repeated call would prune another batch.
        rounds
            .push(w.steady.prune_account(w.account, minute(5), minute(9), 3).await.expect("prune"));
    }
    assert_eq!(due(9).await, [w.foreign]);
    assert_eq!(due(10).await, [w.foreign, w.account], "the longest ago first");
    // Three jobs, and the log entries of the account, the schedule and four jobs.
    assert_eq!(rounds, [3, 3, 0]);
    assert_eq!(w.listed(&every_job()).await, [jobs[3], waiting]);
    assert!(w.skips(id).await.is_empty());
    assert!(w.store.job(w.foreign, theirs).await.expect("read").is_some());
    assert_eq!(w.store.prune_account(w.account, minute(5), minute(9), 3).await.expect("prune"), 0);
}

pub async fn keys_that_are_over_go(w: &World) {
    let expiring = NewKey { expires_at: Some(minute(5)), ..new_key(1) };
    for key in [expiring, new_key(2), new_key(3), new_key(4)] {
        w.store.create_key(&w.write(minute(0)), &key).await.expect("create");
    }
    for (key, at) in [(2, 2), (3, 7)] {
        assert!(w.store.revoke_key(&w.write(minute(at)), new_key(key).id).await.expect("revoke"));
    }
    let prune = async |at| w.steady.prune_keys(minute(at), 1).await.expect("prune");
    assert_eq!([prune(6).await, prune(6).await, prune(6).await], [1, 1, 0]);
    let left: Vec<_> = w.store.keys(w.account).await.expect("list").iter().map(|k| k.id).collect();
    assert_eq!(left, [new_key(4).id, new_key(3).id]);
}

pub async fn signing_secrets_that_are_over_go(w: &World) {
    for (account, old_expires_at) in [(w.account, minute(5)), (w.foreign, minute(7))] {
        let write = w.write_for(account, minute(2));
        let id = if account == w.account { 2 } else { 3 };
        let rotated = w.store.rotate_signing_secret(&write, &new_secret(id, old_expires_at)).await;
        assert!(rotated.expect("rotate"));
    }
    let prune = async |at| w.steady.prune_signing_secrets(minute(at), 1).await.expect("prune");
    let left = async || {
        let mut left = [0; 2];
        for (left, account) in left.iter_mut().zip([w.account, w.foreign]) {
            *left = w.store.signing_secrets(account).await.expect("list").len();
        }
        left
    };
    assert_eq!([prune(5).await, prune(6).await, prune(6).await], [0, 1, 0]);
    assert_eq!(left().await, [1, 2]);
    assert_eq!([prune(9).await, prune(9).await], [1, 0]);
    assert_eq!(left().await, [1, 1], "the signing secret has no end");
}
