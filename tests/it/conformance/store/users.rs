use chrono_tz::Tz;
use punctual::domain::audit::Action;
use punctual::domain::token::TokenDigest;
use punctual::domain::user::{EmailAddress, Role, TimeDisplay};
use punctual::domain::{AccountId, InvitationId, Timestamp, UserId};
use punctual::store::{
    Account, AccountMember, AuditContext, JoinedAccount, MemberChange, MemberChanged,
    NewInvitation, NewUser, PasswordHash, UserCreated, WriteContext,
};

use super::audit::everything;
use super::sessions::{new_reset, new_session};
use super::world::{World, minute};

pub fn address(name: &str) -> EmailAddress {
    format!("{name}@example.com").parse().expect("an address")
}

pub fn hash(text: &str) -> PasswordHash {
    PasswordHash(text.into())
}

fn new_user(number: u128, name: &str) -> NewUser {
    let id = UserId::new(minute(0), number);
    NewUser { id, email: address(name), password: hash("first"), is_confirmed: false }
}

/// Returns the audit context of the service, without an account.
pub fn audit_context(w: &World, now: Timestamp) -> AuditContext {
    let WriteContext { now, author, entry, .. } = w.write(now);
    AuditContext { now, author, entry }
}

/// Creates a user without a membership.
pub async fn user(w: &World, name: &str) -> UserId {
    join(w, name, JoinedAccount::Nothing).await
}

async fn join(w: &World, name: &str, joins: JoinedAccount) -> UserId {
    let new = new_user(w.random.bits(), name);
    let created =
        w.store.create_user(&audit_context(w, minute(0)), &new, &joins).await.expect("create");
    assert_eq!(created, UserCreated::Created);
    new.id
}

pub async fn member(w: &World, name: &str, role: Role) -> UserId {
    join(w, name, JoinedAccount::Existing(w.account, role)).await
}

async fn change(w: &World, user: UserId, change: MemberChange) -> MemberChanged {
    w.store.change_member(&w.write(minute(1)), user, change).await.expect("change")
}

pub fn new_invitation(number: u128, name: &str) -> NewInvitation {
    NewInvitation {
        id: InvitationId::new(minute(0), number),
        email: address(name),
        role: Role::Member,
        digest: digest(number),
        expires_at: minute(10),
    }
}

/// Returns the digest for a number. Each number has its own digest.
pub fn digest(number: u128) -> TokenDigest {
    let mut bytes = [9; 32];
    bytes[..16].copy_from_slice(&number.to_be_bytes());
    TokenDigest(bytes)
}

pub async fn addresses_are_unique(w: &World) {
    let ann = new_user(1, "ann");
    let made = w
        .store
        .create_user(&audit_context(w, minute(3)), &ann, &JoinedAccount::Nothing)
        .await
        .expect("create");
    assert_eq!(made, UserCreated::Created);
    let again = new_user(2, "ann");
    let again = w
        .store
        .create_user(&audit_context(w, minute(4)), &again, &JoinedAccount::Nothing)
        .await
        .expect("create");
    assert_eq!(again, UserCreated::EmailTaken);
    user(w, "abe").await;
    let read = w.store.user(ann.id).await.expect("read").expect("a user");
    assert_eq!((read.email.as_str(), &read.password), ("ann@example.com", &ann.password));
    assert_eq!((read.created_at, read.disabled_at), (minute(3), None));
    assert_eq!(w.store.user_named(&ann.email).await.expect("read"), Some(read));
    assert_eq!(w.store.user_named(&address("bob")).await.expect("read"), None);
    assert_eq!(w.store.user(UserId::new(minute(0), 2)).await.expect("read"), None);
    let users = w.store.users().await.expect("list");
    let names: Vec<_> = users.iter().map(|user| user.email.as_str()).collect();
    assert_eq!(names, ["abe@example.com", "ann@example.com"]);
}

