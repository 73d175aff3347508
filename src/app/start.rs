//! Leaders and executors of one replica, brought together: neither stage knows the other.

use std::time::Duration;

use async_trait::async_trait;

use crate::domain::ticket::Ticket;
use crate::executor;
use crate::scheduler::{Started, Starter};
use crate::store::{Fence, Firing};

#[async_trait]
impl Starter for executor::Starter {
    async fn fire(
        &self,
        fence: Fence,
        wanted: Vec<(Firing, Ticket)>,
        patience: Duration,
    ) -> Result<Started, Vec<(Firing, Ticket)>> {
        let executor::Started { fired, started, outcome, left, took } =
            self.fire(fence, wanted, patience).await?;
        Ok(Started { fired, started, outcome, left, took })
    }
}
