//! Upkeep of accounts: an account whose rows cannot be removed does not delay other accounts.

use std::sync::Arc;
use std::time::Duration;

use punctual::domain::key::{KeyDigest, Scope};
use punctual::domain::plan::{Plan, Plans, UNLIMITED};
use punctual::domain::signing::SigningSecret;
use punctual::domain::{AccountId, KeyId, SigningSecretId};
use punctual::runtime::{Clock, LoopPause, Random, Worker};
use punctual::scheduler::{AccountEraser, HistoryPruner, HistoryPrunerSettings, JobRescuer};
use punctual::store::{
    AccountStore, AuditQuery, AuditStore, DeletionStore, KeyCreated, NewKey, NewSecret,
    SigningStore, WriteContext,
};

use crate::gate::Fault;
use crate::process::{RETRY, run};
use crate::world::World;

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Creates two accounts in addition to the one of the world.
async fn accounts(world: &mut World, plan: &str) -> [AccountId; 2] {
    let now = world.clock.now();
    let accounts = [2, 3].map(|n| AccountId::new(now, n));
    for account in accounts {
        let write = WriteContext { account, ..world.write() };
        let made = world.process().sqlite.create_account(&write, &account.to_string(), plan).await;
        assert!(made.expect("created"));
    }
    accounts
}

/// Returns the number of rows of each account.
async fn rows(world: &mut World, accounts: [AccountId; 2]) -> [u64; 2] {
    let mut rows = [0; 2];
    for (rows, account) in rows.iter_mut().zip(accounts) {
        *rows = world.process().sqlite.rows_left(account).await.expect("count");
    }
    rows
}

/// Returns the number of accounts that have fewer rows than before.
fn fewer(now: [u64; 2], before: [u64; 2]) -> usize {
    now.iter().zip(before).filter(|(now, before)| **now < *before).count()
}

/// Returns a pruner that keeps the history of accounts for 30 days, and for one day on the plan
/// `short`.
fn pruner(world: &mut World) -> HistoryPruner {
    let plan = Plan { history_days: Some(1), ..Plan::unlimited("short") };
    let keep = HistoryPrunerSettings { history: 30 * DAY, audit_log: 30 * DAY };
    HistoryPruner::new(world.process().context.clone(), keep, Arc::new(Plans::new([plan])))
}

#[tokio::test]
async fn an_account_whose_history_cannot_be_pruned_keeps_no_other_waiting() {
    let mut world = World::new(12).await;
    let accounts = accounts(&mut world, "short").await;
    let before = rows(&mut world, accounts).await;
    let clock = world.clock.clone();
    clock.advance(2 * DAY);
    let mut pruner = pruner(&mut world);
    world.process().gate.arm_at("prune_account", Fault::Refused);
    run(&mut pruner, &clock).await.expect("the other is pruned");
    assert_eq!(fewer(rows(&mut world, accounts).await, before), 1);
    clock.advance(Duration::from_secs(600));
    run(&mut pruner, &clock).await.expect("no fault is armed");
    assert_eq!(fewer(rows(&mut world, accounts).await, before), 2, "it has its turn again");
}

/// Creates data of each kind that expires: an audit entry, a key and a signing secret.
async fn let_things_expire(world: &mut World) {
    let now = world.clock.now();
    let (writes, sqlite) = ([world.write(), world.write()], &world.process().sqlite);
    let key = NewKey {
        id: KeyId::new(now, 1),
        name: "short".to_owned(),
        scope: Scope::Write,
        digest: KeyDigest([1; 32]),
        expires_at: Some(now),
    };
    assert_eq!(sqlite.create_key(&writes[0], &key).await.expect("created"), KeyCreated::Done);
    let secret = SigningSecret::new(|bytes| bytes.fill(7));
    let new = NewSecret { id: SigningSecretId::new(now, 2), secret, old_expires_at: now };
    assert!(sqlite.rotate_signing_secret(&writes[1], &new).await.expect("rotated"));
}

