//! A call that changes something: who makes it, and whether it may take effect only once.

use sha2::{Digest, Sha256};

use super::AccountId;
use super::audit::Author;

/// A call that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Who makes it, and from where.
    pub author: Author,
    /// The reservation that it takes effect under, if it carries an idempotency key.
    pub once: Option<Once>,
}

impl From<Author> for Call {
    fn from(author: Author) -> Self {
        Self { author, once: None }
    }
}

/// The right to take effect for an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Once {
    /// Which key.
    pub key: OnceKey,
    /// Who has reserved it: a random number.
    pub holder: u128,
}

/// An idempotency key within its account, method and path: the first half of their SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnceKey(pub [u8; 16]);

impl OnceKey {
    /// The key `given` for calls of an account to `path` with `method`.
    pub fn new(account: AccountId, method: &str, path: &str, given: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [&account.to_bytes()[..], method.as_bytes(), path.as_bytes(), given.as_bytes()]
        {
            // The length keeps apart what would be the same text in a row.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        let mut half = [0; 16];
        half.copy_from_slice(&digest[..16]);
        Self(half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_of_one_account_method_and_path() {
        let account = |byte| AccountId::from_bytes([byte; 16]);
        let key = OnceKey::new(account(1), "POST", "/v1/a", "k");
        assert_eq!(key, OnceKey::new(account(1), "POST", "/v1/a", "k"));
        for other in [
            OnceKey::new(account(2), "POST", "/v1/a", "k"),
            OnceKey::new(account(1), "PUT", "/v1/a", "k"),
            OnceKey::new(account(1), "POST", "/v1/b", "k"),
            OnceKey::new(account(1), "POST", "/v1/ak", ""),
        ] {
            assert_ne!(key, other);
        }
    }
}
