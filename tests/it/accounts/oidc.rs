//! Sign-in with an OpenID provider: the user that a person becomes, and refusals.

use std::time::Duration;

use punctual::accounts::{
    InvalidIdToken, OidcAnswer, OidcError, OidcJoinSettings, OidcProvider, OidcSettings,
    SignUpMode, SignedIn, UserError,
};
use punctual::domain::audit::{Action, Author};
use punctual::domain::token::Token;
use punctual::domain::user::Role;
use punctual::domain::{AccountId, AuditId, InvitationId, UserId};
use punctual::outbound::OutboundSettings;
use punctual::store::{AuditQuery, INSTALLATION, NewInvitation, WriteContext};
use serde_json::{Value, json};

use super::world::{HOME, HOUR, PASSWORD, World, sign_up};
use crate::harness::openid::{OpenIdFault, OpenIdServer};
use crate::harness::wait::until;

const MINUTE: Duration = Duration::from_secs(60);

/// A world whose users can sign in with a provider.
struct OidcWorld {
    world: World,
    server: OpenIdServer,
}

/// The claims of a person with a confirmed address.
fn person(subject: &str, name: &str) -> Value {
    let email = format!("{name}@example.com");
    json!({ "sub": subject, "email": email, "email_verified": true })
}

/// The answer of the provider, as the browser brings it along.
struct Brought(Vec<(String, String)>);

impl Brought {
    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(its, _)| its == name).map(|(_, value)| value.as_str())
    }

    fn answer(&self) -> OidcAnswer<'_> {
        OidcAnswer {
            code: self.value("code"),
            state: self.value("state"),
            error: self.value("error"),
            issuer: self.value("iss"),
        }
    }
}

impl OidcWorld {
    async fn new(mode: SignUpMode) -> Self {
        Self::with(mode, |_| ()).await
    }

    async fn with(mode: SignUpMode, change: impl FnOnce(&mut OidcSettings)) -> Self {
        let server = OpenIdServer::start("2024-05-15T12:00:00Z".parse().expect("an instant")).await;
        let mut settings = server.settings();
        change(&mut settings);
        let world = World::with(|context, users| {
            users.sign_up = mode;
            let sources = (context.clock.clone(), context.random.clone());
            let outbound = OutboundSettings::default();
            let provider = OidcProvider::new(settings, &outbound, sources, &context.tasks);
            context.provider = Some(provider.expect("a provider"));
        });
        Self { world: world.await, server }
    }

    /// Signs in with the provider, which signs in the person with these claims.
    async fn enter(&self, person: Value) -> Result<SignedIn, UserError> {
        self.server.sign_in(person);
        self.server.state().now = self.world.context.clock.now();
        let start = self.world.users.start_with_provider().await?;
        let brought = Brought(self.server.visit(&start.url));
        let users = &self.world.users;
        users.finish_with_provider(Some(&start.attempt), brought.answer(), HOME).await
    }

    /// Returns the accounts of a user who has signed in, and the roles in them.
    async fn accounts(&self, signed_in: &SignedIn) -> Vec<(String, Role)> {
        let visit = self.world.users.visit(&signed_in.token, HOME).await.expect("a session");
        let memberships = self.world.users.memberships(&visit).await.expect("listed");
        memberships.into_iter().map(|one| (one.name, one.role)).collect()
    }

    /// Creates a user with an account, whose address is confirmed.
    async fn confirmed(&self, name: &str) -> UserId {
        let open = self.world.replica(|_, settings| settings.sign_up = SignUpMode::Open);
        let user = sign_up(&open, name).await;
        let context = self.world.audit_context();
        let confirmed = self.world.context.store.confirm_email(&context, user).await;
        assert!(confirmed.expect("confirmed"));
        user
    }

    fn write(&self, account: AccountId) -> WriteContext {
        let now = self.world.context.clock.now();
        let entry = AuditId::new(now, self.world.context.random.bits());
        WriteContext { account, now, author: Author::SERVICE, entry, idempotency: None }
    }

    /// Creates an account that has invited a person.
    async fn invite(&self, account: &str, name: &str) {
        let (store, clock) = (&self.world.context.store, &self.world.context.clock);
        let write = self.write(AccountId::new(clock.now(), self.world.context.random.bits()));
        assert!(store.create_account(&write, account, "unlimited").await.expect("created"));
        let write = WriteContext { entry: write.entry.nth(1), ..write };
        let token = Token::new(|bytes| self.world.context.random.fill(bytes));
        let invitation = NewInvitation {
            id: InvitationId::new(clock.now(), self.world.context.random.bits()),
            email: format!("{name}@example.com").parse().expect("an address"),
            role: Role::Member,
            digest: token.digest(),
            expires_at: clock.now().plus(HOUR),
        };
        assert!(store.create_invitation(&write, &invitation).await.expect("invited"));
    }
}

