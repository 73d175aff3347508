//! Leaders that crash, pause or stop.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use punctual::domain::{JobId, ScheduleId, Timestamp};
use punctual::runtime::faults::FaultPoint;
use sqlx::types::Uuid;
use sqlx::{Connection, PgConnection};

use super::history::Written;
use super::stores::LEASE;
use super::world::{ONE_SHARD_EACH, TAKEOVER_BOUND, USUAL, World, WorldConfig};
use crate::harness::wait::{TIMEOUT, live_for, until, within};

impl World {
    async fn epochs(&self) -> Vec<Written> {
        let writes = super::audit::read(self.stores.store.second_connection().await).await;
        writes.into_iter().filter(|write| matches!(write, Written::Epoch { .. })).collect()
    }
}

/// F01: a leader that is killed at any time is replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_killed_at_any_time_are_replaced() {
    let mut world = World::start(USUAL).await;
    world.fires_on(TAKEOVER_BOUND);
    for shard in [0, 5] {
        let part = world.users.random.unit();
        world.part_of_minute(part).await;
        let leader = world.leader_of(shard).await;
        world.kill_and_replace(leader).await;
        world.minutes(0.5).await;
    }
    world.holds().await;
}

/// F02, F04: a crash at any step of firing loses and doubles nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_that_die_at_any_step_of_firing_lose_and_double_nothing() {
    let mut world = World::start(USUAL).await;
    world.fires_on(TAKEOVER_BOUND);
    for point in [
        FaultPoint::BeforeFire,
        FaultPoint::AfterFire,
        FaultPoint::AfterStart,
        FaultPoint::AfterPush,
    ] {
        let leader = world.leader_of(0).await;
        world.begin_fault();
        world.replicas[leader].at(point, "die");
        world.replicas[leader].died().await;
        world.restart_once_replaced(leader).await;
    }
    world.minutes(1.0).await;
    world.holds().await;
}

/// F04: a crash inside the statement that creates jobs and advances ticks rolls back both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_dies_during_firing_has_fired_all_or_nothing() {
    let mut world = World::start(USUAL).await;
    let leader = world.leader_of(0).await;
    world.part_of_minute(0.5).await;
    world.begin_fault();
    let mut other = world.stores.store.second_connection().await;
    let mut lock = other.begin().await.expect("begun");
    make_a_job_that_is_due(&mut lock).await;
    let mut other_session = world.stores.store.second_connection().await;
    until("the leader waits for the job", async || {
        let waits: bool = sqlx::query_scalar(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                            AND datname = current_database()
                            AND application_name = 'punctual scheduler')",
        )
        .fetch_one(&mut other_session)
        .await
        .expect("asked");
        waits.then_some(())
    })
    .await;
    world.replicas[leader].kill();
    lock.rollback().await.expect("released");
    world.restart_once_replaced(leader).await;
    world.minutes(1.0).await;
    world.holds().await;
}

/// Inserts the job of a tick of shard 0 that its leader is about to fire. The leader then has
/// locked and advanced the states of its schedules, and waits for the end of this transaction.
async fn make_a_job_that_is_due(lock: &mut PgConnection) {
    let (id, tick): (Uuid, i64) = sqlx::query_as(
        "SELECT schedule_id, next_tick FROM schedule_state
         WHERE shard = 0 AND active_job_id IS NULL AND next_tick IS NOT NULL
         ORDER BY next_tick, schedule_id DESC LIMIT 1",
    )
    .fetch_one(&mut *lock)
    .await
    .expect("a schedule");
    let schedule = ScheduleId::from_bytes(id.into_bytes());
    let job = JobId::of_tick(schedule, Timestamp::from_millis(tick));
    sqlx::query(
        "INSERT INTO runs (id, account_id, schedule_id, version_id, shard, status, trigger,
                           max_attempts, wake_at, created_at, updated_at)
         SELECT $1, account_id, id, version_id, shard, 0, 0, 3, $3, $3, $3
         FROM schedules WHERE id = $2",
    )
    .bind(Uuid::from_bytes(job.to_bytes()))
    .bind(id)
    .bind(tick)
    .execute(lock)
    .await
    .expect("made");
}

impl World {
    /// Waits until a resumed replica no longer reports shards that others lead.
    async fn steps_down(&self, index: usize) {
        within(
            Duration::from_secs(10),
            "the resumed replica reports no shard of another leader",
            async || {
                let own = self.replicas[index].process().shards().await?;
                let leaders = self.leaders().await;
                let is_others = |shard: &i32| leaders.contains(&(*shard, index));
                own.iter().all(is_others).then_some(())
            },
        )
        .await;
    }
}

