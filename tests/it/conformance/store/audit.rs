use punctual::domain::audit::{Action, Actor, Author, Origin, ShortName};
use punctual::domain::plan::UNLIMITED;
use punctual::domain::user::Role;
use punctual::domain::{AccountId, JobId, KeyId, UserId};
use punctual::store::{
    Account, AttemptEnd, AuditContext, AuditEntry, AuditQuery, Cancelled, ExpectedState,
    INSTALLATION, JoinedAccount, MemberChange, MemberChanged, NewJob, NewUser,
    ScheduleChangeResult, ScheduleState, SessionEnding, StoreErrorKind, TriggerResult, UserCreated,
    WriteContext,
};

use super::accounts::new_key;
use super::sessions::{new_reset, new_session};
use super::signing::new_secret;
use super::users::{address, audit_context, digest, hash, member, new_invitation, user};
use super::world::{World, minute};

pub(super) fn everything() -> AuditQuery {
    AuditQuery { from: None, to: None, actor: None, action: None, after: None, limit: 1_000 }
}

/// Returns the entries of the account, oldest first.
async fn entries(w: &World) -> Vec<AuditEntry> {
    let page = w.store.audit_log(w.account, &everything()).await.expect("list");
    assert!(!page.has_more);
    page.entries.into_iter().rev().collect()
}

/// Asserts the number of entries, and the action and the object of the last one.
async fn last_is(w: &World, count: usize, action: Action, object: impl ToString) {
    let entries = entries(w).await;
    let last = entries.last().expect("an entry");
    assert_eq!((entries.len(), &*last.action), (count, action.as_str()), "{entries:?}");
    assert_eq!(last.object, object.to_string());
}

/// The number of entries for the world's own account and its schedule.
const BEFORE: usize = 2;

pub async fn an_entry_has_actor_action_and_origin(w: &World) {
    let key = KeyId::new(minute(0), 5);
    let origin = Origin::Client("192.0.2.7".parse().expect("an address"));
    let by_key = Author { actor: Actor::Key(key), origin };
    let alice = ShortName::new("alice");
    let by_alice = Author { actor: Actor::Operator(alice), origin: Origin::Host(alice) };
    let schedule = w.new_schedule();
    let write = WriteContext { author: by_key, ..w.write(minute(1)) };
    let ids = (schedule.id, new_key(1).id);
    w.store.create_schedules(&write, &[schedule], None).await.expect("create");
    let write = WriteContext { author: by_alice, ..w.write(minute(2)) };
    w.store.create_key(&write, &new_key(1)).await.expect("create");
    let entries = entries(w).await;
    let told: Vec<_> = entries
        .iter()
        .map(|entry| {
            let AuditEntry { id, actor, action, object, origin } = entry;
            let action: Action = action.parse().expect("an action");
            (id.timestamp(), actor.as_str(), action, object.clone(), origin.as_str())
        })
        .collect();
    let key = key.to_string();
    assert_eq!(
        told,
        [
            (minute(0), "service", Action::AccountCreated, w.account.to_string(), "service"),
            (minute(1), &*key, Action::ScheduleCreated, ids.0.to_string(), "192.0.2.7"),
            (minute(2), "operator:alice", Action::KeyCreated, ids.1.to_string(), "host:alice"),
        ]
    );
}

