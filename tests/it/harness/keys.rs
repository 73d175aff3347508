//! Keys for tests.

use punctual::domain::secret_key::SecretKey;
use punctual::runtime::Random;
use punctual::store::SecretCipher;

/// Returns a key whose bytes are derived from its id.
pub fn secret_key(id: &str) -> SecretKey {
    let byte = id.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
    SecretKey { id: id.to_owned(), key: [byte; 32].into() }
}

/// Returns a cipher that seals with the first of these keys and opens with all of them.
pub fn cipher_of(ids: &[&str]) -> SecretCipher {
    let keys: Vec<_> = ids.iter().map(|id| secret_key(id)).collect();
    let (first, others) = keys.split_first().expect("a key");
    SecretCipher::new(first, others, Random::seeded(7))
}

/// The default cipher.
pub fn cipher() -> SecretCipher {
    cipher_of(&["test"])
}
