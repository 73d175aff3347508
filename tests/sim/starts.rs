//! Claims whose responses are lost: of jobs that start in the statement that fires them, and of
//! other jobs.

use std::time::Duration;

use punctual::domain::JobId;
use punctual::domain::job::Job;
use punctual::domain::outcome::ErrorCode;
use punctual::domain::schedule::OverlapPolicy;
use punctual::domain::shard::ShardId;
use punctual::store::ScheduleStore;
use tokio::time::timeout;

use crate::calendar::to_next_minute;
use crate::gate::Fault;
use crate::hints::schedule;
use crate::process::CLAIM_TIME;
use crate::world::{World, live_for};

/// The timeout, in real time, for the end of a job.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Creates a world at the tick of a schedule whose jobs have one attempt. Also returns the job of
/// that tick.
async fn due(overlap_policy: OverlapPolicy) -> (World, JobId) {
    let mut world = World::new(12).await;
    let now = world.clock.now();
    let tick = now.plus(to_next_minute(now));
    let mut new = schedule(ShardId(0), 1, now, tick);
    new.overlap_policy = overlap_policy;
    let sqlite = world.process().sqlite.clone();
    sqlite.create_schedules(&world.write(), std::slice::from_ref(&new), None).await.expect("made");
    world.lead().await;
    world.clock.advance(to_next_minute(now));
    (world, JobId::of_tick(new.id, tick))
}

async fn job(world: &mut World, id: JobId) -> Job {
    let jobs = world.jobs().await;
    jobs.into_iter().find(|one| one.id == id).expect("it was made")
}

/// Advances the clock until a job has ended.
async fn ended(world: &mut World, id: JobId) -> Job {
    let ends = async {
        loop {
            world.clock.advance(Duration::from_millis(50));
            live_for(Duration::from_millis(1)).await;
            world.rescue_jobs().await;
            let job = job(world, id).await;
            if job.status.is_final() {
                return job;
            }
        }
    };
    timeout(TIMEOUT, ends).await.expect("it ends")
}

/// Asserts that the job had one attempt. It was sent, although the connection was refused.
fn assert_sent_once(job: &Job) {
    assert_eq!((job.attempt_number, job.error_code), (1, Some(ErrorCode::Connect)));
}

#[tokio::test]
async fn a_lost_answer_costs_no_attempt() {
    for (policy, operation) in
        [(OverlapPolicy::Allow, "fire_and_claim"), (OverlapPolicy::Skip, "claim")]
    {
        let (mut world, id) = due(policy).await;
        world.process().gate.arm_at(operation, Fault::AnswerLost);
        world.lead().await;
        assert_sent_once(&ended(&mut world, id).await);
    }
}

#[tokio::test]
async fn a_refused_claim_that_is_looked_into_late_costs_no_attempt() {
    let (mut world, id) = due(OverlapPolicy::Skip).await;
    world.process().gate.arm_at("claim", Fault::Refused);
    world.process().gate.hold("claim");
    world.lead().await;
    world.process().gate.reached().await;
    world.process().gate.release();
    world.clock.advance(CLAIM_TIME * 2 / 3);
    assert_sent_once(&ended(&mut world, id).await);
}

#[tokio::test]
async fn a_stop_does_not_abandon_what_a_lost_answer_has_brought() {
    let (mut world, id) = due(OverlapPolicy::Allow).await;
    world.process().gate.arm_at("fire_and_claim", Fault::AnswerLost);
    world.lead().await;
    let process = world.process();
    process.tasks.begin_stop();
    let stop = timeout(TIMEOUT, process.executor.stop(CLAIM_TIME));
    assert!(stop.await.expect("time stands still"), "nothing is left");
    assert_sent_once(&job(&mut world, id).await);
}
