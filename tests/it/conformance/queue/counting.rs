//! Counters of requests.

use super::world::*;

pub async fn it_takes_writes(queue: &SharedQueue) {
    queue.ping().await.expect("it does");
}

pub async fn requests_are_counted_in_all_windows_or_none(queue: &SharedQueue) {
    let minute = RateWindow { span: Duration::from_secs(60), limit: 3 };
    let hour = RateWindow { span: Duration::from_secs(3_600), limit: 4 };
    let count = |now| {
        let queue = queue.clone();
        async move { queue.count("key:1", &[minute, hour], at(now)).await.expect("counted") }
    };
    for left in [2, 1, 0] {
        let verdict = count(1_000).await;
        assert!(verdict.allowed);
        assert_eq!(verdict.window_states[0].remaining, left);
        assert_eq!(verdict.window_states[0].resets_at, at(61_000));
    }
    let refused = count(2_000).await;
    assert!(!refused.allowed);
    assert_eq!(refused.window_states[1].remaining, 1, "a refused request uses up nothing");
    assert!(count(61_000).await.allowed, "the minute is over");
    let refused = count(61_001).await;
    assert!(!refused.allowed, "the hour is full");
    assert_eq!((refused.window_states[0].remaining, refused.window_states[1].remaining), (2, 0));
    assert!(queue.count("key:2", &[minute], at(61_001)).await.expect("counted").allowed);
    assert!(queue.count("key:3", &[], at(0)).await.expect("counted").allowed);
}

pub async fn a_window_without_room_counts_nothing(queue: &SharedQueue) {
    let minute = RateWindow { span: Duration::from_secs(60), limit: 3 };
    let closed = RateWindow { limit: 0, ..minute };
    let peek = queue.count("key:1", &[minute, closed], at(0)).await.expect("asked");
    assert!(!peek.allowed);
    let remaining: Vec<_> =
        peek.window_states.iter().map(|window_state| window_state.remaining).collect();
    assert_eq!(remaining, [3, 0]);
    let counted = queue.count("key:1", &[minute], at(0)).await.expect("asked");
    assert_eq!(counted.window_states[0].remaining, 2);
}

pub async fn a_request_is_given_back_while_its_window_lasts(queue: &SharedQueue) {
    let windows = [(60, 2), (3_600, 5)]
        .map(|(seconds, limit)| RateWindow { span: Duration::from_secs(seconds), limit });
    let count = async |now| {
        let verdict = queue.count("user:1", &windows, at(now)).await.expect("counted");
        (verdict.allowed, verdict.window_states[0].remaining, verdict.window_states[1].remaining)
    };
    let give_back = async |now| {
        queue.give_back("user:1", &windows, at(now)).await.expect("given back");
    };
    give_back(0).await;
    assert_eq!(count(0).await, (true, 1, 4), "there was nothing to give back");
    assert_eq!(count(0).await, (true, 0, 3));
    give_back(1).await;
    assert_eq!(count(2).await, (true, 0, 3));
    assert_eq!(count(2).await, (false, 0, 3));
    give_back(60_000).await;
    assert_eq!(count(60_001).await, (true, 1, 3), "the minute is another one");
}

pub async fn no_more_are_let_through_at_once_than_the_limit(queue: &SharedQueue) {
    let minute = RateWindow { span: Duration::from_secs(60), limit: 10 };
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let queue = queue.clone();
        callers.spawn(async move {
            queue.count("address:::1", &[minute], at(0)).await.expect("asked").allowed
        });
    }
    let allowed = callers.join_all().await.into_iter().filter(|allowed| *allowed).count();
    assert_eq!(allowed, 10);
}
