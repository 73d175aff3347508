//! Random decisions that depend only on the seed.

use punctual::runtime::Random;

/// A source of seeded random decisions.
pub struct SeededRandom(Random);

impl SeededRandom {
    pub fn new(seed: u64) -> Self {
        Self(Random::seeded(seed))
    }

    /// Returns a number from 0 up to, but not including, `end`.
    pub fn below(&self, end: u64) -> u64 {
        u64::try_from(self.0.bits() % u128::from(end)).expect("below a u64")
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns `true` with a probability of `chance` percent.
    pub fn percent(&self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Returns a random item.
    pub fn pick<'a, T>(&self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.below(of.len() as u64)).expect("an index")]
    }

    /// Returns a random item. Its weight is its relative probability.
    pub fn weighted<T: Copy>(&self, of: &[(u64, T)]) -> T {
        let mut left = self.below(of.iter().map(|(weight, _)| weight).sum());
        for (weight, item) in of {
            if left < *weight {
                return *item;
            }
            left -= weight;
        }
        unreachable!("the weights add up")
    }
}
