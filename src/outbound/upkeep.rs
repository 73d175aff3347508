//! A periodic worker that maintains the HTTP client between requests.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::ClientInner;
use crate::domain::Timestamp;
use crate::runtime::{LoopPause, RunError, TaskKind, Tasks, Worker, drive};

/// The interval at which unused clients are evicted.
const EVERY: Duration = Duration::from_secs(1);
/// The interval at which the addresses of the machine's interfaces are read.
const REFRESH_OWN_EVERY: Duration = Duration::from_secs(30);

/// Evicts unused clients and refreshes the list of the machine's own addresses.
struct ClientUpkeep {
    client: Arc<ClientInner>,
    refreshed: Duration,
}

/// Starts the upkeep worker; it ends at the first stage of a shutdown.
pub fn start(client: &Arc<ClientInner>, tasks: &Tasks) {
    let mut upkeep = ClientUpkeep { client: client.clone(), refreshed: client.clock.monotonic() };
    let (clock, tracked) = (client.clock.clone(), tasks.clone());
    tasks.spawn(TaskKind::Upkeep, async move {
        drive(&tracked, TaskKind::Upkeep, &clock, &Notify::new(), &mut upkeep).await;
    });
}

#[async_trait]
impl Worker for ClientUpkeep {
    async fn run_once(&mut self, _now: Timestamp) -> Result<LoopPause, RunError> {
        let now = self.client.clock.monotonic();
        self.client.clients.prune(now);
        if now.saturating_sub(self.refreshed) >= REFRESH_OWN_EVERY {
            self.client.policy.refresh_own();
            self.refreshed = now;
        }
        Ok(LoopPause::For(EVERY))
    }
}
