//! An adaptive number of rows per batch.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of rows by which the size grows after a success.
const STEP: usize = 25;

/// The number of rows in a batch.
///
/// A batch may fail because it takes too long. After a failure the size is halved, down to a single
/// row, which is then known to be the cause. After a success it grows slowly, up to the maximum.
#[derive(Debug)]
pub struct BatchSize {
    most: usize,
    now: AtomicUsize,
}

impl BatchSize {
    /// Starts at the maximum, `most`.
    pub const fn new(most: usize) -> Self {
        Self { most, now: AtomicUsize::new(most) }
    }

    /// Returns the number of rows for the next batch.
    pub fn get(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// Returns the number of rows for the next batch, as the parameter of a statement.
    pub fn rows(&self) -> u32 {
        u32::try_from(self.get()).unwrap_or(u32::MAX)
    }

    /// Adapts the size to the result of the last batch.
    pub fn adapt(&self, is_done: bool) {
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
            size.adapt(is_done);
            sizes.push(size.get());
        }
        assert_eq!(sizes, [500, 250, 125, 150, 75, 37, 18]);
        for _ in 0..9 {
            size.adapt(false);
        }
        assert_eq!(size.get(), 1, "a single row");
        size.adapt(true);
        assert_eq!(size.get(), 26);
        for _ in 0..30 {
            size.adapt(true);
        }
        assert_eq!(size.get(), 500);
    }
}