pub async fn a_new_user_and_its_account_are_all_or_nothing(w: &World) {
    let account =
        |number, name: &str| Account::new(AccountId::new(minute(0), number), name, minute(1));
    for (joins, refused) in [
        (JoinedAccount::New(account(7, "own")), UserCreated::NameTaken),
        (JoinedAccount::Existing(account(7, "").id, Role::Owner), UserCreated::NoSuchAccount),
        (JoinedAccount::Invited(digest(1)), UserCreated::NoSuchInvitation),
    ] {
        let new = new_user(1, "ann");
        let outcome =
            w.store.create_user(&audit_context(w, minute(0)), &new, &joins).await.expect("create");
        assert_eq!(outcome, refused);
        assert_eq!(w.store.user(new.id).await.expect("read"), None);
    }
    let ann = join(w, "ann", JoinedAccount::New(account(8, "new"))).await;
    let memberships = w.store.memberships(ann).await.expect("list");
    let listed: Vec<_> = memberships.iter().map(|one| (one.name.as_str(), one.role)).collect();
    assert_eq!(listed, [("new", Role::Owner)]);
    let bob = new_user(2, "ann");
    let taken = w
        .store
        .create_user(&audit_context(w, minute(0)), &bob, &JoinedAccount::New(account(9, "newer")))
        .await;
    assert_eq!(taken.expect("create"), UserCreated::EmailTaken);
    assert_eq!(w.store.account(account(9, "").id).await.expect("read"), None);
}

pub async fn a_changed_password_ends_sessions_and_resets(w: &World) {
    let (ann, bob) = (user(w, "ann").await, user(w, "bob").await);
    for (number, of) in [(1, ann), (2, ann), (3, bob)] {
        let session = new_session(number, of);
        assert!(w.store.create_session(minute(0), &session).await.expect("create"));
    }
    assert!(w.store.create_reset(minute(0), &new_reset(1, ann)).await.expect("create"));
    let keep = Some(new_session(2, ann).id);
    assert!(
        w.store
            .set_password(&audit_context(w, minute(1)), ann, None, &hash("second"), keep)
            .await
            .expect("set")
    );
    let read = w.steady.user(ann).await.expect("read").expect("a user");
    assert_eq!(read.password, hash("second"));
    let found = async |number| w.store.session(digest(number), minute(1)).await.expect("read");
    assert!(found(1).await.is_none() && found(2).await.is_some() && found(3).await.is_some());
    assert_eq!(w.store.reset(digest(1), minute(1)).await.expect("read"), None);
    let none = UserId::new(minute(0), 99);
    assert!(
        !w.store
            .set_password(&audit_context(w, minute(1)), none, None, &hash("x"), None)
            .await
            .expect("set")
    );
}

pub async fn a_password_is_hashed_again_only_while_it_is_the_same(w: &World) {
    let ann = user(w, "ann").await;
    let read = async || w.store.user(ann).await.expect("read").expect("a user");
    let first = read().await.password_version;
    w.store.rehash_password(ann, first, &hash("stronger")).await.expect("hash");
    assert_eq!((read().await.password, read().await.password_version), (hash("stronger"), first));
    w.store
        .set_password(&audit_context(w, minute(1)), ann, None, &hash("second"), None)
        .await
        .expect("set");
    assert!(read().await.password_version > first);
    w.store.rehash_password(ann, first, &hash("late")).await.expect("hash");
    assert_eq!(read().await.password, hash("second"));
    let late = w
        .store
        .set_password(&audit_context(w, minute(1)), ann, Some(first), &hash("late"), None)
        .await;
    assert!(!late.expect("set"), "the verified password was replaced meanwhile");
    assert_eq!(read().await.password, hash("second"));
    let present = Some(read().await.password_version);
    assert!(
        w.store
            .set_password(&audit_context(w, minute(1)), ann, present, &hash("third"), None)
            .await
            .expect("set")
    );
    assert_eq!(read().await.password, hash("third"));
}

