//! Cases of the deletion and the export of an account.

use std::time::Duration;

use punctual::domain::audit::Action;
use punctual::domain::call::{Idempotency, IdempotencyKey};
use punctual::domain::plan::month_of;
use punctual::domain::schedule::{SkipReason, UnreadableFields};
use punctual::domain::user::Role;
use punctual::domain::{AccountId, JobId};
use punctual::store::{
    AttemptEnd, ClaimedJob, CompletionResult, ErasureResult, Fired, Firing, KeyCreated,
    MemberChange, MemberChanged, NewJob, NewSchedule, Reservation, Reserved, SETTLED,
    ScheduleState, TickRange, TriggerResult, WantedJobs, WriteContext,
};

use super::accounts::new_key;
use super::users::{address, audit_context, member, new_invitation, user};
use super::world::{World, definition, every_job, every_schedule, failure, minute, soon};

/// Gives the world's own account rows in every table that has rows of accounts. Returns a running
/// job and a waiting job.
pub async fn fill(w: &World) -> (ClaimedJob, JobId) {
    let id = w.schedule().await;
    w.schedule_with(|new| new.is_enabled = false).await;
    let firing = w.firing(id).await;
    let range = TickRange { first: minute(1), last: minute(1), count: 1 };
    let skips = vec![(range, SkipReason::Quota)];
    w.fire(soon(minute(1)), &[Firing { skips, jobs: vec![], ..firing }]).await;
    let done = w.manual_job(id, minute(2)).await;
    w.run(minute(2), done, AttemptEnd::Retry(failure(), minute(3))).await;
    w.run(minute(3), done, AttemptEnd::Failed(failure())).await;
    let [running, waiting] = [w.manual_job(id, minute(3)).await, w.manual_job(id, minute(3)).await];
    let mut claimed = w.claim(minute(3), &[running]).await;
    w.store.create_key(&w.write(minute(3)), &new_key(1)).await.expect("create a key");
    member(w, "ann", Role::Owner).await;
    let invitation = new_invitation(1, "cy");
    assert!(w.store.create_invitation(&w.write(minute(3)), &invitation).await.expect("invite"));
    let wanted = WantedJobs { account: w.account, quota: 100, jobs: 1 };
    w.store.begin_months(minute(3), &[w.account]).await.expect("begin");
    w.store.reserve_jobs(minute(3), 0, &[wanted]).await.expect("reserve");
    let once = Idempotency { key: IdempotencyKey([7; 16]), holder: 8 };
    let reservation = Reservation { idempotency: once, request: [9; 32] };
    let reserved = w.store.reserve(w.account, minute(3), &reservation).await.expect("reserve");
    assert_eq!(reserved, Reserved::Yours);
    (claimed.remove(0), waiting)
}

/// Gives the other account rows, too, except for users and idempotency keys, which other cases
/// cover. Returns its schedule.
pub async fn fill_foreign(w: &World) -> NewSchedule {
    let new = w.new_schedule();
    let write = w.write_for(w.foreign, minute(1));
    w.store.create_schedules(&write, std::slice::from_ref(&new), None).await.expect("create");
    for n in [1, 2] {
        let job = NewJob { id: JobId::new(minute(2), n), schedule: new.id };
        let write = w.write_for(w.foreign, minute(2));
        let made = w.store.create_job(&write, &job, None).await.expect("create");
        assert!(matches!(made, TriggerResult::Created(_)), "{made:?}");
    }
    let done = JobId::new(minute(2), 1);
    w.run(minute(2), done, AttemptEnd::Retry(failure(), minute(3))).await;
    let write = w.write_for(w.foreign, minute(2));
    w.store.create_key(&write, &new_key(2)).await.expect("create a key");
    new
}

fn delete(w: &World) -> WriteContext {
    w.write(minute(4))
}

/// Erases the account in rounds until nothing is left. Returns the rounds.
pub async fn erase_all(w: &World, account: AccountId) -> Vec<ErasureResult> {
    let mut rounds = Vec::new();
    loop {
        let round = w.store.erase(account, minute(5), 2).await.expect("erase");
        if round.rows == 0 {
            return rounds;
        }
        rounds.push(round);
    }
}

