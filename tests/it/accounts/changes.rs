//! Changes by users are recorded in the audit logs of their accounts.

use std::time::Duration;

use punctual::accounts::{SignUp, SignedInRequest};
use punctual::domain::token::Token;
use punctual::domain::user::Role;
use punctual::domain::{AccountId, UserId};
use punctual::store::{AuditQuery, INSTALLATION, NewReset};

use super::world::{HOME, PASSWORD, World, mailer, password};
use crate::harness::smtp::MailServer;

const EVERYTHING: AuditQuery =
    AuditQuery { from: None, to: None, actor: None, action: None, after: None, limit: 100 };

/// Returns the entries about Ann in the log of her account: action, actor, object, origin.
async fn entries(w: &World, ann: &SignedInRequest) -> Vec<[String; 4]> {
    let account = w.users.memberships(ann).await.expect("listed")[0].account;
    let page = w.context.store.audit_log(account, &EVERYTHING).await.expect("listed");
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
    let later = || w.context.clock.advance(Duration::from_secs(1));
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

/// Asserts that the logs of these accounts and of the installation have `count` + 1 entries, and
/// that `told` is the newest entry of the first one.
async fn one_more(w: &World, accounts: &[AccountId], count: &mut usize, told: [String; 3]) {
    let mut logs = Vec::new();
    for account in accounts.iter().chain([&INSTALLATION]) {
        let page = w.context.store.audit_log(*account, &EVERYTHING).await.expect("listed");
        logs.push(page.entries);
    }
    let [action, actor, object] = &told;
    let newest = logs[0].first().expect("an entry");
    assert_eq!([&newest.action, &newest.actor, &newest.object], [action, actor, object]);
    assert_eq!(newest.origin, HOME.to_string(), "{told:?}");
    *count += 1;
    assert_eq!(logs.iter().map(Vec::len).sum::<usize>(), *count, "{logs:?}");
    w.context.clock.advance(Duration::from_secs(1));
}

/// Sign-up, invitation, joining, a change of the role, and removal.
#[tokio::test]
async fn every_change_of_members_writes_exactly_one_entry() {
    let server = MailServer::start().await;
    let w = World::with(|context, _| context.mailer = Some(mailer(server.port))).await;
    let told = |action: &str, actor: UserId, object: &dyn ToString| {
        [action.to_owned(), actor.to_string(), object.to_string()]
    };
    let ann = w.user("ann").await;
    let anns = w.session("ann").await;
    let own = w.users.memberships(&anns).await.expect("listed")[0].account;
    let mut count = 0;
    one_more(&w, &[own], &mut count, told("account.created", ann, &own)).await;
    let bob = w.user("bob").await;
    let bobs = w.session("bob").await;
    let other = w.users.memberships(&bobs).await.expect("listed")[0].account;
    one_more(&w, &[other, own], &mut count, told("account.created", bob, &other)).await;
    let logs = [own, other];
    let invite = async |name: &str| {
        let email = format!("{name}@example.com");
        w.users.invite(&anns, own, &email, Role::Member).await.expect("invited")
    };
    let token = async |mails: usize, name: &str| {
        let to = format!("{name}@example.com");
        let mut mails = server.received(mails).await.into_iter();
        mails.find(|mail| mail.header("To") == to).expect("a mail").token()
    };
    let invitation = invite("bob").await;
    one_more(&w, &logs, &mut count, told("invitation.created", ann, &invitation)).await;
    w.users.accept_invitation(&bobs, &token(1, "bob").await).await.expect("accepted");
    one_more(&w, &logs, &mut count, told("invitation.accepted", bob, &invitation)).await;
    // The second call changes nothing.
    for _ in 0..2 {
        w.users.set_role(&anns, own, bob, Role::Viewer).await.expect("set");
    }
    one_more(&w, &logs, &mut count, told("member.role_set", ann, &bob)).await;
    w.users.remove_member(&anns, own, bob).await.expect("removed");
    one_more(&w, &logs, &mut count, told("member.removed", ann, &bob)).await;
    let invitation = invite("cy").await;
    one_more(&w, &logs, &mut count, told("invitation.created", ann, &invitation)).await;
    w.users.take_back_invitation(&anns, own, invitation).await.expect("taken back");
    one_more(&w, &logs, &mut count, told("invitation.taken_back", ann, &invitation)).await;
    let invitation = invite("dan").await;
    one_more(&w, &logs, &mut count, told("invitation.created", ann, &invitation)).await;
    let (chosen, token) = (password(PASSWORD), token(3, "dan").await);
    let sign_up = SignUp {
        email: "dan@example.com",
        password: &chosen,
        account: "",
        invitation: Some(&token),
        address: HOME,
    };
    let dan = w.users.sign_up(sign_up).await.expect("signed up");
    one_more(&w, &logs, &mut count, told("invitation.accepted", dan, &invitation)).await;
    let dans = w.session("dan").await;
    w.users.remove_member(&dans, own, dan).await.expect("left");
    one_more(&w, &logs, &mut count, told("member.removed", dan, &dan)).await;
}