pub async fn every_change_is_entered_once(w: &World) {
    let id = w.schedule().await;
    last_is(w, BEFORE, Action::ScheduleCreated, id).await;
    let change = ScheduleState { action: Action::ScheduleDisabled, ..w.change(id).await };
    let change = ScheduleState { is_enabled: false, ..change };
    w.store.change_schedule(&w.write(minute(1)), id, &change).await.expect("change");
    last_is(w, 3, Action::ScheduleDisabled, id).await;
    let job = w.manual_job(id, minute(2)).await;
    last_is(w, 4, Action::ScheduleTriggered, id).await;
    w.run(minute(2), job, AttemptEnd::Succeeded).await;
    let again = JobId::new(minute(3), 1);
    w.store.retry_job(&w.write(minute(3)), job, again, None).await.expect("retry");
    last_is(w, 5, Action::JobRetried, job).await;
    w.store.cancel_job(&w.write(minute(4)), again).await.expect("cancel");
    last_is(w, 6, Action::JobCancelled, again).await;
    let running = w.manual_job(id, minute(5)).await;
    w.claim(minute(5), &[running]).await;
    w.store.cancel_job(&w.write(minute(6)), running).await.expect("cancel");
    last_is(w, 8, Action::JobCancelled, running).await;
    w.store.delete_schedule(&w.write(minute(7)), id).await.expect("delete");
    last_is(w, 9, Action::ScheduleDeleted, id).await;
    let key = new_key(1);
    w.store.create_key(&w.write(minute(8)), &key).await.expect("create");
    last_is(w, 10, Action::KeyCreated, key.id).await;
    w.store.revoke_key(&w.write(minute(9)), key.id).await.expect("revoke");
    last_is(w, 11, Action::KeyRevoked, key.id).await;
    w.store.set_plan(&w.write(minute(10)), "free").await.expect("set");
    last_is(w, 12, Action::AccountPlanSet, w.account).await;
    w.store.set_suspended(&w.write(minute(11)), true).await.expect("suspend");
    last_is(w, 13, Action::AccountSuspended, w.account).await;
    w.store.set_suspended(&w.write(minute(12)), false).await.expect("resume");
    last_is(w, 14, Action::AccountResumed, w.account).await;
    let new = new_secret(1, minute(20));
    w.store.rotate_signing_secret(&w.write(minute(13)), &new).await.expect("rotate");
    last_is(w, 15, Action::SigningSecretRotated, new.id).await;
    let shown = Action::SigningSecretsShown;
    w.store.enter_reading(&w.write(minute(14)), shown).await.expect("enter");
    last_is(w, 16, shown, w.account).await;
    assert!(w.store.delete_account(&w.write(minute(15))).await.expect("delete"));
    assert!(
        !w.store.delete_account(&w.write(minute(16))).await.expect("delete"),
        "it is not there"
    );
    assert_eq!(entries(w).await, [], "it is not shown any more");
    let page = w.store.audit_log(INSTALLATION, &everything()).await.expect("list");
    let [entry] = &page.entries[..] else { panic!("{page:?}") };
    assert_eq!((&*entry.action, &entry.object), ("account.deleted", &w.account.to_string()));
    assert_eq!(entry.id.timestamp(), minute(15));
}

pub async fn changes_of_members_are_entered(w: &World) {
    let ann = member(w, "ann", Role::Owner).await;
    let bob = member(w, "bob", Role::Member).await;
    let before = entries(w).await.len();
    let change = async |at, change| {
        let changed = w.store.change_member(&w.write(minute(at)), bob, change).await;
        assert_eq!(changed.expect("change"), MemberChanged::Done);
    };
    // The second call changes nothing.
    for _ in 0..2 {
        change(2, MemberChange::Set(Role::Viewer)).await;
        last_is(w, before + 1, Action::MemberRoleSet, bob).await;
    }
    change(3, MemberChange::Remove).await;
    last_is(w, before + 2, Action::MemberRemoved, bob).await;
    for _ in 0..2 {
        change(4, MemberChange::Add(Role::Member)).await;
        last_is(w, before + 3, Action::MemberAdded, bob).await;
    }
    let leave = w.store.change_member(&w.write(minute(5)), ann, MemberChange::Remove).await;
    assert_eq!(leave.expect("change"), MemberChanged::LastOwner);
    let invitation = new_invitation(1, "cy");
    w.store.create_invitation(&w.write(minute(6)), &invitation).await.expect("invite");
    last_is(w, before + 4, Action::InvitationCreated, invitation.id).await;
    for _ in 0..2 {
        w.store.delete_invitation(&w.write(minute(7)), invitation.id).await.expect("take back");
        last_is(w, before + 5, Action::InvitationTakenBack, invitation.id).await;
    }
}

