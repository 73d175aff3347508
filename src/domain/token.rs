//! Tokens: secrets that a browser or a mail carries to authenticate its user. A store keeps only
//! digests.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// 256 random bits cannot be guessed, so a plain hash of them is enough.
const BYTES: usize = 32;

/// A secret of 256 random bits, as 43 letters, digits, `-` and `_`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// The error for a text that is not a token. It is detected without a store lookup.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a token")]
pub struct InvalidToken;

/// The hash of a token, as stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenDigest(pub [u8; 32]);

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest")
    }
}

impl Token {
    /// Returns a new token, drawn from `random`.
    pub fn new(random: impl FnOnce(&mut [u8])) -> Self {
        let mut bytes = [0; BYTES];
        random(&mut bytes);
        Self(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Returns the hash for the store.
    pub fn digest(&self) -> TokenDigest {
        TokenDigest(Sha256::digest(self.0.as_bytes()).into())
    }

    /// Returns the token itself, for its recipient.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

impl FromStr for Token {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        // The length check comes first, so that long texts are not decoded.
        let decoded = (text.len() == BYTES.div_ceil(3) * 4 - 1)
            .then(|| URL_SAFE_NO_PAD.decode(text).ok())
            .flatten();
        decoded.map(|_| Self(text.to_owned())).ok_or(InvalidToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Random;

    #[test]
    fn a_token_reads_back_and_hides_itself() {
        let random = Random::seeded(5);
        let token = Token::new(|bytes| random.fill(bytes));
        assert_eq!(token.reveal().len(), 43);
        assert_eq!(token.reveal().parse(), Ok(token.clone()));
        assert_ne!(token, Token::new(|bytes| random.fill(bytes)));
        assert!(!format!("{token:?}{:?}", token.digest()).contains(&token.reveal()[..8]));
        for other in
            ["", "a", &token.reveal()[1..], &format!("{}a", token.reveal()), &"é".repeat(22)]
        {
            assert_eq!(other.parse::<Token>(), Err(InvalidToken), "{other}");
        }
    }
}
