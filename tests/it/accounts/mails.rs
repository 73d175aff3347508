//! Links in mails, as a real mail server receives them.

use std::time::Duration;

use punctual::accounts::{SignUp, SignUpMode, UserError};
use punctual::channels::email::{Mail, MailSettings, Mailer, Security};
use punctual::domain::user::Role;

use super::world::{HOME, HOUR, PASSWORD, World, mailer, password};
use crate::harness::servers::free_port;
use crate::harness::smtp::MailServer;

async fn world(server: &MailServer) -> World {
    let port = server.port;
    World::with(|context, _| context.mailer = Some(mailer(port))).await
}

/// Waits for the background tasks, which no call waits for.
async fn settle(w: &World) {
    assert!(w.context.tasks.finish(Duration::from_secs(20)).await, "everything has ended");
}

#[tokio::test]
async fn a_forgotten_password_can_be_reset_once() {
    let server = MailServer::start().await;
    let w = world(&server).await;
    w.user("ann").await;
    let session = w.sign_in("ann", PASSWORD).await.expect("signed in");
    w.users.request_reset(" Ann@Example.com", HOME).await.expect("asked");
    let mail = server.received(1).await.remove(0);
    assert_eq!(mail.header("To"), "ann@example.com");
    assert_eq!(mail.recipients, ["ann@example.com"]);
    assert_eq!(mail.header("From"), "punctual@example.com");
    assert_eq!(mail.header("Subject"), "Reset your Punctual password");
    assert!(mail.header("Content-Type").starts_with("text/plain"), "{mail:?}");
    assert!(mail.text.contains("\nhttps://punctual.example/app/reset#"), "{}", mail.text);
    let (token, new) = (mail.token(), password("another horse"));
    assert!(w.is_signed_in(&session.token).await);
    w.users.complete_reset(&token, &new, HOME).await.expect("set");
    assert!(!w.is_signed_in(&session.token).await, "all sessions have ended");
    w.sign_in("ann", "another horse").await.expect("signed in");
    for wrong in [token.as_str(), "", &token[1..]] {
        let refused = w.users.complete_reset(wrong, &new, HOME).await;
        assert!(matches!(refused, Err(UserError::InvalidLink)), "{refused:?}");
    }
}

#[tokio::test]
async fn a_link_works_for_an_hour() {
    let server = MailServer::start().await;
    let w = world(&server).await;
    w.user("ann").await;
    w.users.request_reset("ann@example.com", HOME).await.expect("asked");
    let token = server.received(1).await[0].token();
    w.context.clock.advance(HOUR);
    let late = w.users.complete_reset(&token, &password("another horse"), HOME).await;
    assert!(matches!(late, Err(UserError::InvalidLink)), "{late:?}");
}

#[tokio::test]
async fn answers_do_not_reveal_the_addresses_with_a_password() {
    let server = MailServer::start().await;
    let w = world(&server).await;
    let bob = w.user("bob").await;
    w.user("ann").await;
    w.disable(bob).await;
    for name in ["nobody", "bob", "ann"] {
        w.users.request_reset(&format!("{name}@example.com"), HOME).await.expect("asked");
    }
    settle(&w).await;
    let mails = server.mails();
    let [mail] = &mails[..] else { panic!("{mails:?}") };
    assert_eq!(mail.header("To"), "ann@example.com");
}

#[tokio::test]
async fn mails_to_one_and_requests_from_one_are_few() {
    let server = MailServer::start().await;
    let w = world(&server).await;
    for name in ["ann", "nobody"] {
        let mut asked = 0;
        for last in 1..=6 {
            let from = std::net::IpAddr::from([198, 51, 100, last]);
            let outcome = w.users.request_reset(&format!("{name}@example.com"), from).await;
            asked += usize::from(outcome.is_ok());
        }
        assert_eq!(asked, 2, "{name}");
    }
    let mut asked = 0;
    for number in 0..20 {
        let outcome = w.users.request_reset(&format!("user{number}@example.com"), HOME).await;
        asked += usize::from(outcome.is_ok());
    }
    assert_eq!(asked, 10);
}

