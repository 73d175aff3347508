//! The permissions of roles.

use punctual::accounts::{SignedInRequest, UserError};
use punctual::domain::audit::Author;
use punctual::domain::user::Role;
use punctual::domain::{AccountId, AuditId, InvitationId};
use punctual::store::{MemberChange, WriteContext};

use super::world::World;

/// Creates Ann, who owns an account, and Bob, who has `role` in it.
async fn ann_and_bob(w: &World, role: Role) -> (AccountId, SignedInRequest, SignedInRequest) {
    w.user("ann").await;
    let bob = w.user("bob").await;
    let (ann, bobs) = (w.session("ann").await, w.session("bob").await);
    let account = w.users.memberships(&ann).await.expect("listed")[0].account;
    let now = w.context.clock.now();
    let entry = AuditId::new(now, w.context.random.bits());
    let write = WriteContext { account, now, author: Author::SERVICE, entry, idempotency: None };
    let added = w.context.store.change_member(&write, bob, MemberChange::Add(role)).await;
    added.expect("added");
    (account, ann, bobs)
}

#[tokio::test]
async fn each_role_may_do_what_the_ones_before_may() {
    let w = World::new().await;
    let (account, ann, bob) = ann_and_bob(&w, Role::Viewer).await;
    for (role, allowed) in
        [(Role::Viewer, [true, false, false]), (Role::Member, [true, true, false])]
    {
        w.users.set_role(&ann, account, bob.session.user, role).await.expect("set");
        for (needed, allowed) in [Role::Viewer, Role::Member, Role::Owner].into_iter().zip(allowed)
        {
            let answer = w.users.authorize(&bob, account, needed).await;
            match answer {
                Ok(has) => assert!(allowed && has == role, "{role} {needed}"),
                Err(UserError::Forbidden(told)) => assert!(!allowed && told == needed),
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert_eq!(w.users.members(&bob, account).await.expect("listed").len(), 2);
    let forbidden = [
        w.users.set_role(&bob, account, bob.session.user, Role::Owner).await,
        w.users.remove_member(&bob, account, ann.session.user).await,
        w.users.invite(&bob, account, "c@example.com", Role::Owner).await.map(drop),
        w.users.invitations(&bob, account).await.map(drop),
        w.users.take_back_invitation(&bob, account, InvitationId::from_bytes([1; 16])).await,
    ];
    for answer in forbidden {
        assert!(matches!(answer, Err(UserError::Forbidden(Role::Owner))), "{answer:?}");
    }
    w.users.remove_member(&bob, account, bob.session.user).await.expect("left");
    let gone = w.users.members(&bob, account).await;
    assert!(matches!(gone, Err(UserError::NoSuchAccount)), "{gone:?}");
}

#[tokio::test]
async fn an_account_of_others_is_answered_like_a_missing_one() {
    let w = World::new().await;
    let (account, ann, _) = ann_and_bob(&w, Role::Viewer).await;
    w.user("eve").await;
    let eve = w.session("eve").await;
    for foreign in [account, AccountId::from_bytes([3; 16])] {
        let answers = [
            w.users.members(&eve, foreign).await.map(drop),
            w.users.set_role(&eve, foreign, ann.session.user, Role::Viewer).await,
            w.users.remove_member(&eve, foreign, ann.session.user).await,
            w.users.remove_member(&eve, foreign, eve.session.user).await,
            w.users.invite(&eve, foreign, "c@example.com", Role::Owner).await.map(drop),
            w.users.invitations(&eve, foreign).await.map(drop),
            w.users.take_back_invitation(&eve, foreign, InvitationId::from_bytes([1; 16])).await,
        ];
        for answer in answers {
            assert!(matches!(answer, Err(UserError::NoSuchAccount)), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn the_last_owner_stays_one() {
    let w = World::new().await;
    let (account, ann, bob) = ann_and_bob(&w, Role::Member).await;
    let leave = w.users.remove_member(&ann, account, ann.session.user).await;
    assert!(matches!(leave, Err(UserError::LastOwner)), "{leave:?}");
    let step_down = w.users.set_role(&ann, account, ann.session.user, Role::Member).await;
    assert!(matches!(step_down, Err(UserError::LastOwner)), "{step_down:?}");
    w.users.set_role(&ann, account, bob.session.user, Role::Owner).await.expect("set");
    w.users.remove_member(&ann, account, ann.session.user).await.expect("left");
    let removed = w.users.remove_member(&bob, account, ann.session.user).await;
    assert!(matches!(removed, Err(UserError::NoSuchMember)), "{removed:?}");
}
