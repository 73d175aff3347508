//! Faults of calls, drawn from a seed.
//!
//! Each contract has a wrapper (`flaky.rs`) that implements it on top of any adapter and makes its
//! calls through this module. A call with a lost response is repeated, as its callers in the
//! service do. So the cases of a suite run unchanged on the wrapper, and their later reads show
//! that nothing happened twice. The wrapper checks the result of each repeated call.
//!
//! The wrapper of the store can also return the error to its caller ([`Faults::call_once`]). Then
//! the service itself runs on top of it and handles the errors (`api/faults.rs`).

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::runtime::Random;

use crate::harness::wait::live_for;

/// The delay of a delayed call.
const DELAY: Duration = Duration::from_millis(2);

/// The fate of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It fails without an effect. To a caller that repeats it, it looks like a delayed call.
    Refused,
    /// It takes effect and then fails.
    AnswerLost,
    /// It is made late.
    Delayed,
}

/// Draws the faults of one case and counts them.
pub struct Faults {
    random: Random,
    /// The operations that have been called so far.
    known: Mutex<HashSet<&'static str>>,
    injected: AtomicU64,
}

impl Faults {
    /// Returns the faults of the case of this name. They are the same in each run.
    pub fn of(case: &str) -> Arc<Self> {
        let add = |sum: u64, byte: u8| sum.wrapping_mul(31).wrapping_add(byte.into());
        let random = Random::seeded(case.bytes().fold(0, add));
        Arc::new(Self { random, known: Mutex::default(), injected: AtomicU64::new(0) })
    }

    /// Makes a call until it returns a response. `repeat` makes the call again after it took
    /// effect. It gets the lost response, to check the repeated one.
    pub async fn call<T, Call, Repeat>(
        &self,
        operation: &'static str,
        call: impl Fn() -> Call,
        repeat: impl FnOnce(T) -> Repeat,
    ) -> T
    where
        Call: Future<Output = T>,
        Repeat: Future<Output = T>,
    {
        match self.draw(operation) {
            None => call().await,
            Some(Fault::AnswerLost) => {
                let lost = call().await;
                repeat(lost).await
            }
            Some(Fault::Refused | Fault::Delayed) => {
                live_for(DELAY).await;
                call().await
            }
        }
    }

    /// Makes a call once. If it is refused or its response is lost, the caller gets `failed` and
    /// handles it.
    pub async fn call_once<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = T>,
        failed: impl FnOnce() -> T,
    ) -> T {
        match self.draw(operation) {
            None => call.await,
            Some(Fault::Refused) => failed(),
            Some(Fault::AnswerLost) => {
                call.await;
                failed()
            }
            Some(Fault::Delayed) => {
                live_for(DELAY).await;
                call.await
            }
        }
    }

    /// Like `call`, for a call without a further effect when it is repeated.
    pub async fn repeatable<T, Call>(&self, operation: &'static str, call: impl Fn() -> Call) -> T
    where
        Call: Future<Output = T>,
    {
        self.call(operation, &call, |_| call()).await
    }

    /// Like `call`, for a call that is never repeated: its response is never lost.
    pub async fn never_repeated<T, Call>(
        &self,
        operation: &'static str,
        call: impl Fn() -> Call,
    ) -> T
    where
        Call: Future<Output = T>,
    {
        if self.draw(operation).is_some() {
            live_for(DELAY).await;
        }
        call().await
    }

    /// Draws a fault. The first call of each operation loses its response.
    fn draw(&self, operation: &'static str) -> Option<Fault> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = match self.random.bits() % 8 {
            _ if known.insert(operation) => Some(Fault::AnswerLost),
            0 | 1 => Some(Fault::Refused),
            2 | 3 => Some(Fault::AnswerLost),
            4 => Some(Fault::Delayed),
            _ => None,
        };
        self.injected.fetch_add(u64::from(fault.is_some()), Ordering::Relaxed);
        fault
    }

    /// Asserts at the end of a case that faults occurred. Without faults the case proves nothing.
    pub fn assert_injected(&self) {
        assert!(self.injected.load(Ordering::Relaxed) > 0, "no call has met a fault");
    }
}

/// Returns the result of a call that takes effect at most once, after it was repeated. If the lost
/// response says that it was `done`, `is_repeat` must accept the repeated one as the sign of that.
/// The caller then learns the lost response by reading.
///
/// # Panics
/// If the call took effect twice, or the repeated call returned something else.
pub fn done_once<T: Debug, E: Debug>(
    lost: Result<T, E>,
    again: Result<T, E>,
    done: impl FnOnce(&T) -> bool,
    is_repeat: impl FnOnce(&T, &Result<T, E>) -> bool,
) -> Result<T, E> {
    match lost {
        Ok(lost) if done(&lost) => {
            assert!(is_repeat(&lost, &again), "first {lost:?}, then {again:?}");
            Ok(lost)
        }
        _ => again,
    }
}
