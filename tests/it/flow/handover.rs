//! Triggered jobs in a process with an executor.

use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual::domain::audit::Author;
use punctual::domain::plan::Plans;
use punctual::domain::request_body::object;
use punctual::domain::ticket::Ticket;
use punctual::domain::{AccountId, ScheduleId};
use punctual::executor::{self, Executor};
use punctual::local_executor::LocalHandover;
use punctual::schedules::Schedules;
use serde_json::json;

use super::core::Core;
use crate::harness::wait::{live_for, until};

/// Settings with one slot, so that an executor is soon full.
fn narrow() -> executor::ExecutorSettings {
    executor::ExecutorSettings { slots: 1, ..executor::ExecutorSettings::default() }
}

/// Creates a schedule whose requests hang until the target releases them.
async fn schedule(core: &Core, schedules: &Schedules) -> (AccountId, ScheduleId) {
    let account = core.accounts().create(Author::SERVICE, "acme", "unlimited").await;
    let account = account.expect("an account").id;
    let fields = json!({
        "name": "slow", "cronExpression": "0 0 1 1 *", "timezone": "UTC",
        "endpoint": core.target.url("/hang"), "httpMethod": "GET", "maxRetries": 1,
    });
    let request = object(fields.to_string().as_bytes());
    let made = schedules.create(account, Author::SERVICE.into(), request.expect("an object")).await;
    (account, made.expect("a schedule").id)
}

async fn until_so_many_run(core: &Core, count: usize) {
    until(&format!("{count} attempts are sent"), async || {
        (core.target.count() == count).then_some(())
    })
    .await;
}

async fn stop(core: &Core, executor: &Executor) {
    core.tasks.begin_stop();
    assert!(executor.stop(Duration::from_secs(10)).await, "nothing is aborted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_start_while_the_queue_is_away() {
    let core = Core::start(Plans::default()).await;
    core.queue.is_away.store(true, Ordering::Relaxed);
    let executor = core.executor(executor::ExecutorSettings::default());
    let schedules = core.schedules(Some(&executor));
    let (account, id) = schedule(&core, &schedules).await;
    for count in 1..=3 {
        schedules.trigger(account, Author::SERVICE.into(), id).await.expect("a job");
        until_so_many_run(&core, count).await;
    }
    core.target.release();
    stop(&core, &executor).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_without_a_free_slot_wait_in_the_queue() {
    let core = Core::start(Plans::default()).await;
    let executor = core.executor(narrow());
    let schedules = core.schedules(Some(&executor));
    let (account, id) = schedule(&core, &schedules).await;
    let trigger = async || schedules.trigger(account, Author::SERVICE.into(), id).await;
    trigger().await.expect("a job");
    until_so_many_run(&core, 1).await;
    assert_eq!(core.queue.pushed.load(Ordering::Relaxed), 0, "the first one needs no ticket");
    trigger().await.expect("a job");
    trigger().await.expect("a job");
    let pushed = &core.queue.pushed;
    until("two tickets are pushed", async || (pushed.load(Ordering::Relaxed) == 2).then_some(()))
        .await;
    assert_eq!(core.target.count(), 1);
    core.target.release();
    until_so_many_run(&core, 3).await;
    stop(&core, &executor).await;
}

/// Two claims are blocked when the third job arrives, and then the stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_that_a_stop_meets_are_started_or_queued() {
    let core = Core::start(Plans::default()).await;
    let executor = core.executor(executor::ExecutorSettings::default());
    let (account, id) = schedule(&core, &core.schedules(None)).await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(core.job(account, id).await);
    }
    let held = core.hold_writes().await;
    for job in &jobs {
        assert_eq!(executor.starter().accept(&[*job]), [], "it is taken");
        live_for(Duration::from_millis(5)).await;
    }
    core.tasks.begin_stop();
    drop(held);
    core.target.release();
    assert!(executor.stop(Duration::from_secs(10)).await, "nothing is aborted");
    let queued = core.queue.left().await;
    for Ticket { job, .. } in jobs {
        let is_started = !core.target.hits_of(&job.to_string()).is_empty();
        assert!(is_started || queued.contains(&job), "{job} is lost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn none_starts_and_none_is_lost_after_a_stop() {
    let core = Core::start(Plans::default()).await;
    let executor = core.executor(executor::ExecutorSettings::default());
    let schedules = core.schedules(Some(&executor));
    let (account, id) = schedule(&core, &schedules).await;
    stop(&core, &executor).await;
    schedules.trigger(account, Author::SERVICE.into(), id).await.expect("a job");
    assert_eq!(core.queue.pushed.load(Ordering::Relaxed), 1, "another executor finds it");
    assert_eq!(core.target.count(), 0);
}