#[tokio::test]
async fn a_kind_that_cannot_be_pruned_keeps_no_other_waiting() {
    let kinds = ["prune_audit_log", "prune_keys", "prune_signing_secrets"];
    let others = ["prepare", "prune", "prune_answers", "prune_logins"];
    for kind in kinds.into_iter().chain(others) {
        let mut world = World::new(14).await;
        let_things_expire(&mut world).await;
        let (clock, account) = (world.clock.clone(), world.write().account);
        clock.advance(90 * DAY);
        let mut pruner = pruner(&mut world);
        let left = async |world: &mut World| {
            let sqlite = &world.process().sqlite;
            let query = AuditQuery {
                from: None,
                to: None,
                actor: None,
                action: None,
                after: None,
                limit: 9,
            };
            let log = sqlite.audit_log(account, &query).await.expect("read").entries;
            let keys = sqlite.keys(account).await.expect("list");
            let secrets = sqlite.signing_secrets(account).await.expect("list");
            [!log.is_empty(), !keys.is_empty(), secrets.len() > 1]
        };
        assert_eq!(left(&mut world).await, [true; 3]);
        world.process().gate.arm_at(kind, Fault::Refused);
        let error = run(&mut pruner, &clock).await.expect_err("the failure is reported");
        assert!(error.to_string().contains(&format!("({kind})")), "{error}");
        assert_eq!(left(&mut world).await, kinds.map(|one| one == kind), "{kind} failed");
        run(&mut pruner, &clock).await.expect("no fault is armed");
        assert_eq!(left(&mut world).await, [false; 3]);
    }
}

#[tokio::test]
async fn a_deleted_account_that_cannot_be_removed_keeps_no_other_waiting() {
    let mut world = World::new(13).await;
    let accounts = accounts(&mut world, UNLIMITED).await;
    for account in accounts {
        let write = WriteContext { account, ..world.write() };
        assert!(world.process().sqlite.delete_account(&write).await.expect("deleted"));
    }
    let before = rows(&mut world, accounts).await;
    let (clock, context) = (world.clock.clone(), world.process().context.clone());
    world.process().gate.arm_at("erase", Fault::Refused);
    let mut eraser = AccountEraser::new(context);
    run(&mut eraser, &clock).await.expect_err("one failure is reported");
    assert_eq!(fewer(rows(&mut world, accounts).await, before), 1);
}

/// Runs a worker while one operation takes `span`.
async fn run_slowly(
    world: &mut World,
    worker: &mut dyn Worker,
    operation: &'static str,
    span: Duration,
) -> LoopPause {
    let (clock, gate) = (world.clock.clone(), world.process().gate.clone());
    gate.hold(operation);
    let slowly = async {
        gate.reached().await;
        clock.advance(span);
        gate.release();
    };
    let (ran, ()) = tokio::join!(worker.run_once(clock.now()), slowly);
    ran.expect("it has its turn")
}

#[tokio::test]
async fn upkeep_rests_nine_times_as_long_as_it_took() {
    let ms = Duration::from_millis;
    let mut world = World::new(15).await;
    let (now, context) = (world.clock.now(), world.process().context.clone());
    let many: Vec<_> = (10..40).map(|n| AccountId::new(now, n)).collect();
    for account in many {
        let write = WriteContext { account, ..world.write() };
        let name = account.to_string();
        let made = world.process().sqlite.create_account(&write, &name, "short");
        assert!(made.await.expect("created"));
    }
    let mut pruner = pruner(&mut world);
    // There are more accounts than one round looks at.
    let pause = run_slowly(&mut world, &mut pruner, "prune_account", ms(300)).await;
    assert_eq!(pause, LoopPause::For(ms(2_700)));

    let accounts = accounts(&mut world, UNLIMITED).await;
    let write = WriteContext { account: accounts[0], ..world.write() };
    assert!(world.process().sqlite.delete_account(&write).await.expect("deleted"));
    let mut eraser = AccountEraser::new(context);
    for (took, rest) in [(200, 1_800), (2, 100), (9_000, 5_000)] {
        let pause = run_slowly(&mut world, &mut eraser, "erase", ms(took)).await;
        assert_eq!(pause, LoopPause::For(ms(rest)), "{took} ms");
    }
}

