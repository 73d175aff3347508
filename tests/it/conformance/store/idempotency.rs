use std::time::Duration;

use punctual::domain::JobId;
use punctual::domain::audit::Action;
use punctual::domain::call::{Idempotency, IdempotencyKey};
use punctual::store::{
    NewJob, Receipt, Reservation, Reserved, RetryResult, StoreErrorKind, WriteContext,
};

use super::world::{World, minute};

const SECOND: Duration = Duration::from_secs(1);

fn once(holder: u128) -> Idempotency {
    Idempotency { key: IdempotencyKey([5; 16]), holder }
}

fn asks(holder: u128) -> Reservation {
    Reservation { idempotency: once(holder), request: [1; 32] }
}

/// Returns a change under the reservation of `holder`.
fn write(w: &World, holder: u128) -> WriteContext {
    WriteContext { idempotency: Some(once(holder)), ..w.write(minute(1)) }
}

async fn reserve(w: &World, seconds: u32, reservation: &Reservation) -> Reserved {
    let now = minute(1).plus(SECOND * seconds);
    w.store.reserve(w.account, now, reservation).await.expect("reserve")
}

pub async fn the_first_call_runs_and_its_answer_is_kept(w: &World) {
    assert_eq!(reserve(w, 0, &asks(1)).await, Reserved::Yours);
    assert_eq!(reserve(w, 1, &asks(2)).await, Reserved::Running);
    let other = Reservation { request: [2; 32], ..asks(2) };
    assert_eq!(reserve(w, 1, &other).await, Reserved::Reused);
    w.store.keep_answer(w.account, once(2), "not mine").await.expect("keep");
    w.store.keep_answer(w.account, once(1), "first").await.expect("keep");
    w.store.keep_answer(w.account, once(1), "second").await.expect("keep");
    let first = || Reserved::Answered("first".to_owned());
    assert_eq!(reserve(w, 2, &asks(2)).await, first());
    assert_eq!(reserve(w, 2, &other).await, Reserved::Reused);
    w.store.release(w.account, once(1)).await.expect("release");
    let day = 24 * 3_600;
    assert_eq!(reserve(w, day - 1, &asks(2)).await, first(), "kept though released");
    assert_eq!(reserve(w, day, &other).await, Reserved::Yours, "its time is over");
}

pub async fn a_key_is_of_one_account(w: &World) {
    assert_eq!(reserve(w, 0, &asks(1)).await, Reserved::Yours);
    w.store.keep_answer(w.foreign, once(1), "foreign").await.expect("keep");
    w.store.release(w.foreign, once(1)).await.expect("release");
    assert_eq!(reserve(w, 1, &asks(2)).await, Reserved::Running);
    // The account is part of the hash of a key. Even an equal hash reveals nothing to another
    // account.
    let foreign = w.store.reserve(w.foreign, minute(1), &asks(3)).await.expect("reserve");
    assert_eq!(foreign, Reserved::Running);
}

pub async fn a_released_or_forgotten_key_can_be_used_again(w: &World) {
    assert_eq!(reserve(w, 0, &asks(1)).await, Reserved::Yours);
    w.store.release(w.account, once(1)).await.expect("release");
    assert_eq!(reserve(w, 1, &asks(2)).await, Reserved::Yours);
    assert_eq!(reserve(w, 60, &asks(3)).await, Reserved::Running);
    assert_eq!(reserve(w, 61, &asks(3)).await, Reserved::Yours, "the second was forgotten");
}