#[tokio::test]
async fn an_invited_user_becomes_a_member() {
    let server = MailServer::start().await;
    let w = world(&server).await;
    w.user("ann").await;
    w.user("bob").await;
    let ann = w.session("ann").await;
    let account = w.users.memberships(&ann).await.expect("listed")[0].account;
    let invited = w.users.invite(&ann, account, "Bob@example.com", Role::Member).await;
    invited.expect("invited");
    let mail = server.received(1).await.remove(0);
    assert_eq!(mail.header("To"), "bob@example.com");
    assert_eq!(mail.header("Subject"), "Invitation to ann on Punctual");
    assert!(mail.text.contains("https://punctual.example/app/invitation#"), "{}", mail.text);
    let other = w.users.accept_invitation(&ann, &mail.token()).await;
    assert!(matches!(other, Err(UserError::InvalidLink)), "{other:?}");
    let bob = w.session("bob").await;
    let joined = w.users.accept_invitation(&bob, &mail.token()).await.expect("accepted");
    assert_eq!(joined, account);
    assert_eq!(w.users.authorize(&bob, account, Role::Member).await.expect("may"), Role::Member);
    let again = w.users.accept_invitation(&bob, &mail.token()).await;
    assert!(matches!(again, Err(UserError::InvalidLink)), "{again:?}");
}

#[tokio::test]
async fn invited_people_can_sign_up_where_others_cannot() {
    let server = MailServer::start().await;
    let w = world(&server).await;
    w.user("ann").await;
    let ann = w.session("ann").await;
    let account = w.users.memberships(&ann).await.expect("listed")[0].account;
    w.users.invite(&ann, account, "cy@example.com", Role::Viewer).await.expect("invited");
    let token = server.received(1).await[0].token();
    let users = w.replica(|_, settings| settings.sign_up = SignUpMode::Invitation);
    let chosen = password(PASSWORD);
    let sign_up = |email| SignUp {
        email,
        password: &chosen,
        account: "",
        invitation: Some(&token),
        address: HOME,
    };
    let other = users.sign_up(sign_up("dan@example.com")).await;
    assert!(matches!(other, Err(UserError::InvalidLink)), "{other:?}");
    users.sign_up(sign_up("cy@example.com")).await.expect("signed up");
    let cy = w.session("cy").await;
    assert_eq!(w.users.authorize(&cy, account, Role::Viewer).await.expect("may"), Role::Viewer);
    assert_eq!(w.users.invitations(&ann, account).await.expect("listed"), []);
}

#[tokio::test]
async fn a_missing_mail_setting_is_named() {
    let w = World::new().await;
    w.user("ann").await;
    let refused = w.users.request_reset("ann@example.com", HOME).await.expect_err("refused");
    assert!(refused.to_string().contains("mail.url"), "{refused}");
    let users = w.replica(|context, settings| {
        context.mailer = Some(mailer(9));
        settings.public_url = None;
    });
    let refused = users.request_reset("ann@example.com", HOME).await.expect_err("refused");
    assert!(refused.to_string().contains("http.public_url"), "{refused}");
}

#[tokio::test]
async fn a_mail_that_is_not_accepted_is_reported_to_the_caller() {
    let w = World::with(|context, _| context.mailer = Some(mailer(free_port()))).await;
    w.user("ann").await;
    let ann = w.session("ann").await;
    let account = w.users.memberships(&ann).await.expect("listed")[0].account;
    let refused = w.users.invite(&ann, account, "bob@example.com", Role::Member).await;
    let refused = refused.expect_err("refused").to_string();
    assert!(refused.contains("127.0.0.1 (mail.url)"), "{refused}");
    w.users.request_reset("ann@example.com", HOME).await.expect("it is sent in the background");
    settle(&w).await;
}

#[tokio::test]
async fn the_way_to_the_server_can_be_kept_from_others() {
    let server = MailServer::start_with_tls().await;
    let authority = server.authority.as_ref().expect("an authority");
    let pem = std::fs::read_to_string(authority).expect("readable");
    let send = async |security, ca_certificates| {
        let settings = MailSettings {
            host: "localhost".into(),
            port: server.port,
            security,
            user: None,
            password: String::new(),
            password_file: None,
            ca_certificates,
            from: "punctual@example.com".parse().expect("an address"),
        };
        let to = "ann@example.com".parse().expect("an address");
        let subject = "a\r\nBcc: eve@example.com".to_owned();
        let mail = Mail { to, subject, text: "ü\r\n.\r\n=end".to_owned() };
        Mailer::new(settings).send(&mail).await
    };
    send(Security::StartTls, None).await.expect_err("an unknown authority");
    send(Security::Open, None).await.expect_err("the server wants TLS");
    send(Security::StartTls, Some(pem)).await.expect("sent");
    let mail = server.received(1).await.remove(0);
    assert_eq!(mail.recipients, ["ann@example.com"]);
    assert_eq!(mail.header("Subject"), "a Bcc: eve@example.com");
    assert!(mail.headers.iter().all(|(name, _)| name != "Bcc"), "{mail:?}");
}
