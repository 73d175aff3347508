//! The signals that stop the process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::runtime::Tasks;

/// The receiver of SIGTERM and SIGINT.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts to receive signals. Before this call, a signal ends the process.
    ///
    /// # Errors
    /// If the operating system refuses the signal handlers.
    pub fn receive() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for a signal, or for a failure among `tasks` that stops the process.
    pub(super) async fn wait_for_stop(&mut self, tasks: [&Tasks; 2]) {
        let [some, others] = tasks.map(|tasks| tasks.stopping().cancelled());
        let failed = async {
            tokio::select! { () = some => {}, () = others => {} }
        };
        tokio::select! {
            _ = self.terminate.recv() => tracing::info!("SIGTERM received, stopping"),
            _ = self.interrupt.recv() => {
                tracing::info!("SIGINT received, stopping; send it again to stop at once");
            }
            () = failed => {
                tracing::error!("a required task has failed, stopping");
            }
        }
    }

    /// Waits for a signal that cancels the current operation.
    pub async fn wait_for_one(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        tracing::warn!("signal received, stopping at once");
    }
}
