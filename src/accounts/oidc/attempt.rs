//! One sign-in in a browser, from the start to the answer of the provider.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::domain::token::{InvalidToken, Token};

/// The secret of one sign-in, kept in a cookie of the browser. State, nonce and code verifier are
/// derived from it, so no replica stores them.
#[derive(Clone)]
pub struct OidcSignIn(Token);

impl OidcSignIn {
    /// Returns an attempt with this secret.
    pub fn new(secret: Token) -> Self {
        Self(secret)
    }

    /// Returns the secret for the cookie.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }

    /// Returns the state, which comes back with the answer.
    pub(super) fn state(&self) -> String {
        self.derived("state")
    }

    /// Returns the nonce, which comes back in the ID token.
    pub(super) fn nonce(&self) -> String {
        self.derived("nonce")
    }

    /// Returns the code verifier of PKCE.
    pub(super) fn verifier(&self) -> String {
        self.derived("verifier")
    }

    /// Returns the code challenge of PKCE with the method S256.
    pub(super) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier()))
    }

    /// Returns `true` if an answer with this state belongs to this attempt.
    pub(super) fn has_state(&self, state: &str) -> bool {
        self.state().as_bytes().ct_eq(state.as_bytes()).into()
    }

    fn derived(&self, purpose: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(purpose);
        hash.update([0]);
        hash.update(self.0.reveal());
        URL_SAFE_NO_PAD.encode(hash.finalize())
    }
}

impl FromStr for OidcSignIn {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        text.parse().map(Self)
    }
}

impl fmt::Debug for OidcSignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OidcSignIn(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(byte: u8) -> OidcSignIn {
        OidcSignIn::new(Token::new(|bytes| bytes.fill(byte)))
    }

    #[test]
    fn what_is_sent_differs_and_does_not_reveal_the_secret() {
        let one = attempt(1);
        let sent = [one.state(), one.nonce(), one.verifier(), one.challenge()];
        for (at, text) in sent.iter().enumerate() {
            assert_eq!(text.len(), 43, "as RFC 7636 asks for");
            assert!(!sent[..at].contains(text) && text != one.reveal());
        }
        assert!(one.has_state(&one.state()));
        for other in ["", &attempt(2).state(), &one.nonce(), &one.state()[1..]] {
            assert!(!one.has_state(other), "{other}");
        }
        let read: OidcSignIn = one.reveal().parse().expect("an attempt");
        assert_eq!(read.state(), one.state());
        assert!(!format!("{one:?}").contains(one.reveal()));
    }
}
