//! More accounts at the limit of their plan than a take can name to the queue.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use punctual::accounts::Accounts;
use punctual::domain::audit::Author;
use punctual::domain::plan::{Plan, Plans};
use punctual::domain::request_body::object;
use punctual::executor;
use punctual::schedules::Schedules;
use serde_json::json;

use super::core::Core;
use crate::harness::recorder::Recorder;
use crate::harness::wait::{live_for, until};

/// More accounts than a take can name to the queue.
const ACCOUNTS: usize = 300;
/// The time for which nothing may start.
const WHILE: Duration = Duration::from_secs(1);

/// Creates an account with a schedule and two jobs, for each of the accounts.
async fn make_jobs(accounts: &Accounts, schedules: &Schedules, target: &Recorder) {
    let fields = json!({
        "name": "slow", "cronExpression": "0 0 1 1 *", "timezone": "UTC", "endpoint": target.url("/hang"),
        "httpMethod": "GET", "maxRetries": 1,
    });
    for number in 0..ACCOUNTS {
        let account = accounts.create(Author::SERVICE, &format!("account-{number}"), "one").await;
        let account = account.expect("an account").id;
        let request = object(fields.to_string().as_bytes());
        let call = || Author::SERVICE.into();
        let made = schedules.create(account, call(), request.expect("an object")).await;
        let schedule = made.expect("a schedule").id;
        for _ in 0..2 {
            schedules.trigger(account, call(), schedule).await.expect("a job");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tickets_that_cannot_start_are_seldom_taken_and_start_later() {
    let plan = Plan { concurrent_attempts: Some(1), ..Plan::unlimited("one") };
    let core = Core::start(Plans::new([plan])).await;
    let Core { queue, target, tasks, .. } = &core;
    make_jobs(&core.accounts(), &core.schedules(None), target).await;

    let settings = executor::ExecutorSettings {
        per_host: 2 * ACCOUNTS,
        ..executor::ExecutorSettings::default()
    };
    let executor = core.executor(settings);
    until("one attempt of each account is sent", async || {
        (target.count() == ACCOUNTS).then_some(())
    })
    .await;
    // The measured time begins before the first count and ends after the second one.
    let (began, before) = (Instant::now(), queue.taken.load(Ordering::Relaxed));
    live_for(WHILE).await;
    let taken = queue.taken.load(Ordering::Relaxed) - before;
    let most = began.elapsed().as_millis() / 50 + 2;
    assert!(taken as u128 <= most, "{taken} times in {:?}", began.elapsed());
    assert_eq!(target.count(), ACCOUNTS, "one at a time");
    target.release();
    until("two attempts of each account are sent", async || {
        (target.count() == 2 * ACCOUNTS).then_some(())
    })
    .await;
    tasks.begin_stop();
    assert!(executor.stop(Duration::from_secs(10)).await);
}
