//! The forecast of an account's load, on a store with schedules.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use punctual::domain::schedule::Definition;
use punctual::runtime::{Clock, Tasks};
use punctual::schedules::Forecasts;
use tokio::join;

use crate::conformance::store::sqlite;
use crate::conformance::store::world::{World, definition, minute};
use crate::harness::wait::TIMEOUT;

#[tokio::test]
async fn calls_within_a_minute_share_a_forecast() {
    let w = World::new(sqlite::open().await).await;
    let hourly = Definition { cron_expression: "30 * * * *".into(), ..definition() };
    let version = w.new_version(hourly);
    w.schedule_with(|new| new.version = version).await;
    let clock = Clock::manual(minute(5));
    let forecasts = Forecasts::new(w.store.clone(), clock.clone(), Tasks::new());
    let of = async |account| forecasts.of(account).await.expect("computed").expect("in time");
    let (one, other) = join!(of(w.account), of(w.account));
    assert!(Arc::ptr_eq(&one, &other), "computed once");
    assert_eq!((one.start, one.limited_to), (minute(5), None));
    assert_eq!(one.peak(), Some((minute(30), 1)));
    assert_eq!(one.runs.iter().sum::<u64>(), 24);

    // The forecast of the next minute counts the schedules of that minute.
    w.schedule().await;
    clock.advance(Duration::from_secs(59));
    assert!(Arc::ptr_eq(&one, &of(w.account).await));
    clock.advance(Duration::from_secs(1));
    let next = of(w.account).await;
    assert_eq!((next.start, next.runs.iter().sum::<u64>()), (minute(6), 24 + 1_440));
    let foreign = of(w.foreign).await;
    assert_eq!(foreign.peak(), None);
}

#[tokio::test]
async fn a_forecast_that_takes_long_is_computed_without_a_caller() {
    let w = World::new(sqlite::open().await).await;
    w.schedule().await;
    let (clock, tasks) = (Clock::manual(minute(5)), Tasks::new());
    let forecasts = Forecasts::new(w.store.clone(), clock.clone(), tasks.clone());
    let begin = || pin!(forecasts.of(w.account)).now_or_never();
    assert!(begin().is_none(), "a caller that gives up at once");
    assert!(tasks.finish(TIMEOUT).await, "computed");
    w.schedule().await;
    let kept = begin().expect("in memory").expect("no error").expect("in time");
    assert_eq!(kept.runs.iter().sum::<u64>(), 1_440);
}

#[tokio::test]
async fn a_caller_waits_for_50_ms_at_most() {
    let w = World::new(sqlite::open().await).await;
    w.schedule().await;
    let (clock, tasks) = (Clock::manual(minute(5)), Tasks::new());
    let forecasts = Forecasts::new(w.store.clone(), clock.clone(), tasks.clone());
    // No other task runs between these lines, so nothing is computed yet.
    let late = async || {
        let mut late = pin!(forecasts.of(w.account));
        assert!(late.as_mut().now_or_never().is_none());
        clock.advance(Duration::from_millis(50));
        late.await.expect("no error")
    };
    assert_eq!(late().await, None);
    let computed = forecasts.of(w.account).await.expect("computed").expect("in time");
    assert_eq!(computed.start, minute(5));
    clock.advance(Duration::from_secs(60));
    let before = late().await.expect("that of the minute before");
    assert!(Arc::ptr_eq(&before, &computed));
}