pub async fn the_effect_leaves_a_receipt_in_its_transaction(w: &World) {
    let schedule = w.schedule().await;
    assert_eq!(reserve(w, 0, &asks(1)).await, Reserved::Yours);
    let job = NewJob { id: JobId::new(minute(1), 7), schedule };
    let made = w.store.create_job(&write(w, 1), &job, None).await.expect("create");
    made.ticket().expect("a schedule");
    w.store.release(w.account, once(1)).await.expect("release");
    assert_eq!(reserve(w, 59, &asks(2)).await, Reserved::Running);
    let receipt = Receipt { action: Action::ScheduleTriggered, objects: vec![job.id.to_string()] };
    let unanswered = || Reserved::Unanswered(receipt.clone());
    assert_eq!(reserve(w, 60, &asks(2)).await, unanswered());
    w.store.keep_answer(w.account, once(1), "late").await.expect("keep");
    assert_eq!(reserve(w, 61, &asks(2)).await, unanswered(), "another one answers now");
    w.store.release(w.account, once(2)).await.expect("release");
    w.store.keep_answer(w.account, once(2), "rebuilt").await.expect("keep");
    assert_eq!(reserve(w, 62, &asks(3)).await, Reserved::Answered("rebuilt".to_owned()));
    let day = 24 * 3_600;
    assert_eq!(reserve(w, day, &asks(4)).await, Reserved::Yours, "counted from the first call");
}

pub async fn a_receipt_names_the_created_objects_in_order(w: &World) {
    assert_eq!(reserve(w, 0, &asks(1)).await, Reserved::Yours);
    let many: Vec<_> = (0..20).map(|_| w.new_schedule()).collect();
    w.store.create_schedules(&write(w, 1), &many, None).await.expect("create");
    let objects = many.iter().map(|new| new.id.to_string()).collect();
    let receipt = Receipt { action: Action::ScheduleCreated, objects };
    assert_eq!(reserve(w, 60, &asks(2)).await, Reserved::Unanswered(receipt));
}

pub async fn a_call_that_has_lost_its_key_has_no_effect(w: &World) {
    let schedule = w.schedule().await;
    let finished = w.manual_job(schedule, minute(1)).await;
    w.store.cancel_job(&w.write(minute(1)), finished).await.expect("cancel");
    assert_eq!(reserve(w, 0, &asks(1)).await, Reserved::Yours);
    assert_eq!(reserve(w, 60, &asks(2)).await, Reserved::Yours, "the first took too long");
    let again = JobId::new(minute(1), 8);
    w.store.begin_months(minute(1), &[w.account]).await.expect("begin");
    let counted = async || w.store.usage(w.account, minute(1)).await.expect("count").jobs_reserved;
    let error =
        w.store.retry_job(&write(w, 1), finished, again, Some(9)).await.expect_err("taken over");
    assert_eq!(error.kind(), StoreErrorKind::TakenOver);
    let error = w.store.create_schedules(&write(w, 1), &[w.new_schedule()], None).await;
    assert_eq!(error.expect_err("taken over").kind(), StoreErrorKind::TakenOver);
    assert_eq!(w.store.job(w.account, again).await.expect("read"), None);
    assert_eq!(counted().await, Some(1), "the finished one");
    let retried = w.store.retry_job(&write(w, 2), finished, again, Some(9)).await.expect("retry");
    assert!(matches!(retried, RetryResult::Created(_)), "{retried:?}");
    assert_eq!(counted().await, Some(2));
}

pub async fn of_many_at_once_one_runs(w: &World) {
    let mut calls = Vec::new();
    for holder in 1..=12 {
        let (store, account) = (w.store.clone(), w.account);
        calls.push(w.spawn(async move {
            store.reserve(account, minute(1), &asks(holder)).await.expect("reserve")
        }));
    }
    let mut mine = 0;
    for call in calls {
        match call.await {
            Reserved::Yours => mine += 1,
            said => assert_eq!(said, Reserved::Running),
        }
    }
    assert_eq!(mine, 1);
}

pub async fn old_answers_go_in_small_batches(w: &World) {
    for number in 0..5 {
        let key = IdempotencyKey([number; 16]);
        let reservation =
            Reservation { idempotency: Idempotency { key, holder: 1 }, request: [1; 32] };
        let now = minute(i64::from(number));
        w.store.reserve(w.account, now, &reservation).await.expect("reserve");
    }
    let mut rounds = Vec::new();
    for _ in 0..3 {
        // A repeated call would prune another batch.
        rounds.push(w.steady.prune_answers(minute(3), 2).await.expect("prune"));
    }
    assert_eq!(rounds, [2, 1, 0]);
}
