//! Lost hints, and the ways in which their changes reach the leader nevertheless.

use std::time::Duration;

use punctual::domain::schedule::{CatchUpPolicy, Definition, HttpMethod, OverlapPolicy};
use punctual::domain::shard::ShardId;
use punctual::domain::ticket::HostKey;
use punctual::domain::{ScheduleId, Timestamp, VersionId};
use punctual::queue::{OwnedSchedule, Queue, ShardChanges};
use punctual::runtime::Worker;
use punctual::store::{NewSchedule, NewVersion, ScheduleStore};

use crate::calendar::to_next_minute;
use crate::gate::Fault;
use crate::process::{SHARDS, run};
use crate::world::{MAX_PAUSE, World};

/// The shard whose leader reaches the gate first.
const SHARD: ShardId = ShardId(0);
/// Enough schedules for several pages of the comparison.
const MANY: u128 = 2_500;

/// The reason for which the leader compares all schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// No reason.
    None,
    /// The queue failed.
    Error,
    /// A hint says that an unknown number of schedules has changed.
    Mark,
}

/// Returns schedule `n` of a shard, in the order of the comparison.
pub fn schedule(shard: ShardId, n: u128, now: Timestamp, next_tick: Timestamp) -> NewSchedule {
    let definition = Definition {
        cron_expression: "* * * * *".into(),
        timezone: "UTC".into(),
        endpoint: "http://127.0.0.1:9/".into(),
        http_method: HttpMethod::Get,
        body: None,
        headers: None,
        max_retries: 1,
        timeout_seconds: 1,
        expected_status_codes: None,
        sign_requests: false,
    };
    NewSchedule {
        id: ScheduleId::new(now, n),
        shard,
        name: format!("schedule {n}"),
        description: None,
        version: NewVersion { id: VersionId::new(now, n), definition, host: HostKey(1) },
        is_enabled: true,
        overlap_policy: OverlapPolicy::Allow,
        catch_up_policy: CatchUpPolicy::Last,
        next_tick: Some(next_tick),
    }
}

/// Creates a world with a schedule that is due at its tick, comes after many others, and was never
/// hinted.
async fn world_with_unhinted_schedule() -> (World, ScheduleId, Timestamp) {
    let mut world = World::new(7).await;
    let now = world.clock.now();
    let sqlite = world.process().sqlite.clone();
    let tomorrow = now.plus(Duration::from_secs(86_400));
    let others: Vec<_> = (0..MANY).map(|n| schedule(SHARD, n, now, tomorrow)).collect();
    for some in others.chunks(500) {
        sqlite.create_schedules(&world.write(), some, None).await.expect("created");
    }
    world.lead().await;
    let tick = now.plus(to_next_minute(now));
    let unhinted = schedule(SHARD, MANY, now, tick);
    let id = unhinted.id;
    sqlite.create_schedules(&world.write(), &[unhinted], None).await.expect("created");
    (world, id, tick)
}

/// Returns `true` if that schedule fires.
async fn fires(cause: Cause) -> bool {
    let (mut world, id, tick) = world_with_unhinted_schedule().await;
    match cause {
        Cause::None => {}
        Cause::Error => world.process().gate.arm_at("take_hints", Fault::AnswerLost),
        Cause::Mark => {
            let queue = world.process().queue.clone();
            queue.hint(SHARD, &ShardChanges::all()).await.expect("hinted");
        }
    }
    // The first run may fail. The second one completes the comparison.
    world.lead().await;
    world.lead_after_pauses().await;
    world.clock.advance(to_next_minute(world.clock.now()));
    world.lead().await;
    world.next_tick(id).await > Some(tick)
}

#[tokio::test]
async fn after_an_error_of_the_queue_all_is_compared_at_once() {
    for cause in [Cause::None, Cause::Error, Cause::Mark] {
        assert_eq!(fires(cause).await, cause != Cause::None, "{cause:?}");
    }
}

#[tokio::test]
async fn a_queue_that_fails_repeatedly_does_not_keep_the_comparison_from_its_end() {
    let (mut world, id, tick) = world_with_unhinted_schedule().await;
    let clock = world.clock.clone();
    clock.advance(to_next_minute(clock.now()));
    for failing in [true, false].repeat(10) {
        if failing {
            world.process().gate.arm_at("set_due", Fault::Refused);
        }
        let leader = world.process().leader.as_mut().expect("here");
        leader.run_once(clock.now()).await.expect("not all shards have failed");
        clock.advance(MAX_PAUSE);
    }
    assert!(world.next_tick(id).await > Some(tick), "it has been found");
}

/// Creates a world shortly before the next minute, so that no page is compared before the minute.
async fn before_the_minute(seed: u64) -> World {
    let mut world = World::new(seed).await;
    world.clock.advance(to_next_minute(world.clock.now()) - Duration::from_secs(5));
    world.lead().await;
    world
}

/// A leader takes hints again that it could not apply. A leader that was replaced without knowing
/// it does the same, while its successor knows of no lost hint.
#[tokio::test]
async fn hints_that_cannot_be_followed_are_taken_again() {
    for (failing, is_replaced) in [("candidates", false), ("set_due", true)] {
        let mut world = before_the_minute(8).await;
        if is_replaced {
            world.process().elect();
            world.lead().await;
        }
        world.create_every_minute().await;
        world.process().gate.arm_at(failing, Fault::Refused);
        match world.process().deposed_leaders.pop() {
            Some(mut deposed) => run(&mut deposed, &world.clock).await.expect("not all fail"),
            None => world.lead().await,
        }
        let id = world.history.alive()[0];
        let tick = world.next_tick(id).await;
        for _ in 0..2 {
            world.clock.advance(Duration::from_millis(2_500));
            world.lead().await;
        }
        assert!(world.next_tick(id).await > tick, "{failing}");
    }
}

#[tokio::test]
async fn hints_to_the_leader_before_are_not_lost_while_the_index_is_built() {
    let mut world = before_the_minute(11).await;
    let (clock, gate) = (world.clock.clone(), world.process().gate.clone());
    world.process().elect();
    let mut old = world.process().deposed_leaders.pop().expect("it has led");
    let mut new = world.process().leader.take().expect("elected");
    gate.arm_at("adopt", Fault::Refused);
    gate.hold("rebuild");
    let building = {
        let clock = clock.clone();
        tokio::spawn(async move {
            run(&mut new, &clock).await.expect("no fault is armed");
            new
        })
    };
    gate.reached().await;
    let now = clock.now();
    let tick = now.plus(to_next_minute(now));
    let (sqlite, queue) = (world.process().sqlite.clone(), world.process().queue.clone());
    let mut schedules = Vec::new();
    for shard in (0..SHARDS).map(ShardId) {
        let new = schedule(shard, shard.0.into(), now, tick);
        schedules.push(new.id);
        let member = OwnedSchedule { schedule: new.id, account: world.account };
        let hint = ShardChanges { all: false, schedules: vec![member] };
        sqlite.create_schedules(&world.write(), &[new], None).await.expect("created");
        queue.hint(shard, &hint).await.expect("hinted");
    }
    run(&mut old, &clock).await.expect("no fault is armed");
    gate.release();
    world.process().leader = Some(building.await.expect("it does not panic"));
    clock.advance(to_next_minute(now));
    world.lead().await;
    for id in schedules {
        assert!(world.next_tick(id).await > Some(tick), "it is in the index");
    }
}
