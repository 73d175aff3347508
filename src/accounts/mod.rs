//! Accounts: who calls, and how often they may.
//!
//! Place in the flow: every call to the API passes here first. The [`Authenticator`] turns the key
//! that a caller shows into the account it opens, and the [`RateLimiter`] counts the call; only
//! then does anything else look at the request. People do not call with a key but sign in: what
//! they can do is in [`Users`], for the dashboard to come. [`Accounts`] holds what operators do.
//!
//! Invariants:
//! - A revoked key is refused on every replica within 5 s: what is known of a key is used for 4 s
//!   at most, counted from before the store was asked.
//! - A text with a wrong checksum never reaches the store. A well-formed key that this replica
//!   has not seen working reaches it only while its client address has failed seldom enough, once
//!   this replica has seen it fail.
//! - A call asks the shared counters once, unless an address that has failed shows a key that works.
//! - A refused call is counted nowhere.
//! - When a key was used last is told by what is noted in passing ([`KeyUseWriter`]): no call waits
//!   for it to be written.
//!
//! On failure: without the queue the calls are counted by this replica alone, still bounded;
//! without the store a key that cannot be looked up is answered as unavailable, never as invalid.

mod authenticator;
mod cookie;
mod export;
mod key_uses;
mod limiter;
mod local_counters;
mod once;
mod operators;
mod passwords;
mod shared_counters;
mod signing;
mod throttle;
mod user_operators;
mod users;

pub use authenticator::{Authenticator, Caller, Decision, Presented, Refusal};
pub use cookie::{SESSION_COOKIE, no_session_cookie, session_cookie, session_of};
pub use export::{Exported, Sink};
pub use key_uses::KeyUseWriter;
pub use limiter::{Admission, RateLimiter, RateLimits};
pub use operators::{AccountError, Accounts, KeyRequest, Overview};
pub use passwords::{HashCost, HashError, Password, Passwords, UnusablePassword, Verdict};
pub use throttle::{Throttle, Throttled};
pub use users::{
    SignIn, SignUp, SignUpMode, SignedIn, UserContext, UserError, UserSettings, Users, Visit,
};
