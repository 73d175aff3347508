//! The commands of users who sign in, for the pages of the dashboard.
//!
//! Place in the flow: a web page passes the input, the client's address and the session from the
//! cookie. A command validates the input, counts it if it could be a guess, and calls the store.
//!
//! Invariants:
//! - S16: a session's token has 256 random bits and is new at each sign-in. Only its digest is
//!   stored. Every replica refuses it as soon as the session ends, because each request reads the
//!   store.
//! - S18: neither the text nor the duration of a failed sign-in or a password reset request reveals
//!   whether the user exists.
//! - A user who is not a member of an account gets the same answer as for a missing account.
//!
//! On failure: a store error is returned to the caller. Without the queue, this replica counts
//! attempts alone. Without a mail server, a command that needs mail is refused with the name of the
//! missing setting.

mod display;
mod entry;
mod error;
mod first_entry;
mod identities;
mod members;
mod mode;
mod recovery;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

pub(super) use members::{INVITATION_PAGE, INVITED_FOR};

pub use mode::SignUpMode;

use first_entry::FirstEntry;

pub use entry::{SignIn, SignUp, SignedIn};
pub use error::UserError;
pub use sessions::SignedInRequest;

use super::oidc::OidcProvider;
use super::passwords::{HashCost, Passwords};
use super::throttle::Throttle;
use crate::channels::email::{Mail, Mailer};
use crate::domain::token::Token;
use crate::domain::user::EmailAddress;
use crate::queue::SharedQueue;
use crate::runtime::{Clock, Mutex, Random, Tasks};
use crate::store::SharedStore;

/// The maximum number of concurrent password reset mails.
const RESETS_AT_ONCE: usize = 64;

/// The settings for sign-up and sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserSettings {
    /// The sign-up mode.
    pub sign_up: SignUpMode,
    /// The plan of accounts that are created by sign-up.
    pub plan: String,
    /// The idle timeout of a session.
    pub session_idle: Duration,
    /// The maximum lifetime of a session.
    pub session_lifetime: Duration,
    /// The base URL of the pages in mailed links, without a trailing slash. If absent, links cannot
    /// be mailed.
    pub public_url: Option<String>,
}

/// The dependencies of the commands.
#[derive(Clone)]
pub struct UserContext {
    /// The store.
    pub store: SharedStore,
    /// The queue, which counts attempts.
    pub queue: SharedQueue,
    /// The clock.
    pub clock: Clock,
    /// The source of randomness for ids, tokens and salts.
    pub random: Random,
    /// The task tracker for background work.
    pub tasks: Tasks,
    /// The mailer; absent if mail is not configured.
    pub mailer: Option<Mailer>,
    /// The OpenID provider; absent if none is configured.
    pub provider: Option<OidcProvider>,
    /// The work factor of new password hashes.
    pub cost: HashCost,
}

/// The service for commands and queries of users who sign in. Clones share all state.
#[derive(Clone)]
pub struct Users(Arc<UsersInner>);

struct UsersInner {
    context: UserContext,
    settings: UserSettings,
    passwords: Passwords,
    throttle: Throttle,
    resets: Arc<Semaphore>,
    first_entry: Mutex<Option<FirstEntry>>,
}

impl Users {
    /// Creates the service with these dependencies and settings.
    pub fn new(context: UserContext, settings: UserSettings) -> Self {
        let passwords = Passwords::new(context.random.clone(), context.cost);
        let throttle = Throttle::new(&context.queue);
        let resets = Arc::new(Semaphore::new(RESETS_AT_ONCE));
        Self(Arc::new(UsersInner {
            context,
            settings,
            passwords,
            throttle,
            resets,
            first_entry: Mutex::default(),
        }))
    }

    fn token(&self) -> Token {
        Token::new(|bytes| self.0.context.random.fill(bytes))
    }

    /// Returns the mailer and the base URL of links, both of which a mail needs.
    fn mail(&self) -> Result<(&Mailer, &str), UserError> {
        let mailer = self.0.context.mailer.as_ref().ok_or(UserError::NoMail("mail.url"))?;
        let url = self.0.settings.public_url.as_deref();
        Ok((mailer, url.ok_or(UserError::NoMail("http.public_url"))?))
    }
}

/// Returns the URL of the page that accepts a token. The token follows a `#`: browsers never send
/// that part to a server, so proxies cannot log it.
pub(super) fn link(public_url: &str, page: &str, token: &Token) -> String {
    format!("{public_url}/{page}#{}", token.reveal())
}

fn reset_mail(to: EmailAddress, link: &str) -> Mail {
    let text = format!(
        "A reset of the password of {to} was requested, most likely by you.\n\n\
         To set a new password, open this page within an hour:\n\n{link}\n\n\
         If it was not you, do nothing: the password does not change.\n"
    );
    Mail { to, subject: "Reset your Punctual password".to_owned(), text }
}

fn invitation_mail(to: EmailAddress, account: &str, link: &str) -> Mail {
    let text = format!(
        "You are invited to work with the account {account} of Punctual, as {to}.\n\n\
         To accept, open this page within a week:\n\n{link}\n\n\
         If you do not know what this is about, do nothing.\n"
    );
    Mail { to, subject: format!("Invitation to {account} on Punctual"), text }
}
