//! Dropped calls: a caller can stop at any await, as when an HTTP client disconnects or a task is
//! stopped.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use punctual::domain::JobId;
use punctual::domain::Timestamp;
use punctual::domain::job::Trigger;
use punctual::store::{NewSchedule, TickJob};

use crate::harness::wait::within;

use super::world::{World, every_job, every_schedule, minute, soon};

/// Polls a future `polls` times, yielding in between, and then drops it. Returns `true` if it had
/// ended.
async fn abandon(polls: usize, future: impl Future) -> bool {
    let mut future = pin!(future);
    for _ in 0..polls {
        if futures_util::poll!(future.as_mut()).is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

pub async fn a_creation_is_whole_or_absent(w: &World) {
    let mut acknowledged = 0;
    for polls in 0..60 {
        let pair: [NewSchedule; 2] = [w.new_schedule(), w.new_schedule()];
        let write = w.write(minute(1));
        let ended = abandon(polls, w.store.create_schedules(&write, &pair, None)).await;
        acknowledged += u32::from(ended);
        w.store.ping().await.expect("the store can be used");
        // The abandoned write may still be running. One snapshot of the store shows both schedules
        // or none.
        let page = w.store.schedules(w.account, &every_schedule()).await.expect("list");
        let [first, second] =
            pair.map(|new| page.schedules.iter().any(|schedule| schedule.id == new.id));
        assert_eq!(first, second, "after {polls} polls");
        assert!(first || !ended, "the acknowledged write exists");
    }
    let whole = w.store.usage(w.account, minute(1)).await.expect("count").schedules;
    assert!(whole >= u64::from(acknowledged) * 2);
}

pub async fn a_firing_is_whole_or_absent(w: &World) {
    let id = w.schedule().await;
    for polls in 0..40 {
        let firing = w.firing(id).await;
        let tick = firing.tick;
        abandon(polls, w.store.fire(&[w.fence], soon(tick), std::slice::from_ref(&firing))).await;
        w.store.ping().await.expect("the store can be used");
        // The abandoned write may still be running and end between two reads.
        let moved = w.read(id).await.next_tick != Some(tick);
        let job = w.store.job(w.account, JobId::of_tick(id, tick)).await.expect("read");
        let moved_since = w.read(id).await.next_tick != Some(tick);
        assert!(!moved || job.is_some(), "after {polls} polls");
        assert!(job.is_none() || moved_since, "after {polls} polls");
        if !moved {
            w.fire(soon(tick), &[firing]).await;
        }
    }
    let jobs = w.store.jobs_made(w.account, minute(99)).await.expect("count");
    assert_eq!(jobs, 40);
}

pub async fn reads_can_be_dropped(w: &World) {
    let id = w.schedule().await;
    let firing = w.firing(id).await;
    let jobs = (0..500)
        .map(|number| {
            let tick = Timestamp::from_millis(minute(1).as_millis() + number);
            TickJob { id: JobId::of_tick(id, tick), trigger: Trigger::CatchUp }
        })
        .collect();
    w.fire(minute(2), &[punctual::store::Firing { jobs, ..firing }]).await;
    for polls in 0..60 {
        abandon(polls, w.store.jobs(w.account, &every_job())).await;
        abandon(polls, w.store.schedules(w.account, &every_schedule())).await;
        abandon(polls, w.store.job(w.account, JobId::of_tick(id, minute(1)))).await;
        abandon(polls, w.store.late(minute(9), None, 500)).await;
    }
    // The database may still answer the dropped reads, and they hold all connections meanwhile.
    let list = async || w.store.jobs(w.account, &every_job()).await.ok();
    let page = within(Duration::from_secs(60), "a read gets a free connection", list).await;
    assert_eq!(page.jobs.len(), 100);
    // No connection may be left with an old snapshot.
    let job = w.manual_job(id, minute(3)).await;
    for _ in 0..8 {
        assert_eq!(w.listed(&every_job()).await[0], job);
    }
}
