//! Accounts, API keys and users: authentication and rate limits.
//!
//! Place in the flow: every API call passes here first. The [`Authenticator`] finds the account of
//! the presented key and the [`RateLimiter`] counts the call before any other code reads the
//! request. People sign in instead of using a key; [`Users`] holds their commands, for the
//! dashboard. [`Accounts`] holds the commands of operators.
//!
//! Invariants:
//! - A revoked key is refused on every replica within 5 s: a cached key is used for at most 4 s,
//!   counted from before its lookup.
//! - A text with a wrong checksum never reaches the store. A well-formed key that is not in this
//!   replica's cache is looked up only while its client address is within its rate limit; once the
//!   address has failed on this replica, each such lookup is counted in advance.
//! - A call with a cached key calls the shared counters once. The first call of a key calls them up
//!   to three times.
//! - A call that exceeds a rate limit is counted in no window.
//! - The last use of a key is recorded in memory and written in the background ([`KeyUseWriter`]);
//!   no call waits for that write.
//!
//! On failure: without the queue, this replica counts calls alone, so they stay bounded. Without
//! the store, a key that cannot be looked up is answered as unavailable, never as invalid.

mod authenticator;
mod cookie;
mod export;
mod idempotency;
mod key_uses;
mod limiter;
mod local_counters;
mod oidc;
mod operators;
mod passwords;
mod shared_counters;
mod signing;
mod throttle;
mod user_operators;
mod users;

pub use authenticator::{AccessDecision, Authenticator, Caller, PresentedKey, Refusal};
pub use cookie::{SESSION_COOKIE, no_session_cookie, session_cookie, session_of};
pub use export::{ExportSink, Exported};
pub use key_uses::KeyUseWriter;
pub use limiter::{Admission, RateLimiter, RateLimits};
pub use oidc::{
    InvalidIdToken, OidcAnswer, OidcError, OidcJoinSettings, OidcProvider, OidcSettings,
    OidcSignIn, OidcStart, VerifiedIdentity,
};
pub use operators::{AccountError, AccountOverview, Accounts, KeyRequest};
pub use passwords::{HashCost, HashError, Password, PasswordVerdict, Passwords, UnusablePassword};
pub use throttle::{Throttle, Throttled};
pub use users::{
    SignIn, SignUp, SignUpMode, SignedIn, SignedInRequest, UserContext, UserError, UserSettings,
    Users,
};