pub async fn sessions_know_that_their_user_is_an_operator(w: &World) {
    let ann = member(w, "ann", Role::Owner).await;
    w.store.create_session(minute(0), &new_session(1, ann)).await.expect("create");
    let since = async || {
        let session = w.store.session(digest(1), minute(1)).await.expect("read").expect("open");
        let user = w.store.user(ann).await.expect("read").expect("a user");
        assert_eq!(session.operator_since, user.operator_since);
        session.operator_since
    };
    assert_eq!(since().await, None);
    for at in [2, 3] {
        assert!(w.store.set_operator(&audit_context(w, minute(at)), ann, true).await.expect("set"));
        assert_eq!(since().await, Some(minute(2)), "repeating changes nothing");
    }
    assert_eq!(
        w.store.sessions(ann, minute(1)).await.expect("read")[0].operator_since,
        since().await
    );
    for at in [4, 5] {
        assert!(
            w.store.set_operator(&audit_context(w, minute(at)), ann, false).await.expect("set")
        );
        assert_eq!(since().await, None);
    }
    let unknown = UserId::new(minute(0), 9);
    assert!(!w.store.set_operator(&audit_context(w, minute(6)), unknown, true).await.expect("set"));
}

pub async fn all_sessions_of_a_user_have_the_display_of_times(w: &World) {
    let [ann, ben] = [member(w, "ann", Role::Viewer).await, member(w, "ben", Role::Viewer).await];
    for (number, user) in [(1, ann), (2, ann), (3, ben)] {
        assert!(w.store.create_session(minute(0), &new_session(number, user)).await.expect("made"));
    }
    let told = async |number| {
        let session = w.store.session(digest(number), minute(1)).await.expect("read");
        session.expect("open").time_display
    };
    let berlin = TimeDisplay { zone: Some(Tz::Europe__Berlin), has_12_hour_clock: true };
    let browser = TimeDisplay::default();
    let in_utc = TimeDisplay { zone: Some(Tz::UTC), has_12_hour_clock: true };
    for (at, display) in [(2, berlin), (3, berlin), (4, in_utc), (5, browser)] {
        let set = w.store.set_time_display(&audit_context(w, minute(at)), ann, display).await;
        assert!(set.expect("set"));
        assert_eq!((told(1).await, told(2).await, told(3).await), (display, display, browser));
        assert_eq!(w.store.sessions(ann, minute(1)).await.expect("read")[0].time_display, display);
    }
    let log = w.store.audit_log(w.account, &everything()).await.expect("read").entries;
    let action = Action::UserTimeDisplaySet.as_str();
    let entered = log.iter().filter(|entry| entry.action == action);
    assert_eq!(entered.count(), 3, "a repeated call changes nothing");
    let unknown = UserId::new(minute(0), 9);
    assert!(
        !w.store
            .set_time_display(&audit_context(w, minute(6)), unknown, in_utc)
            .await
            .expect("set")
    );
}

pub async fn a_disabled_user_is_out_at_once(w: &World) {
    let ann = member(w, "ann", Role::Owner).await;
    w.store.create_session(minute(0), &new_session(1, ann)).await.expect("create");
    w.store.create_reset(minute(0), &new_reset(1, ann)).await.expect("create");
    assert!(w.store.disable_user(&audit_context(w, minute(1)), ann, true).await.expect("disable"));
    assert!(w.store.disable_user(&audit_context(w, minute(2)), ann, true).await.expect("disable"));
    let read = w.store.user(ann).await.expect("read").expect("a user");
    assert_eq!(read.disabled_at, Some(minute(1)));
    assert!(w.store.session(digest(1), minute(1)).await.expect("read").is_none());
    assert_eq!(w.store.reset(digest(1), minute(1)).await.expect("read"), None);
    assert_eq!(w.store.role(w.account, ann).await.expect("read"), None);
    assert!(!w.store.create_session(minute(2), &new_session(2, ann)).await.expect("create"));
    assert!(!w.store.create_reset(minute(2), &new_reset(2, ann)).await.expect("create"));
    assert!(w.store.disable_user(&audit_context(w, minute(3)), ann, false).await.expect("enable"));
    assert_eq!(w.store.role(w.account, ann).await.expect("read"), Some(Role::Owner));
    assert!(w.store.create_session(minute(3), &new_session(3, ann)).await.expect("create"));
    assert!(
        !w.store
            .disable_user(&audit_context(w, minute(3)), UserId::new(minute(0), 9), false)
            .await
            .expect("enable")
    );
}

