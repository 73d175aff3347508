//! Injects faults: every operation of the store and the queue passes through the gate.

use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual::telemetry::metrics::{QueueOperation, StoreOperation};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

/// The fate of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails without an effect.
    Refused,
    /// It takes effect and then fails.
    AnswerLost,
    /// The process dies before the operation.
    Dies,
    /// The process dies after the operation, before the caller continues.
    DiesAfter,
}

/// The gate of one process.
#[derive(Default)]
pub struct Gate {
    armed: Mutex<Option<Armed>>,
    hold: watch::Sender<HeldCall>,
    dead: CancellationToken,
}

/// Holds one call of an operation, so that other events happen before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HeldCall {
    #[default]
    None,
    /// The next call of the operation will wait.
    Next(&'static str),
    /// The call waits at the gate.
    Waiting,
}

struct Armed {
    /// The operation that the fault applies to. `None` means any operation.
    operation: Option<&'static str>,
    /// The number of operations that still pass without a fault.
    pass: u64,
    fault: Fault,
}

/// The error of an operation that a fault has failed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a fault of the simulation")]
pub struct Faulted;

/// Asserts that the store or the queue has this operation. A gate for another one would have no
/// effect.
fn assert_exists(operation: &str) {
    let mut names = StoreOperation::NAMES.iter().chain(QueueOperation::NAMES);
    assert!(names.any(|name| *name == operation), "there is no operation {operation}");
}

impl Gate {
    /// Lets `pass` operations through. The next one meets `fault`.
    pub fn arm(&self, pass: u64, fault: Fault) {
        *self.armed() = Some(Armed { operation: None, pass, fault });
    }

    /// Makes the next call of an operation meet `fault`.
    pub fn arm_at(&self, operation: &'static str, fault: Fault) {
        assert_exists(operation);
        *self.armed() = Some(Armed { operation: Some(operation), pass: 0, fault });
    }

    /// Removes the armed fault.
    pub fn disarm(&self) {
        *self.armed() = None;
    }

    /// Makes the next call of an operation wait until `release`.
    pub fn hold(&self, operation: &'static str) {
        assert_exists(operation);
        self.hold.send_replace(HeldCall::Next(operation));
    }

    /// Waits until the held operation has been called.
    pub async fn reached(&self) {
        let mut hold = self.hold.subscribe();
        hold.wait_for(|hold| *hold == HeldCall::Waiting).await.expect("the gate is alive");
    }

    /// Waits until a task has called the held operation. Returns the task's result if it ends
    /// without the call. Returns also if the process dies.
    pub async fn reached_by<T>(&self, task: &mut JoinHandle<T>) -> Option<Result<T, JoinError>> {
        tokio::select! {
            () = self.reached() => None,
            result = task => Some(result),
            () = self.died() => None,
        }
    }

    /// Releases the held operation. No operation is held after that.
    pub fn release(&self) {
        self.hold.send_replace(HeldCall::None);
    }

    /// Kills the process: every operation stops where it is.
    pub fn kill(&self) {
        self.dead.cancel();
    }

    /// Returns `true` if the process has died.
    pub fn is_dead(&self) -> bool {
        self.dead.is_cancelled()
    }

    /// Waits until the process has died.
    pub async fn died(&self) {
        self.dead.cancelled().await;
    }

    /// Runs an operation. In a dead process it never returns.
    pub async fn pass<T, E>(
        &self,
        name: &'static str,
        operation: impl Future<Output = Result<T, E>>,
        failed: impl FnOnce(Faulted) -> E,
    ) -> Result<T, E> {
        self.wait(name).await;
        let fault = self.next_fault(name);
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
        let mut hold = self.hold.subscribe();
        let is_held = self.hold.send_if_modified(|hold| {
            let is_held = *hold == HeldCall::Next(name);
            if is_held {
                *hold = HeldCall::Waiting;
            }
            is_held
        });
        if is_held {
            hold.wait_for(|hold| *hold != HeldCall::Waiting).await.expect("the gate is alive");
        }
    }

    fn next_fault(&self, name: &str) -> Option<Fault> {
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

    fn armed(&self) -> MutexGuard<'_, Option<Armed>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
