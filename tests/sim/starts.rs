//! Jobs that start in the moment in which they are fired.

use std::time::Duration;

use punctual::domain::JobId;
use punctual::domain::outcome::ErrorCode;
use punctual::domain::shard::ShardId;
use punctual::store::ScheduleStore;
use tokio::time::timeout;

use crate::calendar::to_next_minute;
use crate::gate::Fault;
use crate::hints::schedule;
use crate::world::{World, live_for};

#[tokio::test]
async fn a_lost_answer_costs_no_attempt() {
    let mut world = World::new(12).await;
    let now = world.clock.now();
    let tick = now.plus(to_next_minute(now));
    let new = schedule(ShardId(0), 1, now, tick);
    let sqlite = world.process().sqlite.clone();
    sqlite.create_schedules(&world.write(), std::slice::from_ref(&new), None).await.expect("made");
    world.lead().await;
    world.clock.advance(to_next_minute(now));
    world.process().gate.arm_at("fire_and_claim", Fault::AnswerLost);
    world.lead().await;
    let job = JobId::of_tick(new.id, tick);
    let ends = async {
        loop {
            world.clock.advance(Duration::from_millis(50));
            live_for(Duration::from_millis(1)).await;
            let jobs = world.jobs().await;
            if let Some(job) = jobs.into_iter().find(|one| one.id == job)
                && job.status.is_final()
            {
                return job;
            }
        }
    };
    let job = timeout(Duration::from_secs(10), ends).await.expect("it ends");
    // Nobody listens there; it was sent all the same.
    assert_eq!((job.attempt_number, job.error_code), (1, Some(ErrorCode::Connect)));
}
