//! The mutex of the service.

use std::sync::{self, MutexGuard, PoisonError};

/// A mutex that can be locked even after a panic under the lock. So one panic does not stop all
/// later users of the value, which is as the panic has left it.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Creates an unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// Waits for the lock, which is released when the returned guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_under_the_lock_leaves_it_usable() {
        let count = Mutex::new(1);
        let panicked = std::panic::catch_unwind(|| {
            *count.lock() += 1;
            let _held = count.lock();
            panic!("under the lock");
        });
        assert!(panicked.is_err());
        assert_eq!(*count.lock(), 2);
        assert_eq!(count.into_inner(), 2);
    }
}
