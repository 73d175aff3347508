//! What a seed decides.

use punctual::runtime::Random;

/// Dice that a seed loads.
pub struct Dice(Random);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Random::seeded(seed))
    }

    /// A number from 0 up to, but not including, `end`.
    pub fn below(&self, end: u64) -> u64 {
        u64::try_from(self.0.bits() % u128::from(end)).expect("below a u64")
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Yes, in so many of a hundred cases.
    pub fn percent(&self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of them.
    pub fn pick<'a, T>(&self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.below(of.len() as u64)).expect("an index")]
    }

    /// One of them, each as often as its weight says.
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