pub async fn members_and_their_roles(w: &World) {
    let ann = member(w, "ann", Role::Owner).await;
    let bob = user(w, "bob").await;
    assert_eq!(change(w, bob, MemberChange::Set(Role::Viewer)).await, MemberChanged::NoSuchMember);
    assert_eq!(change(w, bob, MemberChange::Add(Role::Viewer)).await, MemberChanged::Done);
    assert_eq!(change(w, bob, MemberChange::Add(Role::Owner)).await, MemberChanged::Done);
    let since = [minute(0), minute(1)];
    let listed = |role| {
        [(ann, "ann", Role::Owner, since[0]), (bob, "bob", role, since[1])].map(
            |(user, name, role, since)| AccountMember { user, email: address(name), role, since },
        )
    };
    let members = async || w.store.members(w.account).await.expect("list");
    assert_eq!(members().await, listed(Role::Viewer), "an existing member keeps the role");
    assert_eq!(change(w, bob, MemberChange::Set(Role::Member)).await, MemberChanged::Done);
    assert_eq!(members().await, listed(Role::Member));
    assert_eq!(w.store.role(w.account, bob).await.expect("read"), Some(Role::Member));
    assert_eq!(change(w, bob, MemberChange::Remove).await, MemberChanged::Done);
    assert_eq!(members().await, listed(Role::Member)[..1]);
    assert_eq!(w.store.role(w.account, bob).await.expect("read"), None);
    let none = UserId::new(minute(0), 99);
    assert_eq!(change(w, none, MemberChange::Add(Role::Owner)).await, MemberChanged::NoSuchMember);
    assert_eq!(change(w, none, MemberChange::Remove).await, MemberChanged::NoSuchMember);
    let nowhere = w.write_for(AccountId::new(minute(0), 77), minute(0));
    let add = w.store.change_member(&nowhere, bob, MemberChange::Add(Role::Owner)).await;
    assert_eq!(add.expect("change"), MemberChanged::NoSuchMember);
}

pub async fn an_account_keeps_an_owner(w: &World) {
    let ann = member(w, "ann", Role::Owner).await;
    let bob = member(w, "bob", Role::Member).await;
    for removed in [MemberChange::Remove, MemberChange::Set(Role::Member)] {
        assert_eq!(change(w, ann, removed).await, MemberChanged::LastOwner);
    }
    assert_eq!(change(w, ann, MemberChange::Set(Role::Owner)).await, MemberChanged::Done);
    assert_eq!(change(w, bob, MemberChange::Set(Role::Owner)).await, MemberChanged::Done);
    assert_eq!(change(w, ann, MemberChange::Set(Role::Viewer)).await, MemberChanged::Done);
    assert_eq!(change(w, bob, MemberChange::Remove).await, MemberChanged::LastOwner);
    assert_eq!(change(w, ann, MemberChange::Set(Role::Owner)).await, MemberChanged::Done);
    assert!(w.store.disable_user(&audit_context(w, minute(1)), ann, true).await.expect("disable"));
    let left = change(w, bob, MemberChange::Remove).await;
    assert_eq!(left, MemberChanged::LastOwner, "a disabled owner does not count");
    assert!(w.store.disable_user(&audit_context(w, minute(3)), ann, false).await.expect("enable"));
    assert_eq!(change(w, bob, MemberChange::Remove).await, MemberChanged::Done);
}

pub async fn two_owners_cannot_both_leave(w: &World) {
    for round in 0..8 {
        let names = [format!("a{round}"), format!("b{round}")];
        let id = AccountId::new(minute(1), round);
        let account = Account::new(id, names.concat(), minute(1));
        let ann = join(w, &names[0], JoinedAccount::New(account.clone())).await;
        let bob = join(w, &names[1], JoinedAccount::Existing(account.id, Role::Owner)).await;
        let leave = async |user, change| {
            let write = w.write_for(account.id, minute(1));
            w.steady.change_member(&write, user, change).await
        };
        let (one, two) = tokio::join!(
            leave(ann, MemberChange::Remove),
            leave(bob, MemberChange::Set(Role::Viewer))
        );
        let outcomes = [one.expect("change"), two.expect("change")];
        assert!(outcomes.contains(&MemberChanged::Done), "{outcomes:?}");
        assert!(outcomes.contains(&MemberChanged::LastOwner), "{outcomes:?}");
    }
}

