//! What users change of themselves is in the audit logs of their accounts.

use punctual::accounts::Visit;
use punctual::domain::token::Token;
use punctual::store::{AuditQuery, NewReset};

use super::world::{HOME, PASSWORD, World, password};

/// What Ann's account has been told of her: action, actor, object, origin.
async fn entries(w: &World, ann: &Visit) -> Vec<[String; 4]> {
    let account = w.users.memberships(ann).await.expect("listed")[0].account;
    let query =
        AuditQuery { from: None, to: None, actor: None, action: None, after: None, limit: 100 };
    let page = w.context.store.audit_log(account, &query).await.expect("listed");
    let of = page.entries.into_iter().rev().filter(|one| one.action.starts_with("user."));
    of.map(|one| [one.action, one.actor, one.object, one.origin]).collect()
}

#[tokio::test]
async fn every_change_of_a_user_writes_exactly_one_entry() {
    let w = World::new().await;
    let id = w.user("ann").await;
    let ann = w.session("ann").await;
    assert_eq!(entries(&w, &ann).await, [[""; 4]; 0], "signing in changes nothing");
    let second = "another horse";
    w.users.change_password(&ann, PASSWORD, &password(second)).await.expect("changed");
    w.users.change_password(&ann, PASSWORD, &password(second)).await.expect_err("not that one");
    let later = || w.context.clock.advance(std::time::Duration::from_secs(1));
    later();
    w.users.sign_out_everywhere(&ann).await.expect("signed out");
    w.users.sign_out_everywhere(&ann).await.expect("again");
    later();
    let (now, token) = (w.context.clock.now(), Token::new(|bytes| bytes.fill(7)));
    let reset = NewReset {
        id: punctual::domain::ResetId::new(now, 1),
        user: id,
        digest: token.digest(),
        expires_at: now.plus(super::world::HOUR),
    };
    assert!(w.context.store.create_reset(now, &reset).await.expect("made"));
    let third = password("a third horse");
    w.users.complete_reset(token.reveal(), &third, HOME).await.expect("set");
    w.users.complete_reset(token.reveal(), &third, HOME).await.expect_err("it was used");
    let single = w.sign_in("ann", "a third horse").await.expect("signed in");
    w.users.sign_out(&single.token, HOME).await.expect("signed out");
    let (id, home) = (id.to_string(), HOME.to_string());
    let told = |action: &str| [action, &id, &id, &home].map(str::to_owned);
    let expected = ["user.password_set", "user.signed_out", "user.password_set"].map(told);
    assert_eq!(entries(&w, &ann).await, expected);
}
