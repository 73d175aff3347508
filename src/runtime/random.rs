//! Randomness, passed as an argument.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::Mutex;

/// A source of random numbers: seeded by the operating system in the service, by a fixed seed in
/// tests. The generator is cryptographically strong in both cases. Clones share one source.
#[derive(Clone)]
pub struct Random(Arc<Mutex<StdRng>>);

impl Random {
    /// Returns a source that the operating system seeds.
    #[expect(clippy::disallowed_methods, reason = "this is the wrapper that all other code uses")]
    pub fn system() -> Self {
        Self(Arc::new(Mutex::new(StdRng::from_rng(&mut rand::rng()))))
    }

    /// Returns a source that yields the same numbers for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// Returns 128 random bits.
    pub fn bits(&self) -> u128 {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        u128::from_ne_bytes(bytes)
    }

    /// Returns a random number from 0 up to, but not including, 1.
    pub fn unit(&self) -> f64 {
        let bits = u32::try_from(self.bits() >> 96).unwrap_or(u32::MAX);
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }

    /// Fills `bytes` with random values.
    pub fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_the_numbers() {
        let (a, b) = (Random::seeded(7), Random::seeded(7));
        assert_eq!(a.bits(), b.bits());
        assert_ne!(a.bits(), Random::seeded(8).bits());
        for _ in 0..1_000 {
            assert!((0.0..1.0).contains(&a.unit()));
        }
    }
}