pub async fn a_new_member_is_entered_once(w: &World) {
    let ann = member(w, "ann", Role::Owner).await;
    // The account was created at the same instant.
    let told =
        entries(w).await.into_iter().find(|entry| entry.action == Action::MemberAdded.as_str());
    assert_eq!(told.expect("an entry").object, ann.to_string());
    let [bobs, cys] = [(1, "bob"), (2, "cy")].map(|(n, name)| new_invitation(n, name));
    for invitation in [&bobs, &cys] {
        w.store.create_invitation(&w.write(minute(1)), invitation).await.expect("invite");
    }
    let bob = user(w, "bob").await;
    let author = Author { actor: Actor::User(bob), ..Author::SERVICE };
    let by_bob = AuditContext { author, ..audit_context(w, minute(2)) };
    for _ in 0..2 {
        w.store.accept_invitation(&by_bob, bob, bobs.digest).await.expect("accept");
        last_is(w, 5, Action::InvitationAccepted, bobs.id).await;
    }
    assert_eq!(entries(w).await[4].actor, bob.to_string());
    let cy = NewUser {
        id: UserId::new(minute(3), 7),
        email: address("cy"),
        password: hash("x"),
        is_confirmed: false,
    };
    let invited = JoinedAccount::Invited(digest(2));
    let made =
        w.store.create_user(&audit_context(w, minute(3)), &cy, &invited).await.expect("create");
    assert_eq!(made, UserCreated::Created);
    last_is(w, 6, Action::InvitationAccepted, cys.id).await;

    let id = AccountId::new(minute(4), 8);
    let dan = NewUser {
        id: UserId::new(minute(4), 8),
        email: address("dan"),
        password: hash("x"),
        is_confirmed: false,
    };
    let new = JoinedAccount::New(Account::new(id, "dans", minute(4)));
    w.store.create_user(&audit_context(w, minute(4)), &dan, &new).await.expect("create");
    let page = w.store.audit_log(id, &everything()).await.expect("list");
    let told: Vec<_> =
        page.entries.iter().map(|one| (one.action.clone(), one.object.clone())).collect();
    assert_eq!(told, [(Action::AccountCreated.as_str().to_owned(), id.to_string())]);
}

/// Returns the entries about a user in the log of an account or of the installation, oldest first.
async fn audit_entries_about(w: &World, account: AccountId, user: UserId) -> Vec<String> {
    let page = w.store.audit_log(account, &everything()).await.expect("list");
    let of = page.entries.into_iter().rev().filter(|one| one.object == user.to_string());
    of.map(|one| one.action).collect()
}

/// Changes a user in every possible way. Changes twice where the second change has no effect.
async fn change_in_every_way(w: &World, user: UserId) {
    let (one, two) = (new_session(1, user), new_session(2, user));
    for session in [&one, &two] {
        assert!(w.store.create_session(minute(2), session).await.expect("create"));
    }
    let end = async |at, which| {
        w.store.end_sessions(&audit_context(w, at), user, which).await.expect("end");
    };
    end(minute(2), SessionEnding::One(one.id)).await;
    for _ in 0..2 {
        end(minute(2), SessionEnding::All).await;
    }
    assert!(w.store.create_reset(minute(3), &new_reset(1, user)).await.expect("create"));
    for text in ["second", "third"] {
        let hash = hash(text);
        w.store
            .complete_reset(&audit_context(w, minute(3)), digest(1), &hash)
            .await
            .expect("complete");
    }
    w.store
        .set_password(&audit_context(w, minute(4)), user, None, &hash("fourth"), None)
        .await
        .expect("set");
    let old = w
        .store
        .set_password(&audit_context(w, minute(4)), user, Some(1), &hash("fifth"), None)
        .await;
    assert!(!old.expect("set"), "it is another version by now");
    for (at, disabled) in [(5, true), (6, true), (7, false), (8, false)] {
        let act = audit_context(w, minute(at));
        assert!(w.store.disable_user(&act, user, disabled).await.expect("disable"));
    }
}

const EVERY_WAY: [Action; 5] = [
    Action::UserSignedOut,
    Action::UserPasswordSet,
    Action::UserPasswordSet,
    Action::UserDisabled,
    Action::UserEnabled,
];

pub async fn changes_of_a_user_are_entered_in_each_account(w: &World) {
    let ann = member(w, "ann", Role::Owner).await;
    let bob = user(w, "bob").await;
    let other = w.write_for(w.foreign, minute(1));
    let added = w.store.change_member(&other, ann, MemberChange::Add(Role::Viewer)).await;
    assert_eq!(added.expect("change"), MemberChanged::Done);
    change_in_every_way(w, ann).await;
    let expected = [&[Action::MemberAdded], &EVERY_WAY[..]].concat();
    let expected: Vec<_> = expected.iter().map(|action| action.as_str()).collect();
    for account in [w.account, w.foreign] {
        assert_eq!(audit_entries_about(w, account, ann).await, expected);
    }
    assert_eq!(audit_entries_about(w, INSTALLATION, ann).await, [""; 0]);
    assert_eq!(audit_entries_about(w, INSTALLATION, bob).await, [Action::UserCreated.as_str()]);
}

