//! Users on a separate store, with a clock that the test advances.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use punctual::accounts::{
    HashCost, Password, SignIn, SignUp, SignUpMode, SignedIn, SignedInRequest, UserContext,
    UserError, UserSettings, Users,
};
use punctual::channels::email::{MailSettings, Mailer, Security};
use punctual::domain::audit::Author;
use punctual::domain::token::Token;
use punctual::domain::{AuditId, UserId};
use punctual::queue::SharedQueue;
use punctual::queue::memory::MemoryQueue;
use punctual::runtime::{Clock, Random, Tasks};
use punctual::store::AuditContext;

use crate::conformance::store::sqlite;

pub const HOUR: Duration = Duration::from_secs(3_600);
pub const HOME: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 5));
pub const PASSWORD: &str = "correct horse";

pub struct World {
    pub users: Users,
    pub context: UserContext,
    pub settings: UserSettings,
    _home: Box<dyn std::any::Any + Send + Sync>,
}

/// The default settings for sign-up and sessions.
pub fn settings() -> UserSettings {
    UserSettings {
        sign_up: SignUpMode::Open,
        plan: "starter".into(),
        session_idle: 2 * HOUR,
        session_lifetime: 5 * HOUR,
        public_url: Some("https://punctual.example/app".into()),
    }
}

/// Returns a mailer for a server on this machine, without TLS.
pub fn mailer(port: u16) -> Mailer {
    Mailer::new(MailSettings {
        host: "127.0.0.1".into(),
        port,
        security: Security::Open,
        user: None,
        password: String::new(),
        password_file: None,
        ca_certificates: None,
        from: "punctual@example.com".parse().expect("an address"),
    })
}

pub fn password(text: &str) -> Password {
    Password::new(text).expect("long enough")
}

impl World {
    pub async fn new() -> Self {
        Self::with(|_, _| ()).await
    }

    /// Creates a world with another context or other settings.
    pub async fn with(change: impl FnOnce(&mut UserContext, &mut UserSettings)) -> Self {
        let (store, home) = sqlite::open().await;
        let queue: SharedQueue = Arc::new(MemoryQueue::new());
        let mut context = UserContext {
            store,
            queue,
            clock: Clock::manual("2024-05-15T12:00:00Z".parse().expect("an instant")),
            random: Random::seeded(7),
            tasks: Tasks::new(),
            mailer: None,
            provider: None,
            cost: HashCost { memory_kib: 64, passes: 1 },
        };
        let mut settings = settings();
        change(&mut context, &mut settings);
        let users = Users::new(context.clone(), settings.clone());
        Self { users, context, settings, _home: home }
    }

    /// Creates another replica on the same store and queue.
    pub fn replica(&self, change: impl FnOnce(&mut UserContext, &mut UserSettings)) -> Users {
        let (mut context, mut settings) = (self.context.clone(), self.settings.clone());
        change(&mut context, &mut settings);
        Users::new(context, settings)
    }

    /// Creates a user with an account, and then resets the counters by advancing the clock.
    pub async fn user(&self, name: &str) -> UserId {
        let id = sign_up(&self.users, name).await;
        self.context.clock.advance(HOUR);
        id
    }

    /// Disables a user.
    pub async fn disable(&self, user: UserId) {
        let disabled = self.context.store.disable_user(&self.audit_context(), user, true).await;
        assert!(disabled.expect("disabled"));
    }

    /// Returns the context of a change by the service.
    pub fn audit_context(&self) -> AuditContext {
        let now = self.context.clock.now();
        let entry = AuditId::new(now, self.context.random.bits());
        AuditContext { now, author: Author::SERVICE, entry }
    }

    pub async fn sign_in(&self, name: &str, password: &str) -> Result<SignedIn, UserError> {
        sign_in(&self.users, name, password, HOME).await
    }

    /// Signs a user in and returns the session.
    pub async fn session(&self, name: &str) -> SignedInRequest {
        let signed_in = self.sign_in(name, PASSWORD).await.expect("signed in");
        self.users.visit(&signed_in.token, HOME).await.expect("a session")
    }

    pub async fn is_signed_in(&self, token: &Token) -> bool {
        match self.users.visit(token, HOME).await {
            Ok(_) => true,
            Err(UserError::SignedOut) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Creates a user with an account.
pub async fn sign_up(users: &Users, name: &str) -> UserId {
    let email = format!("{name}@example.com");
    let password = password(PASSWORD);
    let sign_up = SignUp {
        email: &email,
        password: &password,
        account: name,
        invitation: None,
        address: HOME,
    };
    users.sign_up(sign_up).await.expect("signed up")
}

pub async fn sign_in(
    users: &Users,
    name: &str,
    password: &str,
    address: IpAddr,
) -> Result<SignedIn, UserError> {
    let email = format!("{name}@example.com");
    users.sign_in(SignIn { email: &email, password, address, previous: None }).await
}