pub async fn a_deleted_account_is_unusable_at_once(w: &World) {
    let (running, waiting) = fill(w).await;
    let id = w.job(waiting).await.schedule_id;
    let firing = w.firing(id).await;
    let ann = w.store.user_named(&address("ann")).await.expect("read").expect("a user").id;
    let bob = user(w, "bob").await;
    assert!(w.store.delete_account(&delete(w)).await.expect("delete"));
    assert!(!w.store.delete_account(&delete(w)).await.expect("delete"), "it is already deleted");

    assert_eq!(w.store.account(w.account).await.expect("read"), None);
    let names: Vec<_> =
        w.store.accounts().await.expect("list").into_iter().map(|a| a.name).collect();
    assert_eq!(names, ["foreign"]);
    assert_eq!(w.store.key(new_key(1).id).await.expect("read"), None);
    assert_eq!(w.store.role(w.account, ann).await.expect("read"), None);
    assert_eq!(w.store.memberships(ann).await.expect("list"), []);
    let joined = w
        .store
        .accept_invitation(&audit_context(w, minute(4)), bob, new_invitation(1, "bob").digest)
        .await;
    assert_eq!(joined.expect("accept"), None);
    let change = MemberChange::Add(Role::Owner);
    let added = w.store.change_member(&w.write(minute(4)), bob, change).await;
    assert_eq!(added.expect("change"), MemberChanged::NoSuchMember);
    let key = w.store.create_key(&w.write(minute(4)), &new_key(3)).await.expect("create");
    assert_eq!(key, KeyCreated::NoSuchAccount);

    // A caller that was authenticated before the deletion sees no data.
    assert_eq!(w.store.schedule(w.account, id).await.expect("read"), None);
    assert_eq!(w.store.job(w.account, waiting).await.expect("read"), None);
    let schedules = w.store.schedules(w.account, &every_schedule()).await.expect("list");
    assert_eq!((schedules.schedules, schedules.total), (vec![], 0));
    let jobs = w.store.jobs(w.account, &every_job()).await.expect("list");
    assert_eq!((jobs.jobs, jobs.total), (vec![], 0));
    assert!(w.skips(id).await.is_empty());
    for key in [IdempotencyKey([7; 16]), IdempotencyKey([8; 16])] {
        let asked = Reservation { idempotency: Idempotency { key, holder: 9 }, request: [9; 32] };
        let reserved = w.store.reserve(w.account, minute(30), &asked).await.expect("reserve");
        assert_eq!(reserved, Reserved::Running, "no kept answer is returned");
    }

    assert_eq!(w.candidates(&[id]).await, []);
    // A candidate that was read before the deletion does not fire, either.
    let fired = w.store.fire(&[w.fence], soon(firing.tick), std::slice::from_ref(&firing)).await;
    let Fired { tickets, advanced, fenced, .. } = fired.expect("fire");
    assert!(tickets.is_empty() && advanced.is_empty() && fenced.is_empty());
    let claims = w.store.claim(&w.claim_at(minute(9)), &[waiting]).await.expect("claim");
    assert_eq!(claims.taken, []);
    assert_eq!(w.store.late(minute(9), None, 100).await.expect("read"), []);
    // A running attempt ends as usual.
    let ended = w.completion(&running, None, AttemptEnd::Succeeded);
    let committed = w.store.commit(minute(5), &[ended]).await.expect("commit");
    assert!(matches!(committed.results[..], [CompletionResult::Applied(_)]), "{committed:?}");
}

pub async fn its_attempts_are_to_be_aborted_until_it_is_gone(w: &World) {
    let (running, _) = fill(w).await;
    let to_abort = async || w.store.aborts().await.expect("read").accounts;
    assert_eq!(to_abort().await, []);
    assert!(w.store.delete_account(&delete(w)).await.expect("delete"));
    assert_eq!(to_abort().await, [running.account]);
    erase_all(w, w.account).await;
    assert_eq!(to_abort().await, [running.account], "its rows are removed first");
    let settled = minute(4).plus(SETTLED);
    assert!(w.steady.erase(w.account, settled, 2).await.expect("erase").gone);
    assert_eq!(to_abort().await, []);
}

pub async fn its_rows_are_removed_in_small_batches(w: &World) {
    let (running, _) = fill(w).await;
    assert_eq!(
        w.store.erase(w.account, minute(4), 9).await.expect("erase"),
        ErasureResult::default()
    );
    assert!(w.store.delete_account(&delete(w)).await.expect("delete"));
    let all = w.store.rows_left(w.account).await.expect("count");
    // After an interruption, the next call continues with the rows that are left.
    let first = w.store.erase(w.account, minute(5), 1).await.expect("erase");
    assert!(first.rows > 0 && !first.gone, "{first:?}");
    assert_eq!(w.store.rows_left(w.account).await.expect("count"), all - first.rows);
    let rounds = erase_all(w, w.account).await;
    let rows: u64 = rounds.iter().map(|round| round.rows).sum();
    assert_eq!(first.rows + rows, all);
    let schedules = rounds.iter().chain([&first]).flat_map(|round| &round.schedules);
    assert_eq!(schedules.count(), 2);
    assert_eq!(w.store.rows_left(w.account).await.expect("count"), 0);
    assert_eq!(w.store.job(w.account, running.job).await.expect("read"), None);
    // An executor that still runs an attempt learns that its claim is lost.
    let ended = w.completion(&running, None, AttemptEnd::Succeeded);
    let committed = w.store.commit(minute(5), &[ended]).await.expect("commit");
    assert_eq!(committed.results, [CompletionResult::Lost]);
}