pub async fn changes_without_an_account_are_entered_for_the_installation(w: &World) {
    let ann = user(w, "ann").await;
    change_in_every_way(w, ann).await;
    let expected = [&[Action::UserCreated], &EVERY_WAY[..]].concat();
    let expected: Vec<_> = expected.iter().map(|action| action.as_str()).collect();
    assert_eq!(audit_entries_about(w, INSTALLATION, ann).await, expected);
    assert_eq!(entries(w).await.len(), 1, "no account's log has it");
    w.store.enter_rotation(&audit_context(w, minute(9))).await.expect("enter");
    let page = w.store.audit_log(INSTALLATION, &everything()).await.expect("list");
    assert_eq!(page.entries[0].action, Action::SecretsRotated.as_str());
    assert_eq!(page.entries[0].object, "test", "the key that seals");
    w.store.enter_restoration(&audit_context(w, minute(10))).await.expect("enter");
    let page = w.store.audit_log(INSTALLATION, &everything()).await.expect("list");
    assert_eq!(page.entries[0].action, Action::StoreRestored.as_str());
    assert_eq!(page.entries[0].object, minute(10).to_string(), "until when ticks are passed over");
}

pub async fn operators_are_entered_for_the_installation(w: &World) {
    let ann = member(w, "ann", Role::Owner).await;
    for (at, is_operator) in [(2, true), (3, true), (4, false), (5, false)] {
        let set = w.store.set_operator(&audit_context(w, minute(at)), ann, is_operator).await;
        assert!(set.expect("set"));
    }
    let operator = [Action::OperatorAdded, Action::OperatorRemoved].map(Action::as_str);
    assert_eq!(audit_entries_about(w, INSTALLATION, ann).await, operator);
    assert_eq!(audit_entries_about(w, w.account, ann).await, [Action::MemberAdded.as_str()]);
}

pub async fn calls_without_an_effect_are_not_entered(w: &World) {
    let id = w.schedule().await;
    let write = || w.write(minute(9));
    let old = w.change(id).await;
    let gone = w.new_schedule().id;
    let missing = JobId::new(minute(1), 99);
    let new = |schedule| NewJob { id: JobId::new(minute(1), 7), schedule };
    let stale = ScheduleState { expected: ExpectedState { revision: 77, ..old.expected }, ..old };
    let changed = w.store.change_schedule(&write(), id, &stale).await.expect("change");
    assert_eq!(changed, ScheduleChangeResult::Stale);
    w.store.change_schedule(&write(), gone, &stale).await.expect("change");
    assert!(!w.store.delete_schedule(&write(), gone).await.expect("delete"));
    let made = w.store.create_job(&write(), &new(gone), None).await.expect("create");
    assert_eq!(made, TriggerResult::NoSuchSchedule);
    w.store.retry_job(&write(), missing, JobId::new(minute(1), 8), None).await.expect("retry");
    w.store.cancel_job(&write(), missing).await.expect("cancel");
    assert!(!w.store.revoke_key(&write(), new_key(1).id).await.expect("revoke"));
    w.store.create_schedules(&write(), &[], None).await.expect("create none");
    assert!(w.store.set_plan(&write(), UNLIMITED).await.expect("set"), "it has that plan");
    assert!(w.store.set_suspended(&write(), false).await.expect("resume"), "it is not suspended");
    assert!(!w.store.create_account(&write(), "foreign", UNLIMITED).await.expect("create"));
    last_is(w, BEFORE, Action::ScheduleCreated, id).await;

    let job = w.manual_job(id, minute(1)).await;
    w.claim(minute(1), &[job]).await;
    for _ in 0..2 {
        let cancelled = w.store.cancel_job(&write(), job).await.expect("cancel");
        assert_eq!(cancelled, Cancelled::Done(Vec::new()));
    }
    w.store.create_key(&write(), &new_key(2)).await.expect("create");
    for _ in 0..2 {
        assert!(w.store.revoke_key(&write(), new_key(2).id).await.expect("revoke"));
    }
    let actions: Vec<_> = entries(w).await.iter().map(|entry| entry.action.clone()).collect();
    assert_eq!(actions[BEFORE], Action::ScheduleTriggered.as_str());
    let count = |action: Action| actions.iter().filter(|one| *one == action.as_str()).count();
    assert_eq!((count(Action::JobCancelled), count(Action::KeyRevoked)), (1, 1), "{actions:?}");
}

