//! Wrong clocks and jumping clocks.

use std::time::Duration;

use super::lapse::machine;
use super::world::{USUAL, World};
use crate::harness::wait::{live_for, until};

const HOUR: i64 = 3_600_000;

impl World {
    /// Starts a world in which the clocks of the replicas are wrong by these amounts from these
    /// instants on.
    async fn with_clocks(wrong: [Option<(i64, i64)>; 3]) -> Self {
        let mut world = Self::prepare(USUAL).await;
        for (index, wrong) in wrong.into_iter().enumerate() {
            world.replicas[index].settings =
                vec![("PUNCTUAL_TEST_CLOCK", world.lapse.variable(wrong))];
            world.launch(index);
        }
        for replica in &mut world.replicas {
            replica.ready().await;
        }
        world.load().await;
        world
    }
}

/// F60: clocks that are wrong by minutes have no effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_are_wrong_by_minutes_change_nothing() {
    let mut world = World::with_clocks([Some((300_000, 0)), Some((-300_000, 0)), None]).await;
    world.latest_ms = Some(2_000);
    world.minutes(3.0).await;
    world.holds().await;
}

/// F61: a jump of a clock fires no tick early or twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_jump_fires_nothing_early_and_nothing_twice() {
    let from = machine() + 45_000;
    let jumps = [Some((HOUR, from)), Some((-HOUR, from)), Some((3_000, from + 6_000))];
    let mut world = World::with_clocks(jumps).await;
    // A replica whose time is uncertain rejects calls until it is certain again.
    world.begin_fault();
    until("each replica leads a shard", async || {
        let leaders = world.leaders().await;
        (0..3).all(|index| leaders.iter().any(|(_, leader)| *leader == index)).then_some(())
    })
    .await;
    let left = u64::try_from(from + 6_000 - machine()).unwrap_or(0);
    live_for(Duration::from_millis(left)).await;
    world.minutes(2.0).await;
    world.end_fault();
    world.minutes(1.0).await;
    world.holds().await;
}
