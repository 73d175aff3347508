//! State-changing calls: their author and their idempotency.

use sha2::{Digest, Sha256};

use super::AccountId;
use super::audit::Author;

/// A call that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The author of the call.
    pub author: Author,
    /// The reservation under which it takes effect, if it carries an idempotency key.
    pub idempotency: Option<Idempotency>,
}

impl From<Author> for Call {
    fn from(author: Author) -> Self {
        Self { author, idempotency: None }
    }
}

/// A reservation of an idempotency key: the right to take effect for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// The reserved key.
    pub key: IdempotencyKey,
    /// The holder of the reservation: a random number.
    pub holder: u128,
}

/// An idempotency key within its account, method and path: the first half of their SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyKey(pub [u8; 16]);

impl IdempotencyKey {
    /// Returns the key `given` for calls of an account to `path` with `method`.
    pub fn new(account: AccountId, method: &str, path: &str, given: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [&account.to_bytes()[..], method.as_bytes(), path.as_bytes(), given.as_bytes()]
        {
            // The length separates the parts, so that different parts never hash as the same text.
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
        let key = IdempotencyKey::new(account(1), "POST", "/v1/a", "k");
        assert_eq!(key, IdempotencyKey::new(account(1), "POST", "/v1/a", "k"));
        for other in [
            IdempotencyKey::new(account(2), "POST", "/v1/a", "k"),
            IdempotencyKey::new(account(1), "PUT", "/v1/a", "k"),
            IdempotencyKey::new(account(1), "POST", "/v1/b", "k"),
            IdempotencyKey::new(account(1), "POST", "/v1/ak", ""),
        ] {
            assert_ne!(key, other);
        }
    }
}
