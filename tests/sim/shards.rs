//! Failing or slow shards, and their effect on other shards.

use std::time::Duration;

use punctual::domain::ScheduleId;
use punctual::domain::shard::ShardId;
use punctual::queue::{IndexAnswer, Queue};
use punctual::store::{ScheduleStore, UpkeepStore};
use tokio::time::timeout;

use crate::calendar::to_next_minute;
use crate::gate::Fault;
use crate::hints::schedule;
use crate::process::{SHARDS, run};
use crate::world::{World, live_for};

/// Creates a world with one schedule in each shard, all of which are due now.
async fn world() -> (World, Vec<ScheduleId>) {
    let mut world = World::new(10).await;
    let now = world.clock.now();
    let tick = now.plus(to_next_minute(now));
    let one = |shard: u16| schedule(ShardId(shard), shard.into(), now, tick);
    let schedules: Vec<_> = (0..SHARDS).map(one).collect();
    let sqlite = world.process().sqlite.clone();
    sqlite.create_schedules(&world.write(), &schedules, None).await.expect("created");
    world.lead().await;
    world.clock.advance(to_next_minute(now));
    (world, schedules.iter().map(|schedule| schedule.id).collect())
}

/// Returns the number of schedules that have fired all due ticks.
async fn fired(world: &mut World, schedules: &[ScheduleId]) -> usize {
    let mut fired = 0;
    for id in schedules {
        let next = world.next_tick(*id).await.expect("enabled");
        fired += usize::from(next > world.clock.now());
    }
    fired
}

/// Returns the number of these schedules that have fired according to the due index, too.
async fn moved_on(world: &mut World, schedules: &[ScheduleId]) -> usize {
    let now = world.clock.now();
    let records = world.process().sqlite.shard_records(now).await.expect("read");
    let queue = world.process().queue.clone();
    let mut waiting = 0;
    for record in records {
        let epoch = record.leader.expect("led").epoch;
        let due = queue.due(record.shard, epoch, (None, now), 1).await.expect("no fault is armed");
        waiting += usize::from(!matches!(due, IndexAnswer::Own(due) if due.schedules.is_empty()));
    }
    fired(world, schedules).await.min(schedules.len() - waiting)
}

#[tokio::test]
async fn a_shard_that_fails_rests_and_holds_up_no_other() {
    let (mut world, schedules) = world().await;
    world.process().gate.arm_at("due", Fault::Refused);
    for _ in 0..2 {
        world.lead().await;
        assert_eq!(fired(&mut world, &schedules).await, schedules.len() - 1);
    }
    world.lead_after_pauses().await;
    assert_eq!(fired(&mut world, &schedules).await, schedules.len());
}

#[tokio::test]
async fn a_batch_that_takes_long_holds_up_nothing() {
    let (mut world, schedules) = world().await;
    let (clock, gate) = (world.clock.clone(), world.process().gate.clone());
    let mut leader = world.process().leader.take().expect("here");
    gate.hold("fire_and_claim");
    let leading = tokio::spawn(async move { run(&mut leader, &clock).await });
    gate.reached().await;
    for _ in 0..3 {
        let others = async {
            while moved_on(&mut world, &schedules).await < schedules.len() - 1 {
                world.clock.advance(Duration::from_millis(10));
                live_for(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(10), others).await.expect("the others fire");
        world.clock.advance(Duration::from_secs(60));
    }
    gate.release();
    leading.await.expect("no panic").expect("no fault is armed");
    assert_eq!(fired(&mut world, &schedules).await, schedules.len());
}
