//! How many rows a batch has.

use std::sync::atomic::{AtomicUsize, Ordering};

/// By how many rows batches grow again with each that does not fail.
const STEP: usize = 25;

/// How many rows a batch has: half as many after a failure, because the batch may have taken too long,
/// down to a single row, which is then known to be the cause; and slowly more again.
#[derive(Debug)]
pub struct BatchSize {
    most: usize,
    now: AtomicUsize,
}

impl BatchSize {
    /// At first as many as there can be.
    pub const fn new(most: usize) -> Self {
        Self { most, now: AtomicUsize::new(most) }
    }

    /// How many the next batch has.
    pub fn get(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// A batch was done, or it failed.
    pub fn follow(&self, is_done: bool) {
        let _ = self.now.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
            let next = if is_done { now + STEP } else { now / 2 };
            Some(next.clamp(1, self.most))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_halves_and_grows_slowly_within_bounds() {
        let size = BatchSize::new(500);
        let mut sizes = Vec::new();
        for is_done in [true, false, false, true, false, false, false] {
            size.follow(is_done);
            sizes.push(size.get());
        }
        assert_eq!(sizes, [500, 250, 125, 150, 75, 37, 18]);
        for _ in 0..9 {
            size.follow(false);
        }
        assert_eq!(size.get(), 1, "a single row");
        size.follow(true);
        assert_eq!(size.get(), 26);
        for _ in 0..30 {
            size.follow(true);
        }
        assert_eq!(size.get(), 500);
    }
}
