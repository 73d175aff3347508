//! Monthly job limits while responses of `fire` are lost.

use std::time::Duration;

use punctual::domain::plan::{Plan, Plans};
use punctual::domain::shard::ShardId;
use punctual::store::{AccountStore, ScheduleStore};

use crate::calendar::to_next_minute;
use crate::gate::Fault;
use crate::hints::schedule;
use crate::world::World;

const QUOTA: u64 = 9;

/// An operation with a lost response may or may not have taken effect. The number of jobs is exact
/// in both cases.
#[tokio::test]
async fn lost_answers_do_not_change_the_jobs_of_a_month() {
    for fault in [Fault::AnswerLost, Fault::Refused] {
        let mut world = World::new(16).await;
        let (clock, write) = (world.clock.clone(), world.write());
        let now = clock.now();
        let sqlite = world.process().sqlite.clone();
        assert!(sqlite.set_plan(&write, "few").await.expect("set"));
        let new = schedule(ShardId(0), 1, now, now.plus(to_next_minute(now)));
        sqlite.create_schedules(&world.write(), &[new], None).await.expect("created");
        let plan = Plan { jobs_per_month: Some(QUOTA), ..Plan::unlimited("few") };
        let process = world.process();
        process.leader = Some(process.leader_within(Plans::new([plan])));
        let mut made = Vec::new();
        for tick in 0..QUOTA + 6 {
            clock.advance(to_next_minute(clock.now()));
            if tick % 3 == 1 {
                world.process().gate.arm_at("fire", fault);
            }
            for _ in 0..8 {
                world.lead().await;
                clock.advance(Duration::from_secs(2));
            }
            made.push(sqlite.jobs_made(write.account, clock.now()).await.expect("counted"));
        }
        let expected: Vec<u64> = (1..=QUOTA + 6).map(|ticks| ticks.min(QUOTA)).collect();
        assert_eq!(made, expected, "{fault:?}");
    }
}