pub async fn an_invitation_is_for_one_address_once(w: &World) {
    let invite =
        async |new: &NewInvitation| w.store.create_invitation(&w.write(minute(1)), new).await;
    assert!(invite(&new_invitation(1, "bob")).await.expect("invite"));
    assert!(invite(&new_invitation(2, "cy")).await.expect("invite"));
    let (ann, bob) = (user(w, "ann").await, user(w, "bob").await);
    let accept = async |user, number| {
        w.store
            .accept_invitation(&audit_context(w, minute(2)), user, digest(number))
            .await
            .expect("accept")
    };
    assert_eq!(accept(ann, 1).await, None, "it is for another user");
    assert_eq!(accept(bob, 1).await, Some(w.account));
    assert_eq!(accept(bob, 1).await, None, "it was used");
    assert_eq!(w.store.role(w.account, bob).await.expect("read"), Some(Role::Member));
    let other = new_user(3, "dan");
    let other = w
        .store
        .create_user(&audit_context(w, minute(2)), &other, &JoinedAccount::Invited(digest(2)))
        .await;
    assert_eq!(other.expect("create"), UserCreated::NoSuchInvitation);
    let taken = new_user(4, "ann");
    let taken = w
        .store
        .create_user(&audit_context(w, minute(2)), &taken, &JoinedAccount::Invited(digest(2)))
        .await;
    let told = taken.expect("create");
    assert_eq!(told, UserCreated::NoSuchInvitation, "the answer does not reveal that ann exists");
    let cy = join(w, "cy", JoinedAccount::Invited(digest(2))).await;
    assert_eq!(w.store.role(w.account, cy).await.expect("read"), Some(Role::Member));
    assert_eq!(w.store.invitations(w.account, minute(2)).await.expect("list"), []);
    assert!(
        invite(&NewInvitation { role: Role::Owner, ..new_invitation(4, "bob") })
            .await
            .expect("invite")
    );
    assert_eq!(accept(bob, 4).await, Some(w.account));
    let role = w.store.role(w.account, bob).await.expect("read");
    assert_eq!(role, Some(Role::Member), "an existing member keeps the role");
}

pub async fn invitations_expire_and_are_taken_back(w: &World) {
    let bob = user(w, "bob").await;
    let invite = async |at: Timestamp, new: &NewInvitation| {
        w.store.create_invitation(&w.write(at), new).await.expect("invite")
    };
    let ids = async |at| {
        let listed = w.store.invitations(w.account, at).await.expect("list");
        listed.iter().map(|invitation| invitation.id).collect::<Vec<_>>()
    };
    let [first, second, other] =
        [(1, "bob"), (2, "bob"), (3, "cy")].map(|(n, to)| new_invitation(n, to));
    assert!(invite(minute(1), &first).await);
    assert!(invite(minute(2), &second).await);
    assert!(invite(minute(3), &other).await);
    assert_eq!(
        ids(minute(3)).await,
        [other.id, second.id],
        "the newer one is instead of the other"
    );
    assert_eq!(ids(minute(10)).await, []);
    let accept = async |at, new: &NewInvitation| {
        w.store.accept_invitation(&audit_context(w, at), bob, new.digest).await.expect("accept")
    };
    assert_eq!(accept(minute(4), &first).await, None);
    assert_eq!(accept(minute(10), &second).await, None);
    assert!(w.store.delete_invitation(&w.write(minute(4)), second.id).await.expect("delete"));
    assert!(!w.store.delete_invitation(&w.write(minute(4)), second.id).await.expect("delete"));
    assert_eq!(accept(minute(4), &second).await, None);
    let nowhere = w.write_for(AccountId::new(minute(0), 77), minute(0));
    assert!(!w.store.create_invitation(&nowhere, &new_invitation(5, "d")).await.expect("invite"));
}