/// `tamper` runs a statement directly on the database and returns the error.
pub async fn an_entry_stays_as_it_was_written(
    w: &World,
    tamper: impl AsyncFn(&'static str) -> Option<String>,
) {
    w.schedule().await;
    let before = entries(w).await;
    for statement in [
        "UPDATE audit_log SET actor = 'x'",
        "UPDATE audit_log SET object = object",
        "UPDATE audit_log SET account_id = id WHERE action = 'schedule.created'",
    ] {
        let said = tamper(statement).await.unwrap_or_default();
        assert!(said.contains("append-only"), "{statement}: {said:?}");
    }
    assert_eq!((before.len(), entries(w).await), (BEFORE, before));
}

pub async fn failed_calls_are_not_entered(w: &World) {
    let id = w.schedule().await;
    let mut twice = [w.new_schedule(), w.new_schedule()];
    twice[1].id = id;
    let error =
        w.store.create_schedules(&w.write(minute(1)), &twice, None).await.expect_err("there");
    assert_eq!(error.kind(), StoreErrorKind::Rejected);
    last_is(w, BEFORE, Action::ScheduleCreated, id).await;
}

pub async fn of_many_at_once_each_is_entered(w: &World) {
    let many: Vec<_> = (0..50).map(|_| w.new_schedule()).collect();
    w.store.create_schedules(&w.write(minute(1)), &many, None).await.expect("create");
    let mut objects: Vec<_> = entries(w).await.into_iter().map(|entry| entry.object).collect();
    let mut ids: Vec<_> = many.iter().map(|new| new.id.to_string()).collect();
    objects.remove(0);
    objects.sort();
    ids.sort();
    assert_eq!(objects, ids);
}

pub async fn entries_are_filtered_and_paged(w: &World) {
    let id = w.schedule().await;
    for at in 1..=6 {
        w.manual_job(id, minute(at)).await;
    }
    let list = async |query: AuditQuery| {
        let page = w.store.audit_log(w.account, &query).await.expect("list");
        (page.entries, page.has_more)
    };
    let all = list(everything()).await.0;
    assert!(all.is_sorted_by(|a, b| a.id > b.id), "newest first");
    let mut paged = Vec::new();
    loop {
        let after = paged.last().map(|last: &AuditEntry| last.id);
        let (some, has_more) = list(AuditQuery { after, limit: 3, ..everything() }).await;
        paged.extend(some);
        if !has_more {
            break;
        }
    }
    assert_eq!(paged, all);
    let triggered = Some(Action::ScheduleTriggered);
    let some = list(AuditQuery { action: triggered, ..everything() }).await.0;
    assert_eq!(some.len(), 6);
    let span = AuditQuery { from: Some(minute(2)), to: Some(minute(4)), ..everything() };
    assert_eq!(list(span).await.0.len(), 3, "both ends included");
    for (actor, count) in [("service", all.len()), ("operator:bob", 0)] {
        let actor = Some(actor.to_owned());
        assert_eq!(list(AuditQuery { actor, ..everything() }).await.0.len(), count);
    }
    let foreign = w.store.audit_log(w.foreign, &everything()).await.expect("list").entries;
    assert_eq!(foreign.len(), 1, "changes of other users are not included: {foreign:?}");
}

pub async fn old_entries_go_in_small_batches(w: &World) {
    let id = w.schedule().await;
    for at in 1..=5 {
        w.manual_job(id, minute(at)).await;
    }
    let mut rounds = Vec::new();
    for _ in 0..4 {
        // A repeated call would prune another batch.
        rounds.push(w.steady.prune_audit_log(minute(4), 3).await.expect("prune"));
    }
    // The entries of two accounts, the schedule and three of its jobs.
    assert_eq!(rounds, [3, 3, 0, 0]);
    let left: Vec<_> = entries(w).await.iter().map(|entry| entry.id.timestamp()).collect();
    assert_eq!(left, [minute(4), minute(5)]);
}
