//! Keys for tests.

use punctual::domain::secret_key::SecretKey;
use punctual::runtime::Random;
use punctual::store::Sealer;

/// Returns a key whose bytes are derived from its id.
pub fn secret_key(id: &str) -> SecretKey {
    let byte = id.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
    SecretKey { id: id.to_owned(), key: [byte; 32].into() }
}

/// Returns a sealer that seals with the first of these keys and opens with all of them.
pub fn sealer_of(ids: &[&str]) -> Sealer {
    let keys: Vec<_> = ids.iter().map(|id| secret_key(id)).collect();
    let (first, others) = keys.split_first().expect("a key");
    Sealer::new(first, others, Random::seeded(7))
}

/// The default sealer.
pub fn sealer() -> Sealer {
    sealer_of(&["test"])
}
