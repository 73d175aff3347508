//! Watches on unfinished jobs: one reader for all watches of a job, and its end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use punctual::domain::JobId;
use punctual::domain::plan::Plans;
use punctual::outbound::{self, OutboundSettings};
use punctual::queue::memory::MemoryQueue;
use punctual::runtime::{Clock, Random, Tasks};
use punctual::schedules::{JobWatch, JobWatches, ScheduleParts, Schedules, WatchedJob};
use punctual::store::{AttemptEnd, ScheduleState};
use tokio::time::timeout;

use crate::conformance::store::sqlite;
use crate::conformance::store::world::{World, minute};
use crate::harness::wait::TIMEOUT;

/// A job in a store, and the service that watches it.
pub struct Watched {
    w: World,
    pub clock: Clock,
    tasks: Tasks,
    pub schedules: Schedules,
    job: JobId,
}

impl Watched {
    pub async fn new() -> Self {
        let w = World::new(sqlite::open().await).await;
        let id = w.schedule().await;
        let job = w.manual_job(id, minute(1)).await;
        let (clock, tasks) = (Clock::manual(minute(2)), Tasks::new());
        let outbound = outbound::Client::new(OutboundSettings::default(), clock.clone(), &tasks);
        let schedules = Schedules::new(ScheduleParts {
            store: w.store.clone(),
            queue: Arc::new(MemoryQueue::new()),
            outbound: outbound.expect("a client"),
            clock: clock.clone(),
            random: Random::seeded(7),
            tasks: tasks.clone(),
            shards: 1,
            plans: Arc::new(Plans::new([])),
            handover: None,
        });
        Self { w, clock, tasks, schedules, job }
    }

    async fn shown(&self) -> Arc<WatchedJob> {
        let shown = self.schedules.shown_job(self.w.account, self.job).await;
        Arc::new(shown.expect("read"))
    }

    /// Moves the clock until a watch has an answer.
    async fn next(&self, watch: &mut JobWatch) -> Option<Arc<WatchedJob>> {
        let mut next = pin!(watch.next());
        let moved = async {
            loop {
                match timeout(Duration::from_millis(5), next.as_mut()).await {
                    Ok(read) => return read,
                    Err(_) => self.clock.advance(Duration::from_secs(1)),
                }
            }
        };
        timeout(TIMEOUT, moved).await.expect("an answer in time")
    }
}

#[tokio::test]
async fn all_watches_of_a_job_share_its_reader_to_the_end() {
    let watched = Watched::new().await;
    let (w, shown) = (&watched.w, watched.shown().await);
    let watches = JobWatches::new(watched.schedules.clone(), 2, 2);
    let mut one = watches.watch(w.account, &shown).expect("a permit");
    let mut other = watches.watch(w.account, &shown).expect("a permit");
    assert!(watches.watch(w.account, &shown).is_none(), "two at most");
    let unchanged = watched.next(&mut one).await.expect("read");
    assert!(Arc::ptr_eq(&unchanged, &shown), "the same object while nothing changes");

    let schedule = shown.job.schedule_id;
    let change = ScheduleState { name: "renamed".into(), ..w.change(schedule).await };
    w.store.change_schedule(&w.write(minute(2)), schedule, &change).await.expect("changed");
    let mut renamed = watched.next(&mut one).await.expect("read");
    while renamed.schedule.as_deref() != Some("renamed") {
        renamed = watched.next(&mut one).await.expect("read");
    }
    let seen = watched.next(&mut other).await.expect("read");
    assert!(Arc::ptr_eq(&seen, &renamed), "read once for both");

    w.run(minute(2), watched.job, AttemptEnd::Succeeded).await;
    let mut last = watched.next(&mut one).await.expect("read");
    while !last.job.status.is_final() {
        last = watched.next(&mut one).await.expect("read");
    }
    assert!(watched.next(&mut one).await.is_none(), "a final job is read no more");
}

#[tokio::test]
async fn an_account_has_a_limited_number_of_watches() {
    let watched = Watched::new().await;
    let (w, shown) = (&watched.w, watched.shown().await);
    let watches = JobWatches::new(watched.schedules.clone(), 3, 1);
    let one = watches.watch(w.account, &shown).expect("a permit");
    assert!(watches.watch(w.account, &shown).is_none(), "one at most");
    let _foreign = watches.watch(w.foreign, &shown).expect("a permit of another account");
    drop(one);
    assert!(watches.watch(w.account, &shown).is_some(), "the permit is free again");
}

/// A runtime that has shut down drops a new task before the call that spawns it returns.
#[test]
fn a_watch_of_a_runtime_that_has_shut_down_ends() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (watched, shown) = runtime.block_on(async {
        let watched = Watched::new().await;
        let shown = watched.shown().await;
        (watched, shown)
    });
    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    let (done, wait) = std::sync::mpsc::channel();
    let watch = move || {
        let _entered = handle.enter();
        let watches = JobWatches::new(watched.schedules.clone(), 1, 1);
        let watch = watches.watch(watched.w.account, &shown);
        done.send(watch.is_some()).expect("the test waits");
    };
    let thread = std::thread::Builder::new().spawn(watch).expect("a thread");
    assert!(wait.recv_timeout(TIMEOUT).expect("no deadlock"));
    thread.join().expect("ended");
}

#[tokio::test]
async fn a_job_without_watches_is_given_up_and_a_stop_ends_watches() {
    let watched = Watched::new().await;
    let shown = watched.shown().await;
    let watches = JobWatches::new(watched.schedules.clone(), 1, 1);
    drop(watches.watch(watched.w.account, &shown).expect("a permit"));
    let mut again = watches.watch(watched.w.account, &shown).expect("the permit is free again");
    assert!(watched.next(&mut again).await.is_some());
    watched.tasks.begin_stop();
    while watched.next(&mut again).await.is_some() {}
    assert!(watched.tasks.finish(TIMEOUT).await, "all ended by themselves");
}
