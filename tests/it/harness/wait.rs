//! Functions that wait for conditions with a timeout.

use std::time::{Duration, Instant};

/// The default timeout of a condition. It is generous because test machines are busy.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Waits for `span`, for example until the time of a fault that a seed determines.
pub async fn live_for(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Calls `ask` repeatedly until it returns a value.
///
/// # Panics
/// If it returns none within `bound`.
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

/// Like `within`, with the default timeout.
pub async fn until<T>(what: &str, ask: impl AsyncFnMut() -> Option<T>) -> T {
    within(TIMEOUT, what, ask).await
}
