//! The signals that stop the process.

use tokio::signal::unix::{SignalKind, signal};

use crate::runtime::{TaskKind, Tasks};

/// Waits for SIGTERM or SIGINT, or for a failure that stops the process. A second signal ends it
/// at once.
///
/// # Errors
/// If the system does not let signals be received.
pub(super) async fn wait_for_stop(tasks: &Tasks) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => tracing::info!("SIGTERM received, stopping"),
        _ = interrupt.recv() => tracing::info!("interrupted, stopping; again to stop at once"),
        () = tasks.stopping().cancelled() => {
            tracing::error!("a part that the service needs has failed, stopping");
        }
    }
    tasks.spawn(TaskKind::Upkeep, async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::warn!("stopping at once");
        std::process::exit(130);
    });
    Ok(())
}
