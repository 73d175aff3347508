//! Faults of calls, drawn from a seed.
//!
//! Each contract has a wrapper (`flaky.rs`) that implements it over any adapter and makes its calls
//! through here. A call whose answer is lost is made again, as its callers in the service do. So the
//! cases of a suite run through the wrapper unchanged, and what they find afterwards shows that
//! nothing was done twice. What the repeated call answers is checked beside each method there.
//!
//! The store's wrapper can tell its caller as well ([`Faults::told`]): the service itself then
//! stands above it, and meets the errors (`api/faults.rs`).

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::runtime::Random;

use crate::harness::wait::live_for;

/// How late a delayed call is.
const DELAY: Duration = Duration::from_millis(2);

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It fails and has no effect. To whoever makes it again it is as if it came late.
    Refused,
    /// It has its effect, and then fails.
    AnswerLost,
    /// It is made late.
    Delayed,
}

/// Draws the faults of one case, and counts them.
pub struct Faults {
    random: Random,
    /// The operations that have been called.
    known: Mutex<HashSet<&'static str>>,
    injected: AtomicU64,
}

impl Faults {
    /// The faults of the case of this name: the same each time.
    pub fn of(case: &str) -> Arc<Self> {
        let add = |sum: u64, byte: u8| sum.wrapping_mul(31).wrapping_add(byte.into());
        let random = Random::seeded(case.bytes().fold(0, add));
        Arc::new(Self { random, known: Mutex::default(), injected: AtomicU64::new(0) })
    }

    /// Makes a call until it is answered. `repeat` is how it is made after it has had its effect;
    /// it is given the answer that was lost, to check what it gets by it.
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

    /// Makes a call once. Its caller is told `failed` of one that is refused or whose answer is
    /// lost, and does what it does then.
    pub async fn told<T>(
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

    /// The same for a call that has no other effect when it is made again.
    pub async fn repeatable<T, Call>(&self, operation: &'static str, call: impl Fn() -> Call) -> T
    where
        Call: Future<Output = T>,
    {
        self.call(operation, &call, |_| call()).await
    }

    /// The same for a call that nobody makes again: its answer does not get lost.
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

    /// The first call of each operation loses its answer; then chance decides.
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

    /// To be said at the end of a case: without faults it has shown nothing.
    pub fn were_injected(&self) {
        assert!(self.injected.load(Ordering::Relaxed) > 0, "no call has met a fault");
    }
}

/// What the caller knows after it has repeated a call that may be made once only. If the lost
/// answer says that it was `done`, the repeated one must say so in the way that `told` knows, and
/// the caller finds out by reading what the lost one said.
///
/// # Panics
/// If it was done twice, or the repeated call says something else.
pub fn done_once<T: Debug, E: Debug>(
    lost: Result<T, E>,
    again: Result<T, E>,
    done: impl FnOnce(&T) -> bool,
    told: impl FnOnce(&T, &Result<T, E>) -> bool,
) -> Result<T, E> {
    match lost {
        Ok(lost) if done(&lost) => {
            assert!(told(&lost, &again), "first {lost:?}, then {again:?}");
            Ok(lost)
        }
        _ => again,
    }
}