/// F05: a leader that is paused longer than its lease changes nothing when it resumes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_paused_past_its_lease_changes_nothing_when_it_resumes() {
    let mut world = World::start(USUAL).await;
    world.fires_on(TAKEOVER_BOUND);
    for shard in [0, 5] {
        let part = world.users.random.unit();
        world.part_of_minute(part).await;
        let leader = world.leader_of(shard).await;
        world.begin_fault();
        world.replicas[leader].hide_from_users();
        world.replicas[leader].pause();
        live_for(LEASE + Duration::from_secs(5)).await;
        world.led_without(leader).await;
        world.replicas[leader].resume();
        world.steps_down(leader).await;
        world.replicas[leader].ready().await;
        world.end_fault();
        world.minutes(0.7).await;
    }
    assert!(
        world.replicas.iter_mut().all(|replica| !replica.has_ended()),
        "no replica has crashed"
    );
    world.holds().await;
}

impl World {
    /// Pauses a leader between the check of its term and its write. Resumes it after its successor
    /// has raised the epoch and before the successor fires.
    pub async fn wake_a_leader_into_anothers_term(&mut self) {
        let stale = self.leader_of(0).await;
        self.part_of_minute(0.6).await;
        self.begin_fault();
        self.replicas[stale].at(FaultPoint::BeforeFire, "stop");
        self.replicas[stale].paused().await;
        // The leader serves all its shards at once, so it is about to write to each of them.
        let led = self.leaders().await.into_iter().filter(|(_, leader)| *leader == stale);
        let led: BTreeSet<_> = led.map(|(shard, _)| shard).collect();
        let others: Vec<_> = (0..self.replicas.len()).filter(|index| *index != stale).collect();
        others.iter().for_each(|index| self.replicas[*index].at(FaultPoint::AfterRaise, "stop"));
        let successor =
            until("another replica raises the epoch of a shard of the paused leader", async || {
                let mut leaders = self.leaders().await.into_iter();
                let new = leaders.find(|(shard, leader)| led.contains(shard) && *leader != stale);
                new.map(|(_, successor)| successor)
            })
            .await;
        self.replicas[successor].paused().await;
        self.replicas[stale].resume();
        if self.config.mutations.is_empty() {
            let process = self.replicas[stale].process();
            within(
                Duration::from_secs(10),
                "the write of the resumed leader is fenced",
                async || (process.counter("punctual_fenced_writes_total").await > 0).then_some(()),
            )
            .await;
        } else {
            // The wrong statement reports no fenced write.
            live_for(Duration::from_secs(2)).await;
        }
        others.iter().for_each(|index| self.replicas[*index].resume());
        for index in others {
            self.replicas[index].clear_fault_points();
            self.replicas[index].resume();
        }
        self.end_fault();
        self.minutes(1.0).await;
    }
}

impl World {
    /// Pauses the leader of shard 0 between the check of its term and its write. Resumes it after
    /// its successor has fired the same ticks.
    pub async fn wake_a_leader_after_another_has_fired(&mut self) {
        let stale = self.leader_of(0).await;
        self.part_of_minute(0.6).await;
        self.begin_fault();
        self.replicas[stale].at(FaultPoint::BeforeFire, "stop");
        self.replicas[stale].paused().await;
        let paused_at = self.lapse.now();
        self.replicas[stale].hide_from_users();
        self.led_without(stale).await;
        self.fires_up_to(paused_at, TIMEOUT).await;
        self.replicas[stale].resume();
        self.replicas[stale].ready().await;
        self.end_fault();
        self.minutes(1.0).await;
    }
}

/// F06: the epoch check in the store rejects a write after the leader's own check has passed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_paused_between_check_and_write_is_fenced() {
    let mut world = World::start(ONE_SHARD_EACH).await;
    world.wake_a_leader_into_anothers_term().await;
    world.wake_a_leader_after_another_has_fired().await;
    world.holds().await;
}

/// F07: a leader that is paused for less than its lease keeps its shards and epochs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_paused_for_less_than_its_lease_keeps_leading() {
    // The last renewal before a pause can be a quarter of the lease old.
    let settings = &[("PUNCTUAL_CLUSTER_LEASE_SECONDS", "10")];
    let mut world = World::start(WorldConfig { settings, ..USUAL }).await;
    let leader = world.leader_of(0).await;
    let before = (world.leaders().await, world.epochs().await);
    world.begin_fault();
    for _ in 0..3 {
        world.replicas[leader].pause();
        live_for(Duration::from_secs(4)).await;
        world.replicas[leader].resume();
        world.minutes(0.5).await;
    }
    world.end_fault();
    let after = (world.leaders().await, world.epochs().await);
    assert_eq!(after, before, "no other replica has led, and the leader has begun no new term");
    world.holds().await;
}

