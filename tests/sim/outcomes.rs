//! Outcomes that cannot be committed for a while, because the store is slow or another session has
//! locked their rows.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::domain::job::{Job, JobStatus};
use punctual::domain::{JobId, Timestamp};
use punctual::runtime::{Clock, Random, Worker};
use punctual::scheduler::JobRescuer;
use punctual::store::{
    ClaimRequest, ClaimStore, Committed, Completion, CompletionResult, ExecutorId, JobStore,
    NewJob, Result, StoreError, StoreErrorKind,
};
use tokio::time::timeout;

use crate::oracle;
use crate::process::{CLAIM_TIME, RETRY};
use crate::world::{World, live_for};

/// The time for which a commit waits for locked rows, in real time.
const LOCK_TIMEOUT: Duration = Duration::from_millis(20);
/// The number of jobs that a test triggers, one by one.
const JOBS: usize = 15;

/// Simulates rows that a session outside the service has locked. PostgreSQL can have such rows,
/// SQLite never has them.
#[derive(Default)]
pub struct Rows {
    are_held: AtomicBool,
    /// If set, the second job of the next commit with several jobs becomes slow.
    is_next_slow: AtomicBool,
    /// A commit with one of these jobs times out.
    slow_jobs: Mutex<HashSet<JobId>>,
    /// Batches of upkeep with more rows time out; 0 for none.
    most_rows: AtomicU32,
    /// The number of commits that wait for locked rows.
    commits: AtomicUsize,
    /// The maximum of `commits` so far.
    most: AtomicUsize,
}

impl Rows {
    /// Returns `true` if a commit times out.
    pub fn is_slow(&self, completions: &[Completion]) -> bool {
        let mut slow = lock(&self.slow_jobs);
        if let [_, second, ..] = completions
            && self.is_next_slow.swap(false, Ordering::SeqCst)
        {
            slow.insert(second.job);
        }
        completions.iter().any(|completion| slow.contains(&completion.job))
    }

    /// Lets batches of upkeep with more than `most` rows time out.
    pub fn time_out_above(&self, most: u32) {
        self.most_rows.store(most, Ordering::SeqCst);
    }

    /// Returns the error of a batch with so many rows.
    pub fn check_limit(&self, operation: &'static str, limit: u32) -> Result<()> {
        let most = self.most_rows.load(Ordering::SeqCst);
        if most == 0 || limit <= most {
            return Ok(());
        }
        Err(StoreError::new(operation, StoreErrorKind::Unavailable, "it took too long"))
    }

