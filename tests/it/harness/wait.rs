//! Waiting for conditions, with a bound.

use std::time::{Duration, Instant};

/// How long a condition may take unless a test says otherwise; generous, because machines that
/// test are busy.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Lets so much time pass: until the moment of a fault that a seed draws.
pub async fn live_for(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Asks again and again until there is an answer.
///
/// # Panics
/// If there is none within `bound`.
pub async fn within<T>(bound: Duration, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(started.elapsed() < bound, "did not happen in {bound:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The same within the usual time.
pub async fn until<T>(what: &str, ask: impl AsyncFnMut() -> Option<T>) -> T {
    within(PATIENCE, what, ask).await
}