pub async fn it_is_gone_when_nothing_can_follow(w: &World) {
    fill(w).await;
    assert!(w.store.delete_account(&delete(w)).await.expect("delete"));
    erase_all(w, w.account).await;
    let deleted = w.store.deleted_accounts().await.expect("list");
    let [deleted] = &deleted[..] else { panic!("{deleted:?}") };
    assert_eq!((deleted.id, deleted.name.as_str()), (w.account, "own"));
    assert_eq!((deleted.deleted_at, deleted.actor.as_str()), (minute(4), "service"));
    assert_eq!(deleted.gone_at, None, "a call may still be under way");
    let going = async |limit| w.steady.accounts_to_erase(None, limit).await.expect("list").len();
    assert_eq!((going(9).await, going(0).await), (1, 0));
    let after = w.steady.accounts_to_erase(Some(deleted.position()), 9).await.expect("list");
    assert_eq!(after, [], "the next page");
    // Such a call writes after the deletion.
    w.store.enter_reading(&w.write(minute(5)), Action::AccountExported).await.expect("enter");
    let settled = minute(4).plus(SETTLED);
    // A repeated call would find it gone.
    assert!(!w.steady.erase(w.account, settled, 9).await.expect("erase").gone);
    erase_all(w, w.account).await;
    let early = settled.minus(Duration::from_millis(1));
    assert!(!w.store.erase(w.account, early, 9).await.expect("erase").gone);
    assert!(w.store.erase(w.account, settled, 9).await.expect("erase").gone);
    let deleted = w.store.deleted_accounts().await.expect("list");
    assert_eq!(deleted[0].gone_at, Some(settled));
    assert_eq!(going(9).await, 0);
    let again = w.store.erase(w.account, minute(60), 9).await.expect("erase");
    assert_eq!(again, ErasureResult::default());
    let again = w.store.create_account(&w.write(minute(60)), "own", "unlimited").await;
    assert!(again.expect("create"), "its name is free");
}

pub async fn accounts_of_others_stay_whole(w: &World) {
    let other = fill_foreign(w).await;
    fill(w).await;
    let before = w.store.rows_left(w.foreign).await.expect("count");
    assert!(w.store.delete_account(&delete(w)).await.expect("delete"));
    erase_all(w, w.account).await;
    // The other account is not deleted, so nothing of it is erased.
    assert_eq!(
        w.store.erase(w.foreign, minute(5), 9).await.expect("erase"),
        ErasureResult::default()
    );
    assert_eq!(w.store.rows_left(w.foreign).await.expect("count"), before);
    let read = w.store.schedule(w.foreign, other.id).await.expect("read").expect("a schedule");
    assert_eq!(read.next_tick, other.next_tick);
    let (job, attempts) =
        w.store.job(w.foreign, JobId::new(minute(2), 1)).await.expect("read").expect("a job");
    assert_eq!((job.attempt_number, attempts.len()), (1, 1));
    let claimed = w.claim(minute(5), &[JobId::new(minute(2), 2)]).await;
    assert_eq!(claimed.len(), 1);
}

pub async fn versions_and_skips_are_read_in_pages(w: &World) {
    let (_, waiting) = fill(w).await;
    fill_foreign(w).await;
    let id = w.job(waiting).await.schedule_id;
    let change = ScheduleState { version: Some(w.new_version(definition())), ..w.change(id).await };
    w.store.change_schedule(&w.write(minute(4)), id, &change).await.expect("change");
    w.store.delete_schedule(&w.write(minute(5)), id).await.expect("delete");
    let (mut versions, mut after) = (Vec::new(), None);
    loop {
        let page = w.store.versions(w.account, after, 2).await.expect("read");
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        versions.extend(page);
    }
    assert!(versions.is_sorted_by(|a, b| a.id < b.id));
    assert_eq!(versions.len(), 3);
    assert!(versions.iter().all(|version| version.definition == definition()), "opened");
    assert!(versions.iter().all(|version| version.unreadable == UnreadableFields::default()));
    let retired = versions.iter().filter_map(|version| version.retired_at).collect::<Vec<_>>();
    assert_eq!(retired.len(), 2, "{retired:?}");
    let skips = w.store.skips_of(w.account, None, 9).await.expect("read");
    let [stored] = &skips[..] else { panic!("{skips:?}") };
    assert_eq!((stored.schedule, stored.skip.first), (id, minute(1)));
    let more = w.store.skips_of(w.account, Some(stored.position), 9).await.expect("read");
    assert_eq!(more, []);
    assert_eq!(w.store.skips_of(w.foreign, None, 9).await.expect("read"), []);
    let months = w.store.months(w.account).await.expect("read");
    let [month] = &months[..] else { panic!("{months:?}") };
    assert_eq!((month.month, month.exhausted_at), (month_of(minute(3)), None));
    assert_eq!(
        month.reserved,
        w.store.usage(w.account, minute(3)).await.expect("read").jobs_reserved.expect("counted")
    );
    assert_eq!(w.store.months(w.foreign).await.expect("read"), []);
}
