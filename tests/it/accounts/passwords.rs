//! Changes of passwords, and the cost of hashing for other calls.

use std::net::IpAddr;
use std::pin::pin;

use futures_util::future::{Either, join_all, select};
use punctual::accounts::{HashCost, RateLimits, UserError};
use punctual::runtime::Clock;

use super::world::{HOME, PASSWORD, World, password, sign_in};
use crate::api::harness::{Service, Setup};

#[tokio::test]
async fn a_new_password_ends_the_other_sessions() {
    let w = World::new().await;
    w.user("ann").await;
    let other = w.sign_in("ann", PASSWORD).await.expect("signed in");
    let this = w.sign_in("ann", PASSWORD).await.expect("signed in");
    let session = w.users.visit(&this.token, HOME).await.expect("a session");
    let new = password("another horse");
    for wrong in ["incorrect horse", ""] {
        let refused = w.users.change_password(&session, wrong, &new).await;
        assert!(matches!(refused, Err(UserError::WrongCredentials)), "{refused:?}");
    }
    w.users.change_password(&session, PASSWORD, &new).await.expect("changed");
    assert!(w.is_signed_in(&this.token).await && !w.is_signed_in(&other.token).await);
    w.sign_in("ann", PASSWORD).await.expect_err("refused");
    w.sign_in("ann", "another horse").await.expect("signed in");
}

/// S15: hashing does not run on the only thread that serves calls. If calls waited for queued
/// hashes, they would wait for most of them.
#[tokio::test]
async fn a_sign_in_delays_no_calls() {
    const AT_ONCE: u8 = 50;
    let w = World::with(|context, _| context.cost = HashCost::default()).await;
    // The test makes as many calls as possible, so none may be rate limited.
    let limits = RateLimits { per_minute: u32::MAX, per_hour: u32::MAX };
    let service = Service::with(Setup { limits, ..Setup::default() }).await;
    let (clock, mut waits) = (Clock::system(), Vec::new());
    let began = clock.monotonic();
    let sign_ins = (0..AT_ONCE).map(async |number| {
        // An unknown user costs as much work as a known one.
        let address = IpAddr::from([198, 51, 100, number]);
        sign_in(&w.users, &format!("user{number}"), PASSWORD, address).await
    });
    let mut sign_ins = pin!(join_all(sign_ins));
    let outcomes = loop {
        let asked = clock.monotonic();
        match select(sign_ins.as_mut(), pin!(service.get("/v1/nothing"))).await {
            Either::Left((outcomes, _)) => break outcomes,
            Either::Right((answer, _)) => assert_eq!(answer.status, 404),
        }
        waits.push(clock.monotonic() - asked);
    };
    let took = clock.monotonic() - began;
    for outcome in outcomes {
        assert!(matches!(outcome, Err(UserError::WrongCredentials)), "{outcome:?}");
    }
    waits.sort();
    let [.., longest] = waits[..] else { panic!("no call was answered in {took:?}") };
    let median = waits[waits.len() / 2];
    assert!(median < took / 10 && longest < took / 4, "{median:?} {longest:?} of {took:?}");
}
