//! Schedules that cannot be fired: each is parked alone, and keeps no other from firing.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::domain::ScheduleId;
use punctual::domain::plan::Plans;
use punctual::store::{Firing, Result, StoreError, StoreErrorKind};

use crate::calendar::to_next_minute;
use crate::world::World;

/// The time for which the leader parks a schedule that it cannot fire.
const PARKED: Duration = Duration::from_secs(60);

/// The result of a firing that fails.
#[derive(Clone, Copy, Debug)]
pub enum BadFiring {
    /// The statement takes too long.
    Slow,
    /// The store rejects the firing.
    Rejected,
    /// The process panics.
    Panics,
}

/// The firings that fail, and the batches of all firings.
#[derive(Default)]
pub struct BadFirings(Mutex<State>);

#[derive(Default)]
struct State {
    schedules: HashMap<ScheduleId, BadFiring>,
    /// The batches that were fired, with their schedules.
    batches: Vec<Vec<ScheduleId>>,
}

impl BadFirings {
    /// Returns the error of a batch with a firing that fails.
    ///
    /// # Panics
    /// If the batch has a firing that panics.
    pub fn check(&self, operation: &'static str, firings: &[Firing]) -> Result<()> {
        let bad = {
            let mut state = self.state();
            state.batches.push(firings.iter().map(|firing| firing.schedule).collect());
            firings.iter().find_map(|firing| state.schedules.get(&firing.schedule).copied())
        };
        let (kind, reason) = match bad {
            None => return Ok(()),
            Some(BadFiring::Slow) => (StoreErrorKind::Unavailable, "it took too long"),
            Some(BadFiring::Rejected) => (StoreErrorKind::Rejected, "a value out of range"),
            Some(BadFiring::Panics) => panic!("a firing of the test"),
        };
        Err(StoreError::new(operation, kind, reason))
    }

    fn set(&self, schedule: ScheduleId, bad: BadFiring) {
        self.state().schedules.insert(schedule, bad);
    }

    fn clear(&self) {
        *self.state() = State::default();
    }

    /// Returns the number of schedules in the largest batch.
    fn largest(&self) -> usize {
        self.state().batches.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Returns the number of batches with a schedule.
    fn tries(&self, schedule: ScheduleId) -> usize {
        self.state().batches.iter().filter(|batch| batch.contains(&schedule)).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a world with `count` schedules that are due each minute, all of them led.
async fn world(count: usize) -> World {
    let mut world = World::new(9).await;
    for _ in 0..count {
        world.create_every_minute().await;
    }
    world.lead_after_pauses().await;
    world
}

#[tokio::test]
async fn a_schedule_that_cannot_be_fired_keeps_no_other_from_firing() {
    for bad in [BadFiring::Slow, BadFiring::Rejected, BadFiring::Panics] {
        let mut world = world(5).await;
        let firings = world.process().firings.clone();
        let all = world.history.alive();
        firings.set(all[1], bad);
        world.clock.advance(to_next_minute(world.clock.now()));
        let due = world.clock.now();
        world.lead().await;
        for id in &all {
            let has_fired = world.next_tick(*id).await.is_some_and(|tick| tick > due);
            assert_eq!(has_fired, *id != all[1], "{bad:?}");
        }
        firings.clear();
        world.clock.advance(PARKED);
        world.lead().await;
        assert!(world.next_tick(all[1]).await.is_some_and(|tick| tick > due), "{bad:?}");
    }
}

/// A store that is slow with everything is not the fault of a schedule.
#[tokio::test]
async fn no_schedule_is_parked_while_the_store_is_slow_with_all() {
    let mut world = world(5).await;
    let firings = world.process().firings.clone();
    let all = world.history.alive();
    for id in &all {
        firings.set(*id, BadFiring::Slow);
    }
    world.clock.advance(to_next_minute(world.clock.now()));
    let due = world.clock.now();
    world.lead().await;
    firings.clear();
    world.clock.advance(PARKED / 10);
    world.lead().await;
    for id in &all {
        assert!(world.next_tick(*id).await.is_some_and(|tick| tick > due));
    }
}

#[tokio::test]
async fn after_a_timeout_batches_are_smaller() {
    const MANY: usize = 300;
    let mut world = world(MANY).await;
    // The size of a batch does not depend on the free slots of an executor.
    let leader = world.process().leader_within(Plans::default());
    world.process().leader = Some(leader);
    world.lead_after_pauses().await;
    let firings = world.process().firings.clone();
    world.clock.advance(to_next_minute(world.clock.now()));
    world.lead().await;
    assert_eq!(firings.largest(), MANY, "one batch takes all");
    let slow = world.history.alive()[7];
    firings.set(slow, BadFiring::Slow);
    world.clock.advance(to_next_minute(world.clock.now()));
    world.lead().await;
    firings.clear();
    world.clock.advance(to_next_minute(world.clock.now()));
    world.lead().await;
    let largest = firings.largest();
    assert!((1..MANY).contains(&largest), "{largest} schedules in one batch");
}

/// While hints of other replicas do not arrive, the leader compares its indexes with the store
/// again and again. That does not bring parked schedules back.
#[tokio::test]
async fn a_parked_schedule_stays_parked_while_indexes_are_compared() {
    let mut world = world(3).await;
    let firings = world.process().firings.clone();
    world.process().context.others_lack_queue.store(true, Ordering::Relaxed);
    let bad = world.history.alive()[1];
    firings.set(bad, BadFiring::Rejected);
    world.clock.advance(to_next_minute(world.clock.now()));
    world.lead().await;
    // The tick is over one minute old from now on. A comparison leaves only such ticks alone.
    world.clock.advance(PARKED * 2);
    world.lead().await;
    let before = firings.tries(bad);
    for _ in 0..50 {
        world.clock.advance(Duration::from_secs(1));
        world.lead().await;
    }
    assert_eq!(firings.tries(bad), before);
}
