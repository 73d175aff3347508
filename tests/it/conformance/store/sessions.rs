use punctual::domain::user::TimeDisplay;
use punctual::domain::{ResetId, SessionId, Timestamp, UserId};
use punctual::store::{NewReset, NewSession, Session, SessionEnding};

use super::users::{address, audit_context, digest, hash, new_invitation, user};
use super::world::{World, minute};

/// Returns a session that expires after 10 minutes and ends after 30.
pub fn new_session(number: u128, user: UserId) -> NewSession {
    NewSession {
        id: SessionId::new(minute(0), number),
        user,
        password_version: 1,
        digest: digest(number),
        expires_at: minute(10),
        ends_at: minute(30),
    }
}

pub fn new_reset(number: u128, user: UserId) -> NewReset {
    NewReset {
        id: ResetId::new(minute(0), number),
        user,
        digest: digest(number),
        expires_at: minute(10),
    }
}

async fn found(w: &World, number: u128, at: Timestamp) -> Option<Session> {
    w.store.session(digest(number), at).await.expect("read")
}

async fn sign_in(w: &World, number: u128, user: UserId) -> NewSession {
    let session = new_session(number, user);
    assert!(w.store.create_session(minute(1), &session).await.expect("create"));
    session
}

pub async fn one_is_found_by_its_digest_until_it_expires(w: &World) {
    let ann = user(w, "ann").await;
    let made = sign_in(w, 1, ann).await;
    let read = found(w, 1, minute(9)).await.expect("a session");
    let expected = Session {
        id: made.id,
        user: ann,
        email: address("ann"),
        operator_since: None,
        time_display: TimeDisplay::default(),
        created_at: minute(1),
        expires_at: minute(10),
        ends_at: minute(30),
    };
    assert_eq!(read, expected);
    assert_eq!(found(w, 1, minute(10)).await, None);
    assert_eq!(found(w, 2, minute(1)).await, None);
    let none = new_session(3, UserId::new(minute(0), 99));
    assert!(!w.store.create_session(minute(1), &none).await.expect("create"));
}

pub async fn use_extends_one_up_to_its_end(w: &World) {
    let ann = user(w, "ann").await;
    let made = sign_in(w, 1, ann).await;
    let extend = async |at, to| {
        w.store.extend_session(at, made.id, to).await.expect("extend");
        found(w, 1, minute(1)).await.expect("a session").expires_at
    };
    assert_eq!(extend(minute(5), minute(15)).await, minute(15));
    assert_eq!(extend(minute(5), minute(12)).await, minute(15), "it never ends earlier");
    assert_eq!(extend(minute(15), minute(25)).await, minute(15), "it has expired");
    assert_eq!(extend(minute(14), minute(44)).await, minute(30));
    assert_eq!(found(w, 1, minute(30)).await, None);
}

pub async fn none_is_made_by_an_old_password(w: &World) {
    let ann = user(w, "ann").await;
    assert!(
        w.store
            .set_password(&audit_context(w, minute(1)), ann, None, &hash("second"), None)
            .await
            .expect("set")
    );
    let session = new_session(1, ann);
    assert!(!w.store.create_session(minute(1), &session).await.expect("create"));
    let version = w.store.user(ann).await.expect("read").expect("a user").password_version;
    let session = NewSession { password_version: version, ..session };
    assert!(w.store.create_session(minute(1), &session).await.expect("create"));
}

pub async fn they_end_one_or_all(w: &World) {
    let (ann, bob) = (user(w, "ann").await, user(w, "bob").await);
    for number in 1..=4 {
        sign_in(w, number, ann).await;
    }
    sign_in(w, 5, bob).await;
    let left = async || {
        let sessions = w.store.sessions(ann, minute(2)).await.expect("list");
        sessions.iter().map(|session| session.id).collect::<Vec<_>>()
    };
    let id = |number| SessionId::new(minute(0), number);
    let end = async |user, which| {
        w.store.end_sessions(&audit_context(w, minute(2)), user, which).await.expect("end");
    };
    assert_eq!(left().await, [4, 3, 2, 1].map(id));
    end(ann, SessionEnding::One(id(3))).await;
    assert_eq!(left().await, [4, 2, 1].map(id));
    end(bob, SessionEnding::One(id(4))).await;
    assert_eq!(left().await, [4, 2, 1].map(id), "it belongs to another user");
    end(ann, SessionEnding::AllBut(id(2))).await;
    assert_eq!(left().await, [id(2)]);
    end(ann, SessionEnding::All).await;
    assert_eq!(left().await, []);
    assert!(found(w, 5, minute(2)).await.is_some());
}

pub async fn a_reset_sets_the_password_once(w: &World) {
    let ann = user(w, "ann").await;
    sign_in(w, 1, ann).await;
    assert!(w.store.create_reset(minute(1), &new_reset(7, ann)).await.expect("create"));
    assert_eq!(w.store.reset(digest(7), minute(2)).await.expect("read"), Some(ann));
    let complete = async |text: &str| {
        w.store
            .complete_reset(&audit_context(w, minute(2)), digest(7), &hash(text))
            .await
            .expect("complete")
    };
    assert_eq!(complete("second").await, Some(ann));
    assert_eq!(complete("third").await, None);
    let read = w.store.user(ann).await.expect("read").expect("a user");
    assert_eq!(read.password, hash("second"));
    assert!(found(w, 1, minute(2)).await.is_none());
}

pub async fn a_reset_expires_and_is_replaced(w: &World) {
    let ann = user(w, "ann").await;
    for number in [1, 2] {
        assert!(w.store.create_reset(minute(1), &new_reset(number, ann)).await.expect("create"));
    }
    let read = async |number, at| w.store.reset(digest(number), at).await.expect("read");
    assert_eq!(read(1, minute(2)).await, None);
    assert_eq!(read(2, minute(9)).await, Some(ann));
    assert_eq!(read(2, minute(10)).await, None);
    let late =
        w.store.complete_reset(&audit_context(w, minute(10)), digest(2), &hash("second")).await;
    assert_eq!(late.expect("complete"), None);
    let none = new_reset(3, UserId::new(minute(0), 99));
    assert!(!w.store.create_reset(minute(1), &none).await.expect("create"));
}

pub async fn expired_sessions_are_removed_in_small_batches(w: &World) {
    let ann = user(w, "ann").await;
    for number in 1..=5 {
        sign_in(w, number, ann).await;
    }
    w.store.extend_session(minute(2), new_session(5, ann).id, minute(12)).await.expect("extend");
    w.store.create_reset(minute(1), &new_reset(1, ann)).await.expect("create");
    let invitation = new_invitation(1, "bob");
    w.store.create_invitation(&w.write(minute(1)), &invitation).await.expect("invite");
    let mut rounds = Vec::new();
    for at in [9, 10, 10, 10, 12] {
        // A repeated call would prune another batch.
        rounds.push(w.steady.prune_logins(minute(at), 3).await.expect("prune"));
    }
    assert_eq!(rounds, [0, 3, 1, 0, 1]);
    // Nothing is left, even for a time at which these were still valid.
    assert_eq!(w.store.sessions(ann, minute(1)).await.expect("list"), []);
    assert_eq!(w.store.reset(digest(1), minute(1)).await.expect("read"), None);
    assert_eq!(w.store.invitations(w.account, minute(1)).await.expect("list"), []);
}