/// F08: the lease of a paused candidate expires while the leader lives. Then the leader dies, and
/// the candidate must not lead by its old lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_whose_lease_ended_during_a_pause_leads_nothing_by_it() {
    let mut world = World::start(USUAL).await;
    world.fires_on(TAKEOVER_BOUND * 2);
    let leader = world.leader_of(0).await;
    let candidate = (leader + 1) % world.replicas.len();
    let third = (leader + 2) % world.replicas.len();
    world.begin_fault();
    world.replicas[candidate].hide_from_users();
    world.replicas[candidate].pause();
    live_for(LEASE + Duration::from_secs(1)).await;
    world.replicas[leader].kill();
    world.led_without(leader).await;
    world.led_without(candidate).await;
    let led = world.leaders().await;
    assert!(led.iter().all(|(_, index)| *index == third), "{led:?}");
    world.replicas[candidate].resume();
    world.steps_down(candidate).await;
    world.replicas[candidate].ready().await;
    world.restart(leader).await;
    world.end_fault();
    world.minutes(2.0).await;
    world.holds().await;
}

/// F08: a candidate is paused after it won a shard and before it raised the epoch. The shard goes
/// to another replica, and the candidate must not take it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_paused_past_its_lease_takes_no_shard_of_others() {
    let mut world =
        World::start(WorldConfig { settings: &[("PUNCTUAL_CLUSTER_SHARDS", "24")], ..USUAL }).await;
    world.fires_on(TAKEOVER_BOUND * 2);
    let leader = world.leader_of(0).await;
    let candidate = (leader + 1) % world.replicas.len();
    world.begin_fault();
    world.replicas[candidate].at(FaultPoint::BeforeRaise, "stop");
    world.replicas[leader].kill();
    world.replicas[candidate].paused().await;
    world.replicas[candidate].hide_from_users();
    // Another member joins, so the shards are divided anew.
    world.restart(leader).await;
    world.led_without(candidate).await;
    world.minutes(0.3).await;
    world.replicas[candidate].resume();
    world.replicas[candidate].ready().await;
    world.end_fault();
    world.minutes(3.0).await;
    world.holds().await;
}

/// F17, F77: a rolling restart fails no call, repeats no attempt, and delays ticks only by a
/// hand-over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_fails_no_call_and_repeats_no_attempt() {
    let mut world = World::start(USUAL).await;
    world.fires_on(Duration::from_millis(2_000 + 1_500));
    world.calm = true;
    for index in 0..world.replicas.len() {
        // A load balancer stops new calls first. Running calls finish.
        world.replicas[index].hide_from_users();
        live_for(Duration::from_millis(500)).await;
        let asked = Instant::now();
        world.replicas[index].process().terminate();
        world.led_without(index).await;
        let took = asked.elapsed();
        assert!(took < Duration::from_millis(2_000 + 1_000), "handed over after {took:?}");
        let status = world.replicas[index].ended(Duration::from_secs(15)).await;
        assert_eq!(status.code(), Some(0), "a clean stop");
        world.restart(index).await;
        world.minutes(0.3).await;
    }
    world.holds().await;
}

/// F65: after ten minutes without a replica, the catch-up policies decide about the missed ticks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_ten_minutes_without_a_replica_the_policies_decide() {
    let mut world =
        World::start(WorldConfig { factor: 60, schedules: 18, users: 0, ..USUAL }).await;
    world.begin_fault();
    world.replicas.iter_mut().for_each(super::replica::Replica::kill);
    // A tick before this time can have fired while the replicas were killed.
    let begun = world.lapse.now();
    world.minutes(10.0).await;
    let ended = world.lapse.now();
    for index in 0..world.replicas.len() {
        world.launch(index);
    }
    for replica in &mut world.replicas {
        replica.ready().await;
    }
    world.end_fault();
    world.minutes(4.0).await;
    let history = world.holds().await;
    let missed = |tick: i64| begun < tick && tick < ended - super::lapse::MINUTE;
    for (index, schedule) in world.schedules.iter().enumerate() {
        let jobs = history.jobs.iter().filter(|job| job.schedule == *schedule && missed(job.tick));
        let skips = history.skips.iter().filter(|skip| skip.schedule == *schedule);
        let skipped = skips.filter(|skip| skip.reason == "catch_up").count();
        let (jobs, overlaps) = (jobs.count(), index / 5 % 5 == 2 || index / 5 % 5 == 4);
        match index % 3 {
            0 => assert!(jobs <= 1 && skipped > 0, "last: {jobs}"),
            1 => assert!((jobs >= 8 || overlaps) && skipped == 0, "all: {jobs}"),
            _ => assert!(jobs == 0 && skipped > 0, "skip: {jobs}"),
        }
    }
}
