//! Monthly job counters: how they start and end.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;

use punctual::domain::job::Trigger;
use punctual::domain::{JobId, ScheduleId, Timestamp};
use punctual::store::{
    AttemptEnd, Firing, GrantedJobs, NewJob, RetryResult, TickJob, TriggerResult, WantedJobs,
};

use super::world::{World, every_job, failure, minute};
use crate::harness::wait::until;

/// Returns the counter at this time, or `None` if it does not exist.
async fn reserved(w: &World, now: Timestamp) -> Option<u64> {
    w.store.usage(w.account, now).await.expect("count").jobs_reserved
}

/// Fires `count` jobs of a schedule at once.
async fn make_jobs(w: &World, schedule: ScheduleId, count: u64) {
    let job = |n: u64| TickJob { id: JobId::new(minute(1), n.into()), trigger: Trigger::CatchUp };
    let jobs = (0..count).map(job).collect();
    let firing = Firing { jobs, ..w.firing(schedule).await };
    assert_eq!(w.fire(minute(2), &[firing]).await.advanced.len(), 1);
}

pub async fn many_jobs_are_counted_once_however_many_ask(w: &World) {
    let schedule = w.schedule().await;
    make_jobs(w, schedule, 1_100).await;
    w.manual_job(schedule, minute(120)).await;
    let counts = (0..6).map(|_| {
        let (store, accounts) = (w.store.clone(), [w.foreign, w.account]);
        w.spawn(async move { store.begin_months(minute(121), &accounts).await.expect("count") })
    });
    join_all(counts).await;
    assert_eq!(reserved(w, minute(121)).await, Some(1_101));
    let others = w.store.usage(w.foreign, minute(121)).await.expect("count");
    assert_eq!(others.jobs_reserved, Some(0));
}

pub async fn a_caller_that_does_not_wait_ends_no_count(w: &World) {
    let schedule = w.schedule().await;
    make_jobs(w, schedule, 1_100).await;
    let account = [w.account];
    assert!(w.steady.begin_months(minute(3), &account).now_or_never().is_none(), "it takes time");
    until("the jobs of the month are counted", async || {
        reserved(w, minute(3)).await.filter(|jobs| *jobs == 1_100)
    })
    .await;
}

pub async fn a_job_by_hand_comes_after_the_count(w: &World) {
    let schedule = w.schedule().await;
    let of = w.manual_job(schedule, minute(1)).await;
    w.run(minute(1), of, AttemptEnd::Failed(failure())).await;
    let new = |n| JobId::new(minute(2), n);
    let trigger = async || {
        let job = NewJob { id: new(1), schedule };
        w.steady.create_job(&w.write(minute(2)), &job, Some(9)).await.expect("create")
    };
    let retried = w.steady.retry_job(&w.write(minute(2)), of, new(2), Some(9)).await;
    assert_eq!(retried.expect("retry"), RetryResult::Uncounted);
    assert_eq!(trigger().await, TriggerResult::Uncounted);
    assert_eq!((reserved(w, minute(2)).await, w.listed(&every_job()).await.len()), (None, 1));
    w.store.begin_months(minute(2), &[w.account]).await.expect("count");
    assert!(trigger().await.ticket().is_some());
    assert_eq!(reserved(w, minute(2)).await, Some(2));
}

pub async fn another_plan_gives_nothing_back(w: &World) {
    let schedule = w.schedule().await;
    let job = w.manual_job(schedule, minute(1)).await;
    w.run(minute(1), job, AttemptEnd::Succeeded).await;
    let reserve = async |now| {
        w.store.begin_months(now, &[w.account]).await.expect("count");
        let wanted = WantedJobs { account: w.account, quota: 10, jobs: 5 };
        let granted = w.steady.await_jobs(now, 0, &wanted).await.expect("reserve");
        granted.map(|GrantedJobs { jobs, reserved, .. }| (jobs, reserved))
    };
    assert_eq!(reserve(minute(1)).await, Some((5, 6)));
    w.store.prune(minute(2), 9).await.expect("prune");
    for plan in ["large", "small", "large"] {
        w.store.set_plan(&w.write(minute(3)), plan).await.expect("set");
    }
    assert_eq!(reserved(w, minute(3)).await, None);
    assert_eq!(w.store.months(w.account).await.expect("read"), [], "nothing is counted yet");
    assert_eq!(reserve(minute(3)).await, Some((4, 10)), "six were reserved before");
}

pub async fn counters_of_old_months_go(w: &World) {
    let (long_ago, year_ago) = (minute(0), minute(0).plus(Duration::from_secs(31 * 86_400)));
    let now = minute(0).plus(Duration::from_secs(396 * 86_400));
    for at in [long_ago, year_ago] {
        w.store.begin_months(at, &[w.account, w.foreign]).await.expect("begin");
    }
    w.store.begin_months(now, &[w.account]).await.expect("begin");
    assert_eq!(reserved(w, long_ago).await, None);
    assert_eq!((reserved(w, year_ago).await, reserved(w, now).await), (Some(0), Some(0)));
    let others = w.store.usage(w.foreign, long_ago).await.expect("count");
    assert_eq!(others.jobs_reserved, Some(0), "each account's go with a new one of its own");
}
