//! Where faults come in: every operation of store and queue passes here.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// What happens to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails and has no effect.
    Refused,
    /// It has its effect, and then fails.
    AnswerLost,
    /// The process dies before it.
    Dies,
    /// The process dies after it, before the caller goes on.
    DiesAfter,
}

/// The gate of one process.
#[derive(Default)]
pub struct Gate {
    armed: Mutex<Option<Armed>>,
    dead: CancellationToken,
}

struct Armed {
    /// Operations that still pass unharmed.
    pass: u64,
    fault: Fault,
}

/// An operation failed by a fault.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a fault of the simulation")]
pub struct Faulted;

impl Gate {
    /// Lets `pass` operations through; the next one meets `fault`.
    pub fn arm(&self, pass: u64, fault: Fault) {
        *self.armed() = Some(Armed { pass, fault });
    }

    /// Takes the fault back.
    pub fn disarm(&self) {
        *self.armed() = None;
    }

    /// Stops every operation from now on where it is.
    pub fn kill(&self) {
        self.dead.cancel();
    }

    /// Whether the process has died.
    pub fn is_dead(&self) -> bool {
        self.dead.is_cancelled()
    }

    /// Waits for the process to die.
    pub async fn died(&self) {
        self.dead.cancelled().await;
    }

    /// Runs an operation. A dead process gets no answer, ever.
    pub async fn pass<T, E>(
        &self,
        operation: impl Future<Output = Result<T, E>>,
        failed: impl FnOnce(Faulted) -> E,
    ) -> Result<T, E> {
        let fault = self.meet();
        if fault == Some(Fault::Dies) {
            self.kill();
        }
        if self.is_dead() {
            return std::future::pending().await;
        }
        if fault == Some(Fault::Refused) {
            return Err(failed(Faulted));
        }
        let result = operation.await;
        if fault == Some(Fault::DiesAfter) {
            self.kill();
        }
        if self.is_dead() {
            return std::future::pending().await;
        }
        if fault == Some(Fault::AnswerLost) { Err(failed(Faulted)) } else { result }
    }

    fn meet(&self) -> Option<Fault> {
        let mut armed = self.armed();
        let left = armed.as_mut()?;
        if left.pass > 0 {
            left.pass -= 1;
            return None;
        }
        armed.take().map(|armed| armed.fault)
    }

    fn armed(&self) -> MutexGuard<'_, Option<Armed>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
