//! S18: guesses are limited and reveal nothing.

use std::net::IpAddr;
use std::sync::{Arc, mpsc};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use punctual::accounts::{HashError, UserError};
use punctual::domain::ResetId;
use punctual::domain::token::Token;
use punctual::domain::user::Role;
use punctual::store::NewReset;
use tokio::runtime::Builder;

use super::world::{HOME, HOUR, PASSWORD, World, mailer, sign_in};
use crate::api::away_queue::AwayQueue;
use crate::harness::smtp::MailServer;

fn address(last: u8) -> IpAddr {
    IpAddr::from([198, 51, 100, last])
}

/// Makes wrong attempts, each from another address. Returns the number that was answered as wrong.
async fn wrong(users: &punctual::accounts::Users, name: &str, tries: u8) -> usize {
    let mut answered = 0;
    for last in 0..tries {
        match sign_in(users, name, "incorrect horse", address(last)).await {
            Err(UserError::WrongCredentials) => answered += 1,
            Err(UserError::TooMany(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    answered
}

#[tokio::test]
async fn guesses_at_a_user_are_limited_whether_the_user_exists_or_not() {
    let w = World::new().await;
    w.user("ann").await;
    w.user("bob").await;
    let (known, unknown) = (wrong(&w.users, "ann", 20).await, wrong(&w.users, "nobody", 20).await);
    assert_eq!((known, unknown), (10, 10));
    let right = w.sign_in("ann", PASSWORD).await;
    assert!(matches!(right, Err(UserError::TooMany(_))), "{right:?}");
    w.sign_in("bob", PASSWORD).await.expect("others can sign in");
    w.context.clock.advance(HOUR);
    w.sign_in("ann", PASSWORD).await.expect("after a while");
}

/// If correct passwords counted, parallel sign-ins could lock a user out.
#[tokio::test]
async fn right_passwords_count_nothing() {
    let w = World::new().await;
    w.user("ann").await;
    for last in 0..15 {
        sign_in(&w.users, "ann", PASSWORD, address(last)).await.expect("right");
    }
    assert_eq!(wrong(&w.users, "ann", 20).await, 10);
}

/// If rejected attempts counted, a client that overloads the service could lock users out.
#[test]
fn tries_that_could_not_be_judged_count_nothing() {
    // Passwords are hashed on the only thread for blocking work.
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.expect("a runtime").block_on(async {
        let w = World::new().await;
        w.user("ann").await;
        let (free, taken) = mpsc::channel::<()>();
        let thread = tokio::task::spawn_blocking(move || taken.recv().is_err());
        let (fit, more) = (102, 20);
        let mut others: FuturesUnordered<_> = (0..fit + more)
            .map(|last| {
                let (users, name) = (w.users.clone(), format!("user{last}"));
                async move { sign_in(&users, &name, "incorrect horse", address(last)).await }
            })
            .collect();
        let is_busy = |tried: &_| matches!(tried, Err(UserError::Hash(HashError::Busy)));
        for _ in 0..more {
            let tried = others.next().await.expect("one of them");
            assert!(is_busy(&tried), "{tried:?}");
        }
        for last in 0..20 {
            let tried = sign_in(&w.users, "ann", PASSWORD, address(200 + last)).await;
            assert!(is_busy(&tried), "{tried:?}");
        }
        drop(free);
        assert!(thread.await.expect("ended"));
        assert_eq!(others.count().await, usize::from(fit));
        assert_eq!(wrong(&w.users, "ann", 20).await, 10, "as many as ever");
    });
}

#[tokio::test]
async fn a_new_password_has_a_new_count_of_attempts() {
    let w = World::new().await;
    let user = w.user("ann").await;
    assert_eq!(wrong(&w.users, "ann", 20).await, 10);
    let (token, now) = (Token::new(|bytes| bytes.fill(7)), w.context.clock.now());
    let id = ResetId::new(now, 1);
    let reset = NewReset { id, user, digest: token.digest(), expires_at: now.plus(HOUR) };
    assert!(w.context.store.create_reset(now, &reset).await.expect("made"));
    let new = super::world::password("another horse");
    w.users.complete_reset(token.reveal(), &new, HOME).await.expect("set anew");
    w.sign_in("ann", "another horse").await.expect("at once");
    assert_eq!(wrong(&w.users, "ann", 20).await, 10, "and as seldom wrong as before");
}

#[tokio::test]
async fn guesses_from_an_address_are_limited_whatever_the_user() {
    let w = World::new().await;
    w.user("ann").await;
    let mut answered = 0;
    for number in 0..50 {
        // Some of these names are not valid in an email address.
        let name = if number % 5 == 0 { "no body".to_owned() } else { format!("user{number}") };
        let tried = sign_in(&w.users, &name, "incorrect horse", HOME).await;
        answered += usize::from(matches!(tried, Err(UserError::WrongCredentials)));
    }
    assert_eq!(answered, 30);
    let refused = w.sign_in("ann", PASSWORD).await.expect_err("refused");
    assert!(refused.to_string().starts_with("too many tries: wait until 2024-"), "{refused}");
    sign_in(&w.users, "ann", PASSWORD, address(1)).await.expect("from elsewhere");
}

#[tokio::test]
async fn tries_are_counted_over_all_replicas() {
    let w = World::new().await;
    w.user("ann").await;
    let other = w.replica(|_, _| ());
    assert_eq!(wrong(&w.users, "ann", 6).await + wrong(&other, "ann", 14).await, 10);
}

#[tokio::test]
async fn without_the_queue_each_replica_counts_by_itself() {
    let w = World::new().await;
    w.user("ann").await;
    let alone = w.replica(|context, _| context.queue = Arc::new(AwayQueue::default()));
    assert_eq!(wrong(&alone, "ann", 20).await, 10);
}

#[tokio::test]
async fn the_present_password_cannot_be_guessed_in_a_session_either() {
    let w = World::new().await;
    w.user("ann").await;
    let session = w.session("ann").await;
    let new = super::world::password("another horse");
    let mut answered = 0;
    for _ in 0..20 {
        let tried = w.users.change_password(&session, "incorrect horse", &new).await;
        answered += usize::from(matches!(tried, Err(UserError::WrongCredentials)));
    }
    assert_eq!(answered, 10);
}

#[tokio::test]
async fn typed_text_is_in_the_name_of_no_counter() {
    let (queue, server) = (Arc::new(AwayQueue::far()), MailServer::start().await);
    let w = World::with(|context, _| {
        context.queue = queue.clone();
        context.mailer = Some(mailer(server.port));
    })
    .await;
    w.user("ann").await;
    let ann = w.session("ann").await;
    let account = w.users.memberships(&ann).await.expect("listed")[0].account;
    for name in ["a*b", "a}:{b", "a'--", "nobody"] {
        // The name may or may not be valid in an email address.
        let _ = w.sign_in(name, "a}:{b a}:{b").await;
        let email = format!("{name}@example.com");
        let _ = w.users.request_reset(&email, HOME).await;
        let _ = w.users.invite(&ann, account, &email, Role::Viewer).await;
        let _ = w.users.complete_reset(name, &super::world::password("a}:{b a}:{b"), HOME).await;
    }
    let kinds =
        ["sign-in:address:", "sign-in:user:", "reset:user:", "open:address:", "invitations:"];
    queue.assert_names_only_ids(&kinds);
}
