//! Connects the executor of a replica with the scheduler and the commands, by implementing their
//! contracts for it. None of these modules depends on another.

use std::time::Duration;

use async_trait::async_trait;

use crate::domain::ticket::Ticket;
use crate::executor;
use crate::scheduler::{Started, Starter};
use crate::schedules::Runner;
use crate::store::{Fence, Firing};

#[async_trait]
impl Starter for executor::Starter {
    async fn fire(
        &self,
        fences: &[Fence],
        wanted: Vec<(Firing, Ticket)>,
        patience: Duration,
    ) -> Result<Started, Vec<(Firing, Ticket)>> {
        let executor::Started { fired, started, outcome, left, took } =
            self.fire(fences, wanted, patience).await?;
        Ok(Started { fired, started, outcome, left, took })
    }
}

impl Runner for executor::Starter {
    fn take_over(&self, tickets: &[Ticket]) -> Vec<Ticket> {
        self.take_over(tickets)
    }
}
