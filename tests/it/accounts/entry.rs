//! Sign-up, sign-in and sign-out.

use std::time::Duration;

use punctual::accounts::{HashCost, SignIn, SignUp, SignUpMode, UserError, Users};
use punctual::domain::user::Role;
use punctual::store::StoreErrorKind;

use super::world::{HOME, HOUR, PASSWORD, World, password, sign_in};

#[tokio::test]
async fn a_new_user_owns_a_new_account() {
    let w = World::new().await;
    let ann = w.user("ann").await;
    let session = w.session("ann").await;
    assert_eq!(session.session.user, ann);
    let memberships = w.users.memberships(&session).await.expect("listed");
    let [own] = &memberships[..] else { panic!("{memberships:?}") };
    assert_eq!((own.name.as_str(), own.role), ("ann", Role::Owner));
    let account = w.context.store.account(own.account).await.expect("read").expect("an account");
    assert_eq!(account.plan, "starter", "as the installation says");
    let chosen = password(PASSWORD);
    let again = |email, account| SignUp {
        email,
        password: &chosen,
        account,
        invitation: None,
        address: HOME,
    };
    let taken = w.users.sign_up(again(" ANN@Example.COM ", "other")).await;
    assert!(matches!(taken, Err(UserError::EmailTaken)), "{taken:?}");
    for account in ["ann", "", "a\r\nb"] {
        let refused = w.users.sign_up(again("bob@example.com", account)).await;
        assert!(matches!(refused, Err(UserError::Name(_))), "{account:?}: {refused:?}");
    }
    let refused = w.users.sign_up(again("bob", "bob")).await;
    assert!(matches!(refused, Err(UserError::Address(_))), "{refused:?}");
}

#[tokio::test]
async fn signing_up_can_be_for_the_invited_or_off() {
    let w = World::new().await;
    for (mode, token) in [
        (SignUpMode::Off, None),
        (SignUpMode::Off, Some("a")),
        (SignUpMode::Invitation, None),
        (SignUpMode::Invitation, Some("a")),
    ] {
        let users = w.replica(|_, settings| settings.sign_up = mode);
        let chosen = password(PASSWORD);
        let sign_up = SignUp {
            email: "ann@example.com",
            password: &chosen,
            account: "ann",
            invitation: token,
            address: HOME,
        };
        let refused = users.sign_up(sign_up).await.expect_err("refused");
        let as_expected = match (mode, token) {
            (SignUpMode::Off, _) => matches!(refused, UserError::SignUpOff),
            (_, None) => matches!(refused, UserError::InvitationNeeded),
            _ => matches!(refused, UserError::InvalidLink),
        };
        assert!(as_expected, "{mode:?} {token:?}: {refused}");
    }
    assert_eq!(w.context.store.users().await.expect("listed"), []);
}

#[tokio::test]
async fn each_sign_in_is_a_new_session_and_ends_the_one_before() {
    let w = World::new().await;
    w.user("ann").await;
    let first = w.sign_in("ann", PASSWORD).await.expect("signed in");
    let other = w.sign_in("ann", PASSWORD).await.expect("signed in");
    assert_ne!(first.token, other.token);
    let again = SignIn {
        email: "Ann@example.com",
        password: PASSWORD,
        address: HOME,
        previous: Some(&first.token),
    };
    let second = w.users.sign_in(again).await.expect("signed in");
    assert!(!w.is_signed_in(&first.token).await);
    assert!(w.is_signed_in(&second.token).await && w.is_signed_in(&other.token).await);
    w.users.sign_out(&second.token, HOME).await.expect("signed out");
    w.users.sign_out(&second.token, HOME).await.expect("signed out");
    assert!(!w.is_signed_in(&second.token).await);
    let third = w.sign_in("ann", PASSWORD).await.expect("signed in");
    let session = w.users.visit(&other.token, HOME).await.expect("a session");
    assert_eq!(w.users.sessions(&session).await.expect("listed").len(), 2);
    w.users.sign_out_everywhere(&session).await.expect("signed out");
    assert!(!w.is_signed_in(&other.token).await && !w.is_signed_in(&third.token).await);
}

/// S16: no replica caches sessions.
#[tokio::test]
async fn a_session_that_has_ended_has_ended_on_every_replica() {
    let w = World::new().await;
    w.user("ann").await;
    let other = w.replica(|_, _| ());
    let [here, there] = [&w.users, &other];
    let mut tokens = Vec::new();
    for users in [here, there, here] {
        tokens.push(sign_in(users, "ann", PASSWORD, HOME).await.expect("signed in").token);
    }
    for token in &tokens {
        here.visit(token, HOME).await.expect("signed in");
        there.visit(token, HOME).await.expect("signed in");
    }
    let ended = async |users: &Users, token| {
        matches!(users.visit(token, HOME).await, Err(UserError::SignedOut))
    };
    here.sign_out(&tokens[2], HOME).await.expect("signed out");
    assert!(ended(there, &tokens[2]).await);
    let ann = here.visit(&tokens[0], HOME).await.expect("a session");
    here.sign_out_everywhere(&ann).await.expect("signed out");
    for token in &tokens {
        assert!(ended(here, token).await && ended(there, token).await);
    }
}