/// Empty accounts that wait for their final deletion do not delay the removal of other accounts.
#[tokio::test]
async fn empty_accounts_do_not_delay_others() {
    let mut world = World::new(16).await;
    let now = world.clock.now();
    let (sqlite, context) = {
        let process = world.process();
        (process.sqlite.clone(), process.context.clone())
    };
    let empty: Vec<_> = (100..150).map(|n| AccountId::new(now, n)).collect();
    for account in &empty {
        let write = WriteContext { account: *account, ..world.write() };
        assert!(
            sqlite.create_account(&write, &account.to_string(), UNLIMITED).await.expect("made")
        );
        let write = WriteContext { account: *account, ..world.write() };
        assert!(sqlite.delete_account(&write).await.expect("deleted"));
    }
    world.clock.advance(Duration::from_secs(1));
    let last = accounts(&mut world, UNLIMITED).await[0];
    let write = WriteContext { account: last, ..world.write() };
    assert!(sqlite.delete_account(&write).await.expect("deleted"));
    assert!(sqlite.rows_left(last).await.expect("counted") > 0);
    let mut eraser = AccountEraser::new(context);
    for _ in 0..20 {
        eraser.run_once(world.clock.now()).await.expect("a round");
    }
    assert_eq!(sqlite.rows_left(last).await.expect("counted"), 0);
}

/// Runs a worker until batches of 500 rows have become small enough: three fail.
async fn fail_three_times(worker: &mut dyn Worker, clock: &Clock) {
    for _ in 0..3 {
        let error = run(worker, clock).await.expect_err("the batch is too large");
        assert!(error.to_string().contains("it took too long"), "{error}");
    }
    run(worker, clock).await.expect("62 rows are few enough");
}

#[tokio::test]
async fn no_batch_of_upkeep_that_timed_out_is_repeated_unchanged() {
    let mut world = World::new(17).await;
    let accounts = accounts(&mut world, "short").await;
    let (clock, context) = (world.clock.clone(), world.process().context.clone());
    clock.advance(90 * DAY);
    world.process().rows.time_out_above(100);

    fail_three_times(&mut pruner(&mut world), &clock).await;

    let write = WriteContext { account: accounts[0], ..world.write() };
    assert!(world.process().sqlite.delete_account(&write).await.expect("deleted"));
    let before = rows(&mut world, accounts).await;
    fail_three_times(&mut AccountEraser::new(context.clone()), &clock).await;
    assert_eq!(fewer(rows(&mut world, accounts).await, before), 1);

    // It begins with batches of 1,000 rows.
    let mut rescuer = JobRescuer::new(context, RETRY, Random::seeded(4), false);
    run(&mut rescuer, &clock).await.expect_err("the first batch is too large");
    fail_three_times(&mut rescuer, &clock).await;
}

#[tokio::test]
async fn the_batches_of_an_account_that_time_out_become_smaller() {
    let mut world = World::new(18).await;
    let accounts = accounts(&mut world, "short").await;
    let before = rows(&mut world, accounts).await;
    let clock = world.clock.clone();
    clock.advance(2 * DAY);
    let mut pruner = pruner(&mut world);
    world.process().rows.time_out_above(499);
    run(&mut pruner, &clock).await.expect_err("the history of all accounts fails, too");
    assert_eq!(fewer(rows(&mut world, accounts).await, before), 0);
    clock.advance(Duration::from_secs(600));
    run(&mut pruner, &clock).await.expect("250 rows are few enough");
    assert_eq!(fewer(rows(&mut world, accounts).await, before), 2);
}
