use punctual::domain::schedule::{Skip, SkipReason};
use punctual::scheduler::{PassedOver, pass_over_due};

use super::world::{SHARD, World, every_job, fenced, minute, soon};

/// Passes over the ticks that are due at an instant.
async fn pass_over(w: &World, at: i64) -> PassedOver {
    pass_over_due(&*w.steady, SHARD, soon(minute(at))).await.expect("passed over")
}

pub async fn due_ticks_are_skipped_and_recorded(w: &World) {
    let due = [w.schedule().await, w.schedule().await];
    let later = w.schedule_with(|new| new.next_tick = Some(minute(11))).await;
    let off = w
        .schedule_with(|new| {
            new.is_enabled = false;
            new.next_tick = None;
        })
        .await;
    let old = w.firing(due[0]).await;
    let passed = pass_over(w, 10).await;
    assert_eq!(passed, PassedOver { schedules: 2, ticks: 20, left: 0 });
    let reason = SkipReason::Restored.as_str().to_owned();
    let skip = Skip { first: minute(1), last: minute(10), count: 10, reason };
    for id in due {
        assert_eq!(w.read(id).await.next_tick, Some(minute(11)));
        assert_eq!(w.skips(id).await, std::slice::from_ref(&skip));
    }
    for (id, next) in [(later, Some(minute(11))), (off, None)] {
        assert_eq!(w.read(id).await.next_tick, next);
        assert!(w.skips(id).await.is_empty());
    }
    assert!(w.listed(&every_job()).await.is_empty());
    assert_eq!(pass_over(w, 10).await, PassedOver::default(), "a second time nothing is due");
    let fired = w.store.fire(&[w.fence], soon(minute(10)), &[old]).await.expect("answered");
    assert_eq!(fired, fenced(), "the leader from before the backup is fenced");
}

pub async fn corrupt_rows_are_left_and_reported(w: &World) {
    let id = w.schedule_with(|new| new.version.definition.timezone = "Mars/Olympus".into()).await;
    let fine = w.schedule().await;
    let passed = pass_over(w, 3).await;
    assert_eq!(passed, PassedOver { schedules: 1, ticks: 3, left: 1 });
    assert_eq!(w.read(fine).await.next_tick, Some(minute(4)));
    assert_eq!(w.read(id).await.next_tick, Some(minute(1)));
    assert!(w.skips(id).await.is_empty());
}
