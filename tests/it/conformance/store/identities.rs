use punctual::domain::audit::Action;
use punctual::domain::user::Role;
use punctual::domain::{AccountId, UserId};
use punctual::store::{
    Account, AuditQuery, Identity, IdentityLink, JoinedAccount, NewUser, UserCreated, WriteContext,
};

use super::sessions::{new_reset, new_session};
use super::users::{address, audit_context, digest, hash, member, new_invitation, user};
use super::world::{World, minute};

fn identity(subject: &str) -> Identity {
    Identity { issuer: "https://id.example".into(), subject: subject.into() }
}

fn new_user(w: &World, name: &str) -> NewUser {
    let id = UserId::new(minute(0), w.random.bits());
    NewUser { id, email: address(name), password: hash("first"), is_confirmed: true }
}

async fn create(
    w: &World,
    name: &str,
    subject: &str,
    joins: JoinedAccount,
) -> (UserId, UserCreated) {
    let new = new_user(w, name);
    let context = audit_context(w, minute(1));
    let created = w.store.create_identity_user(&context, &new, &identity(subject), &joins).await;
    (new.id, created.expect("create"))
}

async fn link(w: &World, user: UserId, subject: &str) -> IdentityLink {
    let context = audit_context(w, minute(2));
    w.store.link_identity(&context, user, &identity(subject)).await.expect("link")
}

/// Returns a new user whose address is confirmed.
async fn confirmed(w: &World, name: &str) -> UserId {
    let user = user(w, name).await;
    assert!(w.store.confirm_email(&audit_context(w, minute(1)), user).await.expect("confirm"));
    user
}

async fn owner(w: &World, identity: &Identity) -> Option<UserId> {
    w.store.identity_user(identity).await.expect("read").map(|user| user.id)
}

pub async fn one_belongs_to_one_user(w: &World) {
    let (ann, bob) = (confirmed(w, "ann").await, confirmed(w, "bob").await);
    assert_eq!(owner(w, &identity("1")).await, None);
    for _ in 0..2 {
        assert_eq!(link(w, ann, "1").await, IdentityLink::Linked);
    }
    assert_eq!(link(w, bob, "1").await, IdentityLink::OtherUser);
    assert_eq!(link(w, ann, "2").await, IdentityLink::OtherIdentity, "it may be a new owner");
    assert_eq!(link(w, UserId::new(minute(0), 99), "3").await, IdentityLink::NoSuchUser);
    for (subject, expected) in [("1", Some(ann)), ("2", None), ("3", None), ("", None)] {
        assert_eq!(owner(w, &identity(subject)).await, expected, "{subject:?}");
    }
    let elsewhere = Identity { issuer: "https://other.example".into(), ..identity("1") };
    assert_eq!(owner(w, &elsewhere).await, None, "another provider has other people");
    let linked = w.store.link_identity(&audit_context(w, minute(2)), ann, &elsewhere).await;
    assert_eq!(linked.expect("link"), IdentityLink::Linked);
    let read = w.store.identity_user(&identity("1")).await.expect("read");
    assert_eq!(read, w.store.user(ann).await.expect("read"));
}

pub async fn only_a_confirmed_address_is_linked(w: &World) {
    let ann = user(w, "ann").await;
    let since = async || w.store.user(ann).await.expect("read").expect("a user").email_confirmed_at;
    assert_eq!((since().await, link(w, ann, "1").await), (None, IdentityLink::Unconfirmed));
    assert_eq!(owner(w, &identity("1")).await, None);
    for at in [3, 4] {
        assert!(w.store.confirm_email(&audit_context(w, minute(at)), ann).await.expect("confirm"));
        assert_eq!(since().await, Some(minute(3)), "repeating changes nothing");
    }
    assert_eq!(link(w, ann, "1").await, IdentityLink::Linked);
    let unknown = UserId::new(minute(0), 99);
    assert!(!w.store.confirm_email(&audit_context(w, minute(5)), unknown).await.expect("confirm"));
}

/// The links of invitations and resets are sent to the address.
pub async fn mailed_links_confirm_the_address(w: &World) {
    let (ann, bob) = (user(w, "ann").await, user(w, "bob").await);
    let since =
        async |user| w.store.user(user).await.expect("read").expect("a user").email_confirmed_at;
    assert!(w.store.create_reset(minute(0), &new_reset(1, ann)).await.expect("create"));
    let reset = w.store.complete_reset(&audit_context(w, minute(2)), digest(1), &hash("new")).await;
    assert_eq!((reset.expect("complete"), since(ann).await), (Some(ann), Some(minute(2))));
    let invitation = new_invitation(2, "bob");
    assert!(w.store.create_invitation(&w.write(minute(0)), &invitation).await.expect("create"));
    let joined =
        w.store.accept_invitation(&audit_context(w, minute(3)), bob, invitation.digest).await;
    assert_eq!((joined.expect("accept"), since(bob).await), (Some(w.account), Some(minute(3))));
}