#[tokio::test]
async fn a_session_ends_when_it_is_not_used_and_in_any_case() {
    let w = World::new().await;
    w.user("ann").await;
    let idle = w.sign_in("ann", PASSWORD).await.expect("signed in");
    let used = w.sign_in("ann", PASSWORD).await.expect("signed in");
    for _ in 0..4 {
        w.context.clock.advance(HOUR);
        assert!(w.is_signed_in(&used.token).await);
    }
    assert!(!w.is_signed_in(&idle.token).await, "after two hours");
    w.context.clock.advance(HOUR - Duration::from_millis(1));
    assert!(w.is_signed_in(&used.token).await);
    w.context.clock.advance(Duration::from_millis(1));
    assert!(!w.is_signed_in(&used.token).await, "after five hours");
}

#[tokio::test]
async fn every_failed_sign_in_has_the_same_answer() {
    let w = World::new().await;
    let bob = w.user("bob").await;
    w.user("ann").await;
    w.disable(bob).await;
    for (name, typed) in [
        ("ann", "incorrect horse"),
        ("nobody", PASSWORD),
        ("bob", PASSWORD),
        ("ann", ""),
        ("an n", PASSWORD),
        ("ann", &"a".repeat(1 << 20)),
    ] {
        let refused = w.sign_in(name, typed).await.expect_err("refused");
        assert_eq!(refused.to_string(), "the e-mail address or the password is wrong");
    }
}

#[tokio::test]
async fn an_unknown_user_takes_as_long_as_a_wrong_password() {
    let w = World::with(|context, _| context.cost = HashCost::default()).await;
    w.user("ann").await;
    let mut fastest = [Duration::MAX; 2];
    // A busy machine slows down single attempts, but not always those of the same user.
    for _ in 0..30 {
        for (name, fastest) in ["ann", "nobody"].iter().zip(&mut fastest) {
            let started = std::time::Instant::now();
            w.sign_in(name, "incorrect horse").await.expect_err("refused");
            *fastest = started.elapsed().min(*fastest);
        }
        w.context.clock.advance(HOUR);
        let [known, unknown] = fastest;
        if unknown * 2 > known && known * 2 > unknown {
            return;
        }
    }
    panic!("{fastest:?}");
}

#[tokio::test]
async fn a_password_is_hashed_again_when_the_work_factor_rises() {
    let w = World::new().await;
    let ann = w.user("ann").await;
    let stored = async || w.context.store.user(ann).await.expect("read").expect("a user");
    let before = stored().await;
    let stronger = w.replica(|context, _| context.cost.passes = 2);
    sign_in(&stronger, "ann", "incorrect horse", HOME).await.expect_err("refused");
    assert_eq!(stored().await, before);
    let signed_in = sign_in(&stronger, "ann", PASSWORD, HOME).await.expect("signed in");
    assert!(stored().await.password.0.contains("t=2"), "hashed anew");
    assert!(w.is_signed_in(&signed_in.token).await);
    w.sign_in("ann", PASSWORD).await.expect("the older replica can read it");
}

#[tokio::test]
async fn neither_passwords_nor_tokens_are_in_the_store() {
    let w = World::new().await;
    let ann = w.user("ann").await;
    let signed_in = w.sign_in("ann", PASSWORD).await.expect("signed in");
    let user = w.context.store.user(ann).await.expect("read").expect("a user");
    let session = w.users.visit(&signed_in.token, HOME).await.expect("a session");
    let shown = format!("{user:?} {session:?} {signed_in:?} {}", user.password.0);
    assert!(!shown.contains(PASSWORD) && !shown.contains(signed_in.token.reveal()), "{shown}");
    assert!(!format!("{user:?}").contains("argon2"), "{user:?}");
    let missing = w.context.store.session(signed_in.token.digest(), session.session.ends_at).await;
    assert_eq!(missing.map_err(|error| error.kind()), Ok::<_, StoreErrorKind>(None));
}

#[tokio::test]
async fn the_link_of_a_trial_signs_in_its_user_once() {
    let w = World::new().await;
    let ann = w.user("ann").await;
    let email = || "ann@example.com".parse().expect("an address");
    let refused = |entered: Result<_, UserError>| matches!(entered, Err(UserError::InvalidLink));
    let (first, second) = (w.users.first_entry(email()), w.users.first_entry(email()));
    assert!(refused(w.users.enter(first.reveal(), HOME).await), "a newer link replaces it");
    assert!(refused(w.users.enter("no token", HOME).await));
    let entered = w.users.enter(second.reveal(), HOME).await.expect("signed in");
    assert_eq!(entered.user, ann);
    assert!(w.is_signed_in(&entered.token).await);
    assert!(refused(w.users.enter(second.reveal(), HOME).await), "it was used");
    let late = w.users.first_entry(email());
    w.context.clock.advance(HOUR);
    assert!(refused(w.users.enter(late.reveal(), HOME).await), "it has expired");
    let third = w.users.first_entry(email());
    w.disable(ann).await;
    assert!(refused(w.users.enter(third.reveal(), HOME).await), "a disabled user");
}