    /// Returns the result of a commit while the rows are locked, after the lock timeout: all its
    /// jobs are busy. Returns `None` if the rows are free.
    pub async fn locked_result(&self, completions: &[Completion]) -> Option<Committed> {
        if !self.are_held.load(Ordering::SeqCst) {
            return None;
        }
        let commits = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(commits, Ordering::SeqCst);
        live_for(LOCK_TIMEOUT).await;
        self.commits.fetch_sub(1, Ordering::SeqCst);
        let results = vec![CompletionResult::Busy; completions.len()];
        Some(Committed { results, ..Committed::default() })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Advances the clock by `span`, in small steps, so that the service can work in between.
async fn pass(clock: &Clock, span: Duration) {
    let steps = 25;
    for _ in 0..steps {
        clock.advance(span / steps);
        live_for(Duration::from_millis(1)).await;
    }
}

/// Advances the clock until all claims are renewed, four times.
async fn are_renewed(world: &mut World) {
    let (clock, sqlite) = (world.clock.clone(), world.process().sqlite.clone());
    for _ in 0..4 {
        clock.advance(CLAIM_TIME / 3);
        let renewed = async {
            let soon = || clock.now().plus(CLAIM_TIME / 2);
            while !sqlite.expired(soon(), 99).await.expect("read").is_empty() {
                pass(&clock, Duration::from_secs(1)).await;
            }
        };
        timeout(Duration::from_secs(10), renewed).await.expect("the claims are renewed");
    }
}

/// Returns a world with one schedule. Its ticks fire only if a test runs the leader.
async fn world() -> World {
    let mut world = World::new(9).await;
    world.create_every_minute().await;
    world
}

/// Heals the world and asserts that all invariants hold.
async fn holds(mut world: World) {
    world.heal().await;
    oracle::judge(&mut world).await;
    assert!(world.broken.is_empty(), "{}\n{}", world.trace.join("\n"), world.broken.join("\n"));
}

#[tokio::test]
async fn outcomes_whose_rows_are_held_are_the_work_of_one_task() {
    let mut world = world().await;
    let (clock, rows) = (world.clock.clone(), world.process().rows.clone());
    rows.are_held.store(true, Ordering::SeqCst);
    for _ in 0..JOBS {
        world.trigger().await;
        pass(&clock, Duration::from_millis(100)).await;
    }
    are_renewed(&mut world).await;
    let deferred = async {
        while world.process().executor.running().saturating_sub(world.target.open()) < JOBS / 2 {
            pass(&clock, Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(20), deferred).await.expect("half of the outcomes are deferred");
    // Two commits for new outcomes, one for deferred outcomes.
    let most = rows.most.load(Ordering::SeqCst);
    assert!(most <= 3, "{most} commits at once");
    rows.are_held.store(false, Ordering::SeqCst);
    holds(world).await;
}

#[tokio::test]
async fn the_claim_of_an_outcome_is_renewed_until_it_is_committed() {
    let mut world = world().await;
    let gate = world.process().gate.clone();
    gate.hold("commit");
    world.trigger().await;
    gate.reached().await;
    are_renewed(&mut world).await;
    gate.release();
    holds(world).await;
}

#[tokio::test]
async fn nothing_is_claimed_while_the_lease_cannot_be_renewed() {
    let mut world = world().await;
    let (clock, gate) = (world.clock.clone(), world.process().gate.clone());
    gate.hold("renew");
    clock.advance(CLAIM_TIME / 3);
    gate.reached().await;
    world.trigger().await;
    pass(&clock, CLAIM_TIME * 2).await;
    let running = world.process().executor.running();
    assert_eq!((running, world.target.hits().len()), (0, 0));
    gate.release();
    let claimed = async {
        while world.target.hits().is_empty() {
            pass(&clock, Duration::from_secs(1)).await;
        }
    };
    timeout(Duration::from_secs(20), claimed).await.expect("the job is claimed");
    holds(world).await;
}

#[tokio::test]
async fn a_stop_waits_for_the_commits() {
    let mut world = world().await;
    let gate = world.process().gate.clone();
    gate.hold("commit");
    world.trigger().await;
    gate.reached().await;
    let process = world.process();
    process.tasks.begin_stop();
    let grace = Duration::from_secs(3_600);
    let mut stop = Box::pin(process.executor.stop(grace));
    assert!(timeout(Duration::from_millis(50), &mut stop).await.is_err(), "it waits");
    gate.release();
    let stopped = timeout(Duration::from_secs(20), stop).await;
    assert!(stopped.expect("the stop ends"), "it was forced");
    assert_eq!(process.executor.running(), 0);
}

#[tokio::test]
async fn a_stop_waits_for_outcomes_whose_rows_are_held() {
    let mut world = world().await;
    let (clock, rows) = (world.clock.clone(), world.process().rows.clone());
    rows.are_held.store(true, Ordering::SeqCst);
    let deferred = async {
        while world.process().executor.running() <= world.target.open() {
            world.trigger().await;
            pass(&clock, Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(10), deferred).await.expect("an outcome is deferred");
    let process = world.process();
    process.tasks.begin_stop();
    let mut stop = Box::pin(process.executor.stop(Duration::from_secs(3_600)));
    let several_retries = pass(&clock, Duration::from_secs(5));
    tokio::select! {
        _ = &mut stop => panic!("the stop ended while rows are locked"),
        () = several_retries => {}
    }
    rows.are_held.store(false, Ordering::SeqCst);
    let retries = async {
        loop {
            pass(&clock, Duration::from_secs(1)).await;
        }
    };
    let stopped = async {
        tokio::select! {
            stopped = stop => stopped,
            () = retries => unreachable!(),
        }
    };
    let stopped = timeout(Duration::from_secs(20), stopped).await;
    assert!(stopped.expect("the stop ends"), "it was forced");
    assert_eq!(process.executor.running(), 0);
}

#[tokio::test]
async fn an_outcome_that_takes_the_store_too_long_keeps_no_other() {
    let mut world = world().await;
    let (clock, rows) = (world.clock.clone(), world.process().rows.clone());
    rows.is_next_slow.store(true, Ordering::SeqCst);
    for _ in 0..JOBS {
        world.trigger().await;
    }
    let committed = async {
        loop {
            pass(&clock, Duration::from_millis(200)).await;
            let left = world.process().executor.running().saturating_sub(world.target.open());
            if left == 1 && lock(&rows.slow_jobs).len() == 1 {
                return;
            }
        }
    };
    timeout(Duration::from_secs(20), committed).await.expect("all others are committed");
    let slow: Vec<JobId> = lock(&rows.slow_jobs).drain().collect();
    let jobs = world.jobs().await;
    let is_running = |job: &Job| job.status == JobStatus::Running;
    assert!(jobs.iter().any(|job| job.id == slow[0] && is_running(job)), "the slow job waits");
    assert!(jobs.iter().filter(|job| job.status.is_final()).count() >= JOBS / 3);
    holds(world).await;
}

/// The executor of the lost attempts.
const LOST: ExecutorId = ExecutorId(77);

/// Creates 40 attempts of an executor that is lost. The store takes too long to close the one that
/// is returned.
async fn lose_attempts(world: &mut World) -> JobId {
    let clock = world.clock.clone();
    let (rows, sqlite) = (world.process().rows.clone(), world.process().sqlite.clone());
    let schedule = world.history.alive()[0];
    let ids: Vec<_> = (0..40).map(|n| JobId::new(clock.now(), n)).collect();
    for id in &ids {
        let new = NewJob { id: *id, schedule };
        sqlite.create_job(&world.write(), &new, None).await.expect("made");
    }
    let (now, lease) = (clock.now(), Duration::from_secs(1));
    sqlite.renew(LOST, now.plus(lease), now).await.expect("begun");
    let claims = sqlite.claim(&ClaimRequest { executor: LOST, now }, &ids).await.expect("claimed");
    assert_eq!(claims.taken.len(), ids.len());
    lock(&rows.slow_jobs).insert(ids[17]);
    ids[17]
}

/// Returns the jobs whose attempts under the lost executor are still open.
async fn lost_attempts(world: &mut World) -> Vec<JobId> {
    let sqlite = world.process().sqlite.clone();
    let forever = Timestamp::from_millis(i64::MAX);
    let mut open = sqlite.expired(forever, 99).await.expect("read");
    open.retain(|claim| claim.executor == LOST);
    open.into_iter().map(|claim| claim.job).collect()
}

#[tokio::test]
async fn a_lost_attempt_that_takes_the_store_too_long_keeps_no_other_from_being_closed() {
    let mut world = world().await;
    let slow = lose_attempts(&mut world).await;
    let (clock, context) = (world.clock.clone(), world.process().context.clone());
    let mut rescuer = JobRescuer::new(context, RETRY, Random::seeded(3), false);
    rescuer.run_once(clock.now()).await.expect("no lease has ended");
    for _ in 0..9 {
        clock.advance(Duration::from_secs(2));
        // The job rescuer returns an error, because one attempt could not be closed.
        let _ = rescuer.run_once(clock.now()).await;
    }
    assert_eq!(lost_attempts(&mut world).await, [slow]);
    lock(&world.process().rows.slow_jobs).clear();
    rescuer.run_once(clock.now()).await.expect("rescued");
    assert_eq!(lost_attempts(&mut world).await, []);
}

/// A process that is alone with its store closes the attempts of the process before it, before it
/// starts anything. One of them must not keep it from starting.
#[tokio::test]
async fn a_lost_attempt_that_takes_the_store_too_long_keeps_no_process_from_starting() {
    let mut world = world().await;
    let slow = lose_attempts(&mut world).await;
    let (clock, context) = (world.clock.clone(), world.process().context.clone());
    let mut rescuer = JobRescuer::new(context, RETRY, Random::seeded(3), true);
    let mut tries = 1;
    while rescuer.run_once(clock.now()).await.is_err() {
        tries += 1;
        assert!(tries < 9, "the recovery ends");
    }
    assert_eq!(lost_attempts(&mut world).await, [slow]);
}
