//! Deferred completions: another transaction holds their rows, or they take the store too long.
//! They are committed later, so that no other completion waits for them: a commit of 500 jobs takes
//! 0.27 s with a held row among them, and 0.007 s without (`tests/servers cargo bench --bench
//! store`).
//!
//! One task retries all of them, so that they use one connection to the store, however many they
//! are.

use std::time::Duration;

use tokio::sync::mpsc;

use super::commit::Commit;
use crate::executor::attempt::finished_attempts::FinishedAttempt;

/// The maximum number of deferred completions. A commit that defers more waits, and so do the
/// attempts that end. This bounds memory while an operator holds a whole table.
pub(in crate::executor) const MAX_DEFERRED: usize = 4_096;
/// The pause between two retries. A row is held for seconds or minutes, so another half second does
/// not matter. Each retry of a held row costs the store one lock timeout.
const RETRY_EVERY: Duration = Duration::from_millis(500);

/// Retries deferred completions until all are committed. Ends when there are none and no commit can
/// defer any more.
pub(in crate::executor) async fn retry_deferred(
    commit: Commit,
    mut incoming: mpsc::Receiver<FinishedAttempt>,
) {
    let mut deferred = Vec::new();
    while !deferred.is_empty() || incoming.recv_many(&mut deferred, MAX_DEFERRED).await > 0 {
        commit.0.clock.sleep(RETRY_EVERY).await;
        while deferred.len() < MAX_DEFERRED
            && let Ok(ended) = incoming.try_recv()
        {
            deferred.push(ended);
        }
        tracing::debug!(rows = deferred.len(), "retrying deferred completions");
        let mut retried = std::mem::take(&mut deferred).into_iter().peekable();
        while retried.peek().is_some() {
            let batch = retried.by_ref().take(commit.0.commits.get()).collect();
            deferred.append(&mut commit.run(batch).await);
        }
    }
}
