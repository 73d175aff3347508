//! The leader's loop: serves the shards that the cluster gives this replica.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::Context;
use super::fire::Rules;
use super::led::{Led, Parts};
use super::round::{AT_ONCE, Report, Round};
use crate::cluster::Terms;
use crate::domain::Timestamp;
use crate::domain::plan::Plans;
use crate::domain::shard::ShardId;
use crate::runtime::{Pause, Random, RunError, Worker};
use crate::telemetry::metrics::LEADER_SHARDS;

/// How long the loop rests that leads nothing.
const LONGEST_REST: Duration = Duration::from_secs(5);

/// Fires the ticks of the led shards.
pub struct Leader {
    context: Context,
    rules: Rules,
    random: Random,
    terms: watch::Receiver<Terms>,
    led: BTreeMap<ShardId, Led>,
    /// Which of them is served first.
    first: usize,
}

impl Leader {
    /// A leader of whatever shards the cluster gives it; `plans` are what accounts can have.
    pub fn new(context: Context, plans: Arc<Plans>, random: Random) -> Self {
        let (terms, rules) = (context.cluster.terms(), Rules::new(plans));
        Self { context, rules, random, terms, led: BTreeMap::new(), first: 0 }
    }
}

#[async_trait]
impl Worker for Leader {
    async fn run_once(&mut self, now: Timestamp) -> Result<Pause, RunError> {
        let Self { context, rules, random, terms, led, first } = self;
        // Not always the same ones last.
        *first = first.wrapping_add(AT_ONCE);
        let round = Round::new(Parts { context, rules, random, terms }, led);
        let Report { served, mut failed, is_hinted } = round.run(now, *first).await;
        LEADER_SHARDS.set(led.values().filter(|led| led.is_taken()).count());
        if let Some(error) = failed.pop() {
            if failed.len() + 1 == served {
                return Err(error);
            }
            tracing::warn!(%error, shards = failed.len() + 1, "shards not served, trying again");
        }
        let wake = led.values().map(|led| led.next).min().unwrap_or(now.plus(LONGEST_REST));
        Ok(if is_hinted || wake <= now { Pause::None } else { Pause::Until(wake) })
    }
}