#[track_caller]
fn oidc_error<T: std::fmt::Debug>(refused: Result<T, UserError>) -> OidcError {
    match refused {
        Err(UserError::Oidc(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_known_person_is_the_same_user_whatever_the_address_is_now() {
    let w = OidcWorld::new(SignUpMode::Invitation).await;
    w.invite("acme", "ann").await;
    let first = w.enter(person("1", "ann")).await.expect("invited");
    assert_eq!(w.accounts(&first).await, [("acme".to_owned(), Role::Member)]);
    let renamed = w.enter(person("1", "maria")).await.expect("known");
    let unconfirmed = w.enter(json!({ "sub": "1" })).await.expect("known");
    assert_eq!((renamed.user, unconfirmed.user), (first.user, first.user));
    assert_ne!(renamed.token, first.token);
    w.world.disable(first.user).await;
    assert!(matches!(w.enter(person("1", "ann")).await, Err(UserError::Disabled)));
    assert!(matches!(w.enter(person("2", "ann")).await, Err(UserError::Disabled)));
}

#[tokio::test]
async fn a_user_whose_address_both_sides_have_confirmed_is_linked() {
    let w = OidcWorld::new(SignUpMode::Invitation).await;
    let ann = w.confirmed("ann").await;
    let session = w.world.sign_in("ann", PASSWORD).await.expect("signed in");
    let refused = w.enter(json!({ "sub": "1", "email": "ann@example.com" })).await;
    assert!(matches!(refused, Err(UserError::EmailUnconfirmed)), "{refused:?}");
    let mut unconfirmed = person("1", "ann");
    unconfirmed["email_verified"] = false.into();
    assert!(matches!(w.enter(unconfirmed).await, Err(UserError::EmailUnconfirmed)));
    for _ in 0..2 {
        assert_eq!(w.enter(person("1", "ANN")).await.expect("linked").user, ann);
    }
    assert!(w.world.is_signed_in(&session.token).await);
    w.world.sign_in("ann", PASSWORD).await.expect("the password stays");
    let visit = w.world.session("ann").await;
    let account = w.world.users.memberships(&visit).await.expect("listed")[0].account;
    let action = Some(Action::UserIdentityLinked);
    let query = AuditQuery { from: None, to: None, actor: None, action, after: None, limit: 10 };
    let page = w.world.context.store.audit_log(account, &query).await.expect("listed");
    let [entry] = &page.entries[..] else { panic!("{page:?}") };
    assert_eq!((&entry.object, &entry.actor), (&ann.to_string(), &ann.to_string()));
    assert_eq!(entry.origin, HOME.to_string());
}

/// A stranger may have signed up with the address while anyone could, whatever holds now.
#[tokio::test]
async fn a_user_whose_address_may_be_a_strangers_is_not_linked() {
    let w = OidcWorld::new(SignUpMode::Invitation).await;
    let open = w.world.replica(|_, settings| settings.sign_up = SignUpMode::Open);
    let stranger = sign_up(&open, "ann").await;
    let refused = w.enter(person("1", "ann")).await;
    assert!(matches!(refused, Err(UserError::AddressUnproven(_))), "{refused:?}");
    let store = &w.world.context.store;
    let confirmed = store.confirm_email(&w.world.audit_context(), stranger).await;
    assert!(confirmed.expect("confirmed"));
    assert_eq!(w.enter(person("1", "ann")).await.expect("linked").user, stranger);
}

/// Companies give the address of a person who has left to another one.
#[tokio::test]
async fn a_new_owner_of_an_address_is_not_the_user_before() {
    let w = OidcWorld::new(SignUpMode::Invitation).await;
    let ann = w.confirmed("ann").await;
    assert_eq!(w.enter(person("1", "ann")).await.expect("linked").user, ann);
    let refused = w.enter(person("2", "ann")).await;
    assert!(matches!(refused, Err(UserError::OtherPerson(_))), "{refused:?}");
    let unlinked = w.world.context.store.unlink_identities(&w.world.audit_context(), ann).await;
    assert!(unlinked.expect("unlinked"));
    assert_eq!(w.enter(person("2", "ann")).await.expect("linked").user, ann);
    let refused = w.enter(person("1", "ann")).await;
    assert!(matches!(refused, Err(UserError::OtherPerson(_))), "{refused:?}");
}

#[tokio::test]
async fn a_new_person_needs_an_invitation_unless_anyone_may_sign_up() {
    let w = OidcWorld::new(SignUpMode::Invitation).await;
    w.invite("acme", "bob").await;
    w.invite("beta", "bob").await;
    let refused = w.enter(person("1", "ann")).await.expect_err("not invited");
    assert!(
        matches!(&refused, UserError::NotInvited(email) if email.as_str() == "ann@example.com")
    );
    let bob = w.enter(person("2", "bob")).await.expect("invited");
    let joined = [("acme".to_owned(), Role::Member), ("beta".to_owned(), Role::Member)];
    assert_eq!(w.accounts(&bob).await, joined);
    let user = w.world.context.store.user(bob.user).await.expect("read").expect("a user");
    assert!(user.password.0.starts_with("$argon2id$"), "of a password that is not kept");

    let w = OidcWorld::new(SignUpMode::Off).await;
    w.invite("acme", "bob").await;
    assert!(matches!(w.enter(person("2", "bob")).await, Err(UserError::SignUpOff)));

    let w = OidcWorld::new(SignUpMode::Open).await;
    w.invite("cy@example.com", "dan").await;
    w.invite("acme", "ann").await;
    let ann = w.enter(person("1", "ann")).await.expect("open");
    assert_eq!(w.accounts(&ann).await, [("ann@example.com".to_owned(), Role::Owner)]);
    let cy = w.enter(person("3", "cy")).await.expect("open");
    let [(name, Role::Owner)] = &w.accounts(&cy).await[..] else { panic!("another role") };
    assert!(name.starts_with("cy@example.com ") && name.len() == 21, "{name}: the first is taken");
    let users = w.world.context.store.users().await.expect("listed").len();
    assert!(matches!(w.enter(json!({ "sub": "4" })).await, Err(UserError::EmailUnconfirmed)));
    assert_eq!(w.world.context.store.users().await.expect("listed").len(), users);
}

#[tokio::test]
async fn a_rule_lets_new_people_join_an_account() {
    let id = AccountId::new("2024-05-15T12:00:00Z".parse().expect("an instant"), 7);
    let join = OidcJoinSettings {
        claim: "groups".into(),
        value: "staff".into(),
        account: id,
        role: Role::Viewer,
    };
    let w = OidcWorld::with(SignUpMode::Off, |settings| settings.join = Some(join)).await;
    let mut staff = person("1", "ann");
    staff["groups"] = json!(["all", "staff"]);
    let refused = w.enter(staff.clone()).await;
    assert!(matches!(refused, Err(UserError::NoSuchJoinAccount)), "{refused:?}");
    let store = &w.world.context.store;
    assert!(store.create_account(&w.write(id), "acme", "unlimited").await.expect("created"));
    let ann = w.enter(staff).await.expect("admitted");
    assert_eq!(w.accounts(&ann).await, [("acme".to_owned(), Role::Viewer)]);
    let mut guest = person("2", "bob");
    guest["groups"] = json!("guests");
    assert!(matches!(w.enter(guest).await, Err(UserError::SignUpOff)));
    let none =
        AuditQuery { from: None, to: None, actor: None, action: None, after: None, limit: 9 };
    assert_eq!(store.audit_log(INSTALLATION, &none).await.expect("listed").entries, []);
}

#[tokio::test]
async fn an_answer_belongs_to_one_sign_in_of_one_browser() {
    let w = OidcWorld::new(SignUpMode::Open).await;
    w.server.sign_in(person("1", "ann"));
    let users = &w.world.users;
    let (one, other) = (users.start_with_provider().await, users.start_with_provider().await);
    let (one, other) = (one.expect("started"), other.expect("started"));
    let brought = Brought(w.server.visit(&one.url));
    let answer = brought.answer();
    for attempt in [None, Some(&other.attempt)] {
        let refused = oidc_error(users.finish_with_provider(attempt, answer, HOME).await);
        assert!(matches!(refused, OidcError::OtherBrowser), "{refused}");
    }
    for (changed, expected) in [
        (OidcAnswer { state: None, ..answer }, "does not belong to a sign-in"),
        (OidcAnswer { state: Some("x"), ..answer }, "does not belong to a sign-in"),
        (OidcAnswer { code: None, ..answer }, "answers without a code"),
        (OidcAnswer { issuer: Some("https://evil.example"), ..answer }, "by another provider"),
        (
            OidcAnswer { error: Some("access_denied"), ..answer },
            "refuses the sign-in: access_denied",
        ),
    ] {
        let attempt = Some(&one.attempt);
        let refused = oidc_error(users.finish_with_provider(attempt, changed, HOME).await);
        assert!(refused.to_string().contains(expected), "{refused}");
    }
    users.finish_with_provider(Some(&one.attempt), answer, HOME).await.expect("signed in");
    let again = oidc_error(users.finish_with_provider(Some(&one.attempt), answer, HOME).await);
    assert!(again.to_string().contains("invalid_grant"), "a code works once: {again}");
    // The code of another sign-in does not fit the verifier of this browser.
    let stolen = Brought(w.server.visit(&other.url));
    let own = Brought(w.server.visit(&one.url));
    let injected = OidcAnswer { code: stolen.value("code"), ..own.answer() };
    let refused = oidc_error(users.finish_with_provider(Some(&one.attempt), injected, HOME).await);
    assert!(matches!(refused, OidcError::Refused(_)), "{refused}");
}

#[tokio::test]
async fn a_wrong_token_signs_in_no_user() {
    let w = OidcWorld::new(SignUpMode::Open).await;
    for (claim, value, expected) in [
        ("iss", json!("https://evil.example"), InvalidIdToken::Issuer),
        ("aud", json!("other"), InvalidIdToken::Audience),
        ("nonce", json!("other"), InvalidIdToken::Nonce),
        ("exp", json!(1_700_000_000), InvalidIdToken::Time),
        ("sub", Value::Null, InvalidIdToken::Malformed),
    ] {
        let mut wrong = person("1", "ann");
        wrong[claim] = value;
        let refused = oidc_error(w.enter(wrong).await);
        assert!(matches!(refused, OidcError::IdToken(error) if error == expected), "{refused}");
    }
    assert_eq!(w.world.context.store.users().await.expect("listed"), []);
}

#[tokio::test]
async fn new_keys_are_fetched_when_they_are_used_but_not_all_the_time() {
    let w = OidcWorld::new(SignUpMode::Open).await;
    let clock = &w.world.context.clock;
    let fetches = || w.server.state().key_fetches;
    for _ in 0..3 {
        w.enter(person("1", "ann")).await.expect("signed in");
    }
    assert_eq!(fetches(), 1);
    w.server.rotate_key();
    let refused = oidc_error(w.enter(person("1", "ann")).await);
    assert!(matches!(refused, OidcError::IdToken(InvalidIdToken::UnknownKey)), "{refused}");
    assert_eq!(fetches(), 1, "it was asked a moment ago");
    clock.advance(MINUTE);
    w.enter(person("1", "ann")).await.expect("signed in");
    assert_eq!(fetches(), 2);
    clock.advance(HOUR);
    w.enter(person("1", "ann")).await.expect("signed in");
    assert_eq!(fetches(), 3, "a key that was withdrawn is forgotten");
    clock.advance(HOUR);
    w.server.state().fault = OpenIdFault::Down;
    w.world.users.start_with_provider().await.expect("the known keys are used meanwhile");
    clock.advance(23 * HOUR);
    let refused = w.world.users.start_with_provider().await.map(drop);
    assert!(matches!(refused, Err(UserError::Oidc(OidcError::Unreachable(_)))), "{refused:?}");
}

#[tokio::test]
async fn a_failing_provider_is_called_again_after_some_seconds() {
    for (fault, expected) in [
        (OpenIdFault::Down, "answers 503"),
        (OpenIdFault::Redirect, "answers 302"),
        (OpenIdFault::Large, "is too large"),
        (OpenIdFault::OtherIssuer, "it calls itself"),
    ] {
        let w = OidcWorld::new(SignUpMode::Open).await;
        w.server.state().fault = fault;
        let refused = oidc_error(w.enter(person("1", "ann")).await);
        assert!(refused.to_string().contains(expected), "{refused}");
        w.server.state().fault = OpenIdFault::None;
        let soon = oidc_error(w.enter(person("1", "ann")).await);
        assert!(soon.to_string().contains(expected), "it is not asked at once: {soon}");
        w.world.context.clock.advance(Duration::from_secs(5));
        w.enter(person("1", "ann")).await.expect("signed in");
    }
    let closed = OidcWorld::with(SignUpMode::Open, |settings| {
        settings.issuer = "http://127.0.0.1:1".into();
    });
    let refused = oidc_error(closed.await.enter(person("1", "ann")).await);
    assert!(matches!(refused, OidcError::Unreachable(_)), "{refused}");
}

#[tokio::test]
async fn the_secret_is_read_for_each_sign_in_and_shown_nowhere() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "wrong").expect("written");
    let path = file.path().to_owned();
    let w = OidcWorld::with(SignUpMode::Open, |settings| {
        settings.client_secret = String::new();
        settings.client_secret_file = Some(path);
    });
    let w = w.await;
    let refused = oidc_error(w.enter(person("1", "ann")).await);
    assert!(matches!(refused, OidcError::Refused(_)), "{refused}");
    std::fs::write(file.path(), format!("{}\n", crate::harness::openid::CLIENT.1))
        .expect("written");
    w.enter(person("1", "ann")).await.expect("signed in");
    file.close().expect("removed");
    let refused = oidc_error(w.enter(person("1", "ann")).await);
    assert!(matches!(refused, OidcError::SecretFile(_)), "{refused}");
    assert!(!format!("{:?}", w.server.settings()).contains("a secret"));
}

#[tokio::test]
async fn answers_of_one_address_are_limited() {
    let w = OidcWorld::new(SignUpMode::Open).await;
    let foreign =
        async || w.world.users.finish_with_provider(None, OidcAnswer::default(), HOME).await;
    for _ in 0..40 {
        // Another site can make a browser call the page, so such calls do not count.
        let refused = foreign().await;
        assert!(matches!(refused, Err(UserError::Oidc(OidcError::OtherBrowser))), "{refused:?}");
    }
    let start = w.world.users.start_with_provider().await.expect("started");
    let url: url::Url = start.url.parse().expect("a URL");
    let state = url.query_pairs().find(|(name, _)| name == "state").expect("a state").1;
    let answer = OidcAnswer { error: Some("denied"), state: Some(&state), ..OidcAnswer::default() };
    for _ in 0..30 {
        let refused = w.world.users.finish_with_provider(Some(&start.attempt), answer, HOME).await;
        assert!(matches!(refused, Err(UserError::Oidc(OidcError::Refused(_)))), "{refused:?}");
    }
    let limited = w.world.users.finish_with_provider(Some(&start.attempt), answer, HOME).await;
    assert!(matches!(limited, Err(UserError::TooMany(_))), "{limited:?}");
}

/// Moves the clock on when the provider has let `calls` calls wait.
async fn advance_after(w: &OidcWorld, calls: usize, span: Duration) {
    until("the provider lets a call wait", async || (w.server.state().hung >= calls).then_some(()))
        .await;
    w.world.context.clock.advance(span);
}

#[tokio::test]
async fn the_discovery_and_the_keys_share_one_limit() {
    let w = OidcWorld::new(SignUpMode::Open).await;
    w.server.state().fault = OpenIdFault::Hanging("");
    let users = w.world.users.clone();
    let slow = async {
        advance_after(&w, 1, Duration::from_secs(9)).await;
        // The document comes after 9 s; then the keys take more than the second that is left.
        w.server.state().fault = OpenIdFault::Hanging("/keys");
        advance_after(&w, 2, Duration::from_secs(1)).await;
    };
    let (started, ()) = tokio::join!(users.start_with_provider(), slow);
    let refused = oidc_error(started);
    assert!(refused.to_string().contains("take more than 10 s"), "{refused}");
}

#[tokio::test]
async fn a_callback_has_one_limit_for_all_calls_to_the_provider() {
    let w = OidcWorld::new(SignUpMode::Open).await;
    let (clock, users) = (&w.world.context.clock, &w.world.users);
    let start = users.start_with_provider().await.expect("started");
    clock.advance(HOUR);
    w.server.sign_in(person("1", "ann"));
    w.server.state().now = clock.now();
    w.server.rotate_key();
    let brought = Brought(w.server.visit(&start.url));
    w.server.state().fault = OpenIdFault::Hanging("");
    let finished = users.finish_with_provider(Some(&start.attempt), brought.answer(), HOME);
    let slow = async {
        // The refresh of the old keys fails. The token comes after 9 s, and its key is unknown.
        advance_after(&w, 1, Duration::from_secs(10)).await;
        advance_after(&w, 2, Duration::from_secs(9)).await;
        w.server.state().fault = OpenIdFault::Hanging("/realm");
        advance_after(&w, 3, Duration::from_secs(1)).await;
    };
    let (finished, ()) = tokio::join!(finished, slow);
    let refused = oidc_error(finished);
    assert!(refused.to_string().contains("take more than 20 s"), "{refused}");
}
