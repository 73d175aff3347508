//! Sign-in with an OpenID Connect provider: the protocol, without pages and without users.
//!
//! Place in the flow: a page starts a sign-in with [`OidcProvider::start`] and sends the browser to
//! the provider. The provider sends it back with a code, which [`OidcProvider::finish`] exchanges
//! for an ID token. `users` decides which user the person is.
//!
//! Invariants:
//! - A code is accepted only with the state of the browser that started the sign-in, and is bound
//!   to it by PKCE. Its ID token has the nonce of the same sign-in.
//! - An ID token counts only with a signature by a key that the provider publishes, with an
//!   asymmetric algorithm, and if it is for this client and has not expired.
//! - Only an address that the provider confirms (`email_verified`) is used.
//! - The operator configures the provider, so it may be on a private network. Redirects are not
//!   followed, and every call has a timeout and a limited response.
//!
//! On failure: an [`OidcError`] names the failed step. A provider that does not answer is called
//! again after 5 seconds; nothing else depends on it.

mod attempt;
mod discovery;
mod error;
mod exchange;
mod id_token;
mod keys;
mod provider;
mod settings;
#[cfg(test)]
mod tests;

pub use attempt::OidcSignIn;
pub use error::{InvalidIdToken, OidcError};
pub use id_token::VerifiedIdentity;
pub use provider::{OidcAnswer, OidcProvider, OidcStart};
pub use settings::{OidcJoinSettings, OidcSettings};
