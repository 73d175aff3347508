//! What people do who sign in: the commands beneath the pages of the dashboard.
//!
//! Place in the flow: a front door hands over what was typed, the client's address and the session
//! of the cookie; a command checks it, counts it where it could be a guess, and asks the store. No
//! front door is there yet: commands and cookies are public for the one that comes.
//!
//! Invariants:
//! - S16: a session's token is 256 random bits, new at each sign-in, kept as a digest only, and
//!   refused on every replica from the moment it was ended, since the store is asked each time.
//! - S18: nobody learns from a failed sign-in or from a request to set a password anew whether there
//!   is such a user: neither by the text nor by the time.
//! - Who does not belong to an account is told that there is no such account.
//!
//! On failure: a store error is handed on; without the queue tries are counted by this replica
//! alone; without a mail server, what needs one is refused with the setting that is missing.

mod entry;
mod error;
mod members;
mod mode;
mod recovery;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

pub(super) use members::{INVITATION_PAGE, INVITED_FOR};

pub use mode::SignUpMode;

pub use entry::{SignIn, SignUp, SignedIn};
pub use error::UserError;
pub use sessions::Visit;

use super::passwords::{HashCost, Passwords};
use super::throttle::Throttle;
use crate::channels::email::{Mail, Mailer};
use crate::domain::token::Token;
use crate::domain::user::EmailAddress;
use crate::queue::SharedQueue;
use crate::runtime::{Clock, Random, Tasks};
use crate::store::SharedStore;

/// How many mails that let a password be set anew are under way at once.
const RESETS_AT_ONCE: usize = 64;

/// How users get in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserSettings {
    /// Who may become a user without an operator.
    pub sign_up: SignUpMode,
    /// What the accounts of those who sign up are allowed.
    pub plan: String,
    /// How long a session lives that nobody uses.
    pub session_idle: Duration,
    /// How long a session lives at most.
    pub session_lifetime: Duration,
    /// Where the pages are for the people that mails are sent to: a URL without a slash at its end.
    /// Absent: no links can be mailed.
    pub public_url: Option<String>,
}

/// What the commands work with.
#[derive(Clone)]
pub struct UserContext {
    /// The store.
    pub store: SharedStore,
    /// Counts tries.
    pub queue: SharedQueue,
    /// The clock.
    pub clock: Clock,
    /// Draws ids, tokens and salts.
    pub random: Random,
    /// Runs what nobody waits for.
    pub tasks: Tasks,
    /// Sends mails; absent if that is not set up.
    pub mailer: Option<Mailer>,
    /// How much work new hashes of passwords are.
    pub cost: HashCost,
}

/// Commands and queries of people who sign in. Clones share everything.
#[derive(Clone)]
pub struct Users(Arc<Inner>);

struct Inner {
    context: UserContext,
    settings: UserSettings,
    passwords: Passwords,
    throttle: Throttle,
    resets: Arc<Semaphore>,
}

impl Users {
    /// Users of `context`, as `settings` allow.
    pub fn new(context: UserContext, settings: UserSettings) -> Self {
        let passwords = Passwords::new(context.random.clone(), context.cost);
        let throttle = Throttle::new(&context.queue);
        let resets = Arc::new(Semaphore::new(RESETS_AT_ONCE));
        Self(Arc::new(Inner { context, settings, passwords, throttle, resets }))
    }

    fn token(&self) -> Token {
        Token::new(|bytes| self.0.context.random.fill(bytes))
    }

    /// What a mail needs: somebody to send it, and what its link begins with.
    fn mail(&self) -> Result<(&Mailer, &str), UserError> {
        let mailer = self.0.context.mailer.as_ref().ok_or(UserError::NoMail("mail.url"))?;
        let url = self.0.settings.public_url.as_deref();
        Ok((mailer, url.ok_or(UserError::NoMail("http.public_url"))?))
    }
}

/// The address of the page where a token of this kind is used. The token comes after a `#`, which
/// browsers tell no server, so that it is in no log of a proxy.
pub(super) fn link(public_url: &str, page: &str, token: &Token) -> String {
    format!("{public_url}/{page}#{}", token.reveal())
}

fn reset_mail(to: EmailAddress, link: &str) -> Mail {
    let text = format!(
        "Somebody, you most likely, has asked to set the password of {to} anew.\n\n\
         To do so, open this page within an hour:\n\n{link}\n\n\
         If it was not you, do nothing: the password stays as it is.\n"
    );
    Mail { to, subject: "Set your Punctual password anew".to_owned(), text }
}

fn invitation_mail(to: EmailAddress, account: &str, link: &str) -> Mail {
    let text = format!(
        "You are invited to work with the account {account} of Punctual, as {to}.\n\n\
         To accept, open this page within a week:\n\n{link}\n\n\
         If you do not know what this is about, do nothing.\n"
    );
    Mail { to, subject: format!("Invitation to {account} on Punctual"), text }
}