pub async fn unlinking_ends_the_sessions(w: &World) {
    let ann = confirmed(w, "ann").await;
    assert_eq!(link(w, ann, "1").await, IdentityLink::Linked);
    for (number, at) in [(3, 3), (4, 4)] {
        let session = new_session(number, ann);
        assert!(w.store.create_session(minute(0), &session).await.expect("create"));
        assert!(
            w.store.unlink_identities(&audit_context(w, minute(at)), ann).await.expect("unlink")
        );
        assert_eq!(owner(w, &identity("1")).await, None);
        let found = w.store.session(session.digest, minute(2)).await.expect("read");
        assert_eq!(found.is_some(), at == 4, "repeating changes nothing");
    }
    let unknown = UserId::new(minute(0), 99);
    assert!(
        !w.store.unlink_identities(&audit_context(w, minute(5)), unknown).await.expect("unlink")
    );
    assert_eq!(link(w, ann, "2").await, IdentityLink::Linked);
}

pub async fn a_link_is_entered_once_in_every_account_of_the_user(w: &World) {
    let ann = member(w, "ann", Role::Owner).await;
    assert!(w.store.confirm_email(&audit_context(w, minute(1)), ann).await.expect("confirm"));
    for _ in 0..2 {
        assert_eq!(link(w, ann, "1").await, IdentityLink::Linked);
    }
    let action = Some(Action::UserIdentityLinked);
    let query = AuditQuery { from: None, to: None, actor: None, action, after: None, limit: 1_000 };
    let page = w.store.audit_log(w.account, &query).await.expect("list");
    let [entry] = &page.entries[..] else { panic!("{page:?}") };
    assert_eq!((&entry.object, entry.id.timestamp()), (&ann.to_string(), minute(2)));
}

pub async fn a_user_is_created_with_one_or_not_at_all(w: &World) {
    let account =
        |number, name: &str| Account::new(AccountId::new(minute(0), number), name, minute(1));
    for (joins, refused) in [
        (JoinedAccount::New(account(7, "own")), UserCreated::NameTaken),
        (JoinedAccount::Existing(account(7, "").id, Role::Owner), UserCreated::NoSuchAccount),
        (JoinedAccount::Invited(digest(1)), UserCreated::NoSuchInvitation),
        (JoinedAccount::InvitedByAddress, UserCreated::NoSuchInvitation),
    ] {
        let (id, outcome) = create(w, "ann", "1", joins).await;
        assert_eq!(outcome, refused);
        assert_eq!(w.store.user(id).await.expect("read"), None);
        assert_eq!(owner(w, &identity("1")).await, None);
    }
    let (ann, created) = create(w, "ann", "1", JoinedAccount::New(account(8, "new"))).await;
    assert_eq!(created, UserCreated::Created);
    assert_eq!(owner(w, &identity("1")).await, Some(ann));
    let memberships = w.store.memberships(ann).await.expect("list");
    let listed: Vec<_> = memberships.iter().map(|one| (one.name.as_str(), one.role)).collect();
    assert_eq!(listed, [("new", Role::Owner)]);
    let secrets = w.store.signing_secrets(account(8, "").id).await.expect("list");
    assert_eq!(secrets.len(), 1, "like every account");
    assert_eq!(create(w, "bob", "1", JoinedAccount::Nothing).await.1, UserCreated::IdentityTaken);
    assert_eq!(create(w, "ann", "2", JoinedAccount::Nothing).await.1, UserCreated::EmailTaken);
    assert_eq!(owner(w, &identity("2")).await, None);
}

pub async fn a_new_user_joins_all_accounts_that_have_invited_the_address(w: &World) {
    let invite = async |write: WriteContext, number, name: &str| {
        let invitation = new_invitation(number, name);
        assert!(w.store.create_invitation(&write, &invitation).await.expect("create"));
    };
    invite(w.write(minute(0)), 1, "ann").await;
    invite(w.write_for(w.foreign, minute(0)), 2, "ann").await;
    invite(w.write(minute(0)), 3, "bob").await;
    let (ann, created) = create(w, "ann", "1", JoinedAccount::InvitedByAddress).await;
    assert_eq!(created, UserCreated::Created);
    for account in [w.account, w.foreign] {
        assert_eq!(w.store.role(account, ann).await.expect("read"), Some(Role::Member));
    }
    let open = w.store.invitations(w.account, minute(1)).await.expect("list");
    let open: Vec<_> = open.iter().map(|one| one.email.as_str()).collect();
    assert_eq!(open, ["bob@example.com"], "the used one is gone");
    let context = audit_context(w, minute(10));
    let (new, subject) = (new_user(w, "bob"), identity("2"));
    let late =
        w.store.create_identity_user(&context, &new, &subject, &JoinedAccount::InvitedByAddress);
    assert_eq!(late.await.expect("create"), UserCreated::NoSuchInvitation, "it has expired");
}
