//! Two sessions that need the same rows.

use std::time::Duration;

use punctual::domain::JobId;
use punctual::domain::schedule::OverlapPolicy;
use punctual::domain::shard::ShardId;
use punctual::store::{
    AttemptEnd, Cancelled, ClaimRequest, Fence, Fired, Firing, ScheduleChangeResult, ScheduleState,
    SharedStore, StoreErrorKind,
};
use sqlx::{Connection, PgConnection};
use tokio::time::timeout;

use super::super::world::{SHARD, World, every_job, fenced, minute, soon};
use super::world;
use crate::harness::database::{Database, run};

/// Waits until a session of the store waits for a lock.
pub async fn until_one_waits(other_session: &mut PgConnection) {
    until_so_many_wait(other_session, 1).await;
}

/// Waits until at least `sessions` sessions wait for a lock.
pub async fn until_so_many_wait(other_session: &mut PgConnection, sessions: i64) {
    let asked = so_many_wait(other_session, sessions);
    timeout(Duration::from_secs(10), asked).await.expect("a session waits");
}

async fn so_many_wait(other_session: &mut PgConnection, sessions: i64) {
    loop {
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
        .fetch_one(&mut *other_session)
        .await
        .expect("ask");
        if waiting >= sessions {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Makes a call of the store that must not wait for a lock, however slow it is. A wait is noticed
/// while it lasts, which is until the lock timeout.
pub async fn without_waiting<T>(database: &Database, call: impl Future<Output = T>) -> T {
    let mut other_session = database.second_connection().await;
    tokio::select! {
        result = call => result,
        () = so_many_wait(&mut other_session, 1) => panic!("the call waits for a lock"),
    }
}

/// The way in which a leader fires: alone, or with an executor that claims the jobs it has slots
/// for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Fire,
    Start,
}

/// Both ways, each with the policies of both firing statements.
const FIRINGS: [(Way, OverlapPolicy); 4] = [
    (Way::Fire, OverlapPolicy::Allow),
    (Way::Fire, OverlapPolicy::QueueOne),
    (Way::Start, OverlapPolicy::Allow),
    (Way::Start, OverlapPolicy::QueueOne),
];

/// Fires a schedule's next tick. Returns the result and the number of jobs that were claimed.
async fn fire(w: &World, way: Way, firing: &Firing) -> (Fired, usize) {
    fire_by(&w.store, &[w.fence], way, &w.claim_at(soon(firing.tick)), firing).await
}

async fn fire_by(
    store: &SharedStore,
    fences: &[Fence],
    way: Way,
    claim: &ClaimRequest,
    firing: &Firing,
) -> (Fired, usize) {
    let firings = std::slice::from_ref(firing);
    let fired = match way {
        Way::Fire => store.fire(fences, claim.now, firings).await.map(|fired| (fired, 0)),
        Way::Start => {
            let fired = store.fire_and_claim(fences, claim, firings).await;
            fired.map(|(fired, claims)| (fired, claims.taken.len()))
        }
    };
    fired.expect("fire")
}

/// Does the same in a task, while another session is in a transaction.
fn fire_beside(
    w: &World,
    way: Way,
    firing: Firing,
) -> impl Future<Output = (Fired, usize)> + use<'_> {
    let (store, fences, claim) = (w.store.clone(), [w.fence], w.claim_at(soon(firing.tick)));
    w.spawn(async move { fire_by(&store, &fences, way, &claim, &firing).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_fires_while_an_epoch_is_raised_or_after_that() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let (mut newer, mut other_session) =
        (database.second_connection().await, database.second_connection().await);
    for (way, policy) in FIRINGS {
        let id = w.schedule_with(|new| new.overlap_policy = policy).await;
        let firing = w.firing(id).await;
        let mut raised = newer.begin().await.expect("begin");
        run(&mut raised, "UPDATE shards SET epoch = epoch + 1 WHERE shard = 0").await;
        let (fired, _) = fire(&w, way, &firing).await;
        assert_eq!((fired.busy, fired.fenced), (vec![id], vec![]), "the firing does not wait");
        raised.commit().await.expect("commit");
        assert_eq!(fire(&w, way, &firing).await, (fenced(), 0), "{way:?} {policy:?}");
        assert_eq!(w.read(id).await.next_tick, Some(minute(1)));
        assert!(w.listed(&every_job()).await.is_empty());
        // Restores the epoch for the next case.
        run(&mut other_session, "UPDATE shards SET epoch = epoch - 1 WHERE shard = 0").await;
    }
}

/// Suspends the world's account, in a transaction of another session.
const SUSPEND: &str = "
    UPDATE accounts SET suspended_at = 1 WHERE name = 'own';
    UPDATE shards SET suspensions = suspensions + 1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_fires_while_its_account_is_suspended_or_after_that() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let mut operator = database.second_connection().await;
    for (way, policy) in FIRINGS {
        let id = w.schedule_with(|new| new.overlap_policy = policy).await;
        let firing = w.firing(id).await;
        let mut suspended = operator.begin().await.expect("begin");
        run(&mut suspended, SUSPEND).await;
        let mut suspended = Some(suspended);
        for _ in 0..2 {
            let (Fired { tickets, busy, .. }, claimed) = fire(&w, way, &firing).await;
            assert_eq!((tickets, claimed, busy), (vec![], 0, vec![id]), "{way:?} {policy:?}");
            if let Some(suspended) = suspended.take() {
                suspended.commit().await.expect("commit");
            }
        }
        drop(suspended);
        assert_eq!(w.read(id).await.next_tick, Some(minute(1)));
        assert!(w.listed(&every_job()).await.is_empty());
        run(&mut operator, "UPDATE accounts SET suspended_at = NULL").await;
    }
}

/// Deletes the world's account like a process that died before it updated the rows of the shards.
const DELETE: &str = "
    INSERT INTO deleted_accounts (id, name, deleted_at, actor, origin)
        SELECT id, name, 1, 'service', 'service' FROM accounts WHERE name = 'own';
    DELETE FROM accounts WHERE name = 'own'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_of_a_deleted_account_do_not_fire_while_it_is_erased() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let mut firings = Vec::new();
    for _ in 0..2 {
        firings.push(w.firing(w.schedule().await).await);
    }
    run(&mut database.second_connection().await, DELETE).await;
    assert_eq!(w.steady.erase(w.account, minute(1), 1).await.expect("erase").rows, 1);
    let Fired { tickets, busy, .. } =
        w.store.fire(&[w.fence], soon(minute(1)), &firings).await.expect("fire");
    assert_eq!((tickets.len(), busy.len()), (0, 1), "the other schedule is deleted");
    // A second erasure does not update the rows of the shards again.
    let mut other_session = database.second_connection().await;
    let mut fences = async || -> Vec<i64> {
        let query = "SELECT suspensions FROM shards ORDER BY shard";
        sqlx::query_scalar(query).fetch_all(&mut other_session).await.expect("read")
    };
    let before = fences().await;
    w.steady.erase(w.account, minute(1), 1).await.expect("erase");
    assert_eq!(fences().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_fires_keeps_a_suspension_waiting_and_no_other_leader() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    w.store.raise_epoch(ShardId(1), "another", minute(0)).await.expect("raise");
    let (mut leader, mut other_session) =
        (database.second_connection().await, database.second_connection().await);
    let mut fires = leader.begin().await.expect("begin");
    run(&mut fires, "SELECT FROM shards WHERE shard = 1 FOR SHARE").await;
    let (store, write) = (w.store.clone(), w.write(minute(1)));
    let suspended = w.spawn(async move { store.set_suspended(&write, true).await });
    until_one_waits(&mut other_session).await;
    run(&mut other_session, "SELECT FROM shards WHERE shard = 0 FOR SHARE NOWAIT").await;
    fires.commit().await.expect("commit");
    assert!(suspended.await.expect("suspend"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_hangs_keeps_no_account_and_no_other_shard() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    for shard in 1..4 {
        w.store.raise_epoch(ShardId(shard), "another", minute(0)).await.expect("raise");
    }
    let (mut leader, mut other_session) =
        (database.second_connection().await, database.second_connection().await);
    let mut hangs = leader.begin().await.expect("begin");
    run(&mut hangs, "SELECT FROM shards WHERE shard = 1 FOR SHARE").await;
    let mut fences = async || -> Vec<i64> {
        let query = "SELECT suspensions FROM shards ORDER BY shard";
        sqlx::query_scalar(query).fetch_all(&mut other_session).await.expect("read")
    };
    let error = w.store.set_suspended(&w.write(minute(1)), true).await.expect_err("one hangs");
    assert_eq!(error.kind(), StoreErrorKind::Locked, "to be called again");
    assert_eq!(fences().await, [1, 0, 1, 1]);
    assert!(w.store.delete_account(&w.write(minute(2))).await.expect("it is deleted"));
    assert_eq!(fences().await, [2, 0, 2, 2]);
    assert!(!w.store.delete_account(&w.write(minute(2))).await.expect("there is none"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_fires_keeps_a_newer_one_waiting() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let (mut holder, mut other_session) =
        (database.second_connection().await, database.second_connection().await);
    for (way, policy) in FIRINGS {
        let id = w.schedule_with(|new| new.overlap_policy = policy).await;
        w.manual_job(id, minute(0)).await;
        let firing = w.firing(id).await;
        // The statement has its fence, and waits for an uncommitted insert of the same job.
        let mut held = holder.begin().await.expect("begin");
        let made = sqlx::types::Uuid::from_bytes(firing.jobs[0].id.to_bytes());
        let columns = "account_id, schedule_id, version_id, created_at, updated_at, shard, status,
                       trigger, max_attempts";
        let make = format!(
            "INSERT INTO runs (id, {columns}) SELECT '{made}', {columns} FROM runs LIMIT 1"
        );
        run(&mut held, &make).await;
        let fired = fire_beside(&w, way, firing);
        until_one_waits(&mut other_session).await;
        let store = w.store.clone();
        let raised = w.spawn(async move { store.raise_epoch(SHARD, "r", minute(1)).await });
        held.rollback().await.expect("roll back");
        let (Fired { tickets, .. }, claimed) = fired.await;
        assert_eq!(tickets.len() + claimed, 1, "{way:?} {policy:?}");
        assert!(raised.await.expect("raise") > w.fence.epoch);
        let back = format!("UPDATE shards SET epoch = {} WHERE shard = 0", w.fence.epoch.0);
        run(&mut other_session, &back).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_being_changed_is_passed_over_and_then_taken_as_it_is() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let mut other_session = database.second_connection().await;
    for (change, fires) in [
        ("UPDATE schedule_state SET consecutive_failures = 7", true),
        ("UPDATE schedule_state SET next_tick = NULL", false),
        ("UPDATE schedule_state SET version_id = account_id", false),
        ("DELETE FROM schedule_state", false),
    ] {
        let id = w.schedule().await;
        let firing = w.firing(id).await;
        let mut other = database.second_connection().await;
        let mut changed = other.begin().await.expect("begin");
        run(&mut changed, change).await;
        let (fired, _) = fire(&w, Way::Fire, &firing).await;
        let Fired { tickets, busy, .. } = fired;
        assert_eq!((tickets.len(), busy), (0, vec![id]));
        changed.commit().await.expect("commit");
        let (fired, _) = fire(&w, Way::Fire, &firing).await;
        let Fired { tickets, stale, busy, .. } = fired;
        assert_eq!((tickets.len(), stale.len()), (usize::from(fires), usize::from(!fires)));
        assert_eq!(busy, []);
        let job = w.store.job(w.account, JobId::of_tick(id, minute(1))).await.expect("read");
        assert_eq!(job.is_some(), fires, "{change}");
        run(&mut other_session, "DELETE FROM schedule_state").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_held_for_long_is_not_waited_for() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let [locked, free] = [w.schedule().await, w.schedule().await];
    let change = ScheduleState { name: "other".into(), ..w.change(locked).await };
    let firings = [w.firing(locked).await];
    let mut holder = database.second_connection().await;
    let mut held = holder.begin().await.expect("begin");
    let hold = format!(
        "SELECT FROM schedules JOIN schedule_state ON schedule_id = id WHERE id = '{}' FOR UPDATE",
        sqlx::types::Uuid::from_bytes(locked.to_bytes())
    );
    run(&mut held, &hold).await;
    let waits = async {
        let (write, fences) = (w.write(minute(1)), [w.fence]);
        let (changed, fired, other) = tokio::join!(
            w.store.change_schedule(&write, locked, &change),
            w.store.fire(&fences, soon(minute(1)), &firings),
            w.fire_next(free),
        );
        assert_eq!(changed.expect_err("locked").kind(), StoreErrorKind::Locked);
        let passed_over = Fired { busy: vec![locked], ..Fired::default() };
        assert_eq!(fired.expect("fire"), passed_over);
        assert_eq!(other.len(), 1, "others go on");
    };
    timeout(Duration::from_secs(10), waits).await.expect("bounded waits");
    held.rollback().await.expect("roll back");
    let changed = w.store.change_schedule(&w.write(minute(1)), locked, &change).await;
    assert_eq!(changed.expect("change"), ScheduleChangeResult::Done(vec![]));
}

/// Operations that take several locks run concurrently, many times. No deadlock may occur, and no
/// operation may fail because of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_transactions_wait_in_a_circle() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    for round in 1..=12 {
        let mut ids = Vec::new();
        for (_, policy) in FIRINGS.into_iter().cycle().take(6) {
            ids.push(w.schedule_with(|new| new.overlap_policy = policy).await);
        }
        let (mut jobs, mut firings) = (Vec::new(), Vec::new());
        for id in &ids {
            jobs.push(w.tick_job(*id).await);
            firings.push(w.firing(*id).await);
        }
        let claimed = w.claim(minute(round + 1), &jobs).await;
        let end = |c| w.completion(c, None, AttemptEnd::Succeeded);
        let backwards: Vec<_> = claimed.iter().rev().map(end).collect();
        let now = minute(round + 2);
        let deletes = async {
            for id in ids.iter().take(3) {
                w.store.delete_schedule(&w.write(now), *id).await.expect("delete");
            }
        };
        let cancels = async {
            for job in jobs.iter().rev() {
                let cancelled = w.store.cancel_job(&w.write(now), *job).await.expect("cancel");
                assert!(matches!(cancelled, Cancelled::Done(_) | Cancelled::Finished));
            }
        };
        let fires = async { w.store.fire(&[w.fence], now, &firings).await.expect("fire") };
        let claim = w.claim_at(now);
        let starts = async {
            w.store.fire_and_claim(&[w.fence], &claim, &firings).await.expect("fire and claim")
        };
        let commits = async { w.store.commit(now, &backwards).await.expect("commit") };
        tokio::join!(fires, starts, commits, cancels, deletes);
    }
    let mut other_session = database.second_connection().await;
    run(&mut other_session, "SELECT pg_stat_clear_snapshot()").await;
    let deadlocks: i64 = sqlx::query_scalar(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
    )
    .fetch_one(&mut other_session)
    .await
    .expect("ask");
    assert_eq!(deadlocks, 0);
}
