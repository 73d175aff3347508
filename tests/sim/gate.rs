//! Where faults come in: every operation of store and queue passes here.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
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
    /// The operation whose next call waits at the gate.
    held: Mutex<Option<&'static str>>,
    reached: Notify,
    released: Notify,
    dead: CancellationToken,
}

struct Armed {
    /// The operation that it is for; absent: any.
    operation: Option<&'static str>,
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
        *self.armed() = Some(Armed { operation: None, pass, fault });
    }

    /// The next call of an operation meets `fault`.
    pub fn arm_at(&self, operation: &'static str, fault: Fault) {
        *self.armed() = Some(Armed { operation: Some(operation), pass: 0, fault });
    }

    /// Takes the fault back.
    pub fn disarm(&self) {
        *self.armed() = None;
    }

    /// Makes the next call of an operation wait until `release`.
    pub fn hold(&self, operation: &'static str) {
        *self.held() = Some(operation);
    }

    /// Waits until a held operation has been called.
    pub async fn reached(&self) {
        self.reached.notified().await;
    }

    /// Lets a held operation go on, and holds none any more.
    pub fn release(&self) {
        // Called already if it is not waited for any more.
        if self.held().take().is_none() {
            self.released.notify_one();
        }
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
        name: &'static str,
        operation: impl Future<Output = Result<T, E>>,
        failed: impl FnOnce(Faulted) -> E,
    ) -> Result<T, E> {
        self.wait(name).await;
        let fault = self.meet(name);
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

    async fn wait(&self, name: &'static str) {
        let is_held = self.held().take_if(|held| *held == name).is_some();
        if is_held {
            self.reached.notify_one();
            self.released.notified().await;
        }
    }

    fn meet(&self, name: &str) -> Option<Fault> {
        let mut armed = self.armed();
        let left = armed.as_mut()?;
        if left.operation.is_some_and(|operation| operation != name) {
            return None;
        }
        if left.pass > 0 {
            left.pass -= 1;
            return None;
        }
        armed.take().map(|armed| armed.fault)
    }

    fn held(&self) -> MutexGuard<'_, Option<&'static str>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn armed(&self) -> MutexGuard<'_, Option<Armed>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
