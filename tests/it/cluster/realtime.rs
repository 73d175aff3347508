//! A run of some minutes without a time lapse.

use std::time::{Duration, Instant};

use super::world::{TAKEOVER_BOUND, USUAL, World, WorldConfig};
use crate::harness::wait::live_for;

/// The duration of the run.
const LONG: Duration = Duration::from_secs(190);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_minutes_with_a_crash_every_half_minute() {
    let mut world = World::start(WorldConfig { factor: 1, schedules: 120, ..USUAL }).await;
    world.fires_on(TAKEOVER_BOUND);
    let begun = Instant::now();
    let mut deaths = 0;
    while begun.elapsed() < LONG {
        // Every second crash is at the full minute.
        if deaths % 2 == 0 {
            world.part_of_minute(0.999 + 0.002 * world.users.random.unit()).await;
        }
        let victim = world.users.below(world.replicas.len());
        world.kill_and_replace(victim).await;
        deaths += 1;
        live_for(Duration::from_secs(20)).await;
    }
    println!("{deaths} deaths");
    world.holds().await;
}
