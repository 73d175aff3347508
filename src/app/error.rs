//! The errors of a start.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::outbound::SetupError;
use crate::store::StoreError;
use crate::telemetry::traces::WrongSettings;

/// The reason why the service could not start. Each message names the setting to check.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener's address cannot be used.
    #[error("cannot listen on {address} ({setting}): {reason}")]
    Listen {
        /// The setting that names the address.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// The cause, and a remedy.
        reason: String,
    },
    /// The data folder cannot be created.
    #[error("cannot create the data folder {path} (data_dir): {source}")]
    DataDir {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The store cannot be used.
    #[error("{0} (store.url)")]
    Store(#[from] StoreError),
    /// The settings of the trace collector cannot be used.
    #[error(transparent)]
    Traces(#[from] WrongSettings),
    /// The store of a cluster has no keys to encrypt secrets with.
    #[error(
        "a cluster needs keys that encrypt secrets: set secrets.keys_file or secrets.keys; \
         `punctual secrets generate` prints a new key"
    )]
    NoKeys,
    /// The key that encrypts the secrets of a store is missing.
    #[error(
        "{store} has secrets that are encrypted with the key in {path}, which is gone: restore the \
         file, or set secrets.keys_file to a file with the keys"
    )]
    KeysLost {
        /// The store's file.
        store: PathBuf,
        /// The file of the key.
        path: PathBuf,
    },
    /// The file with the key cannot be used.
    #[error("the key file {path} cannot be used: {reason}")]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The cause, without any content of the file.
        reason: String,
    },
    /// Accounts have plans that are missing in the configuration.
    #[error(
        "accounts have plans that are not configured: {0}: define them as [plans.NAME] in the \
         configuration file, or run `punctual account set-plan`"
    )]
    UnknownPlans(String),
    /// The server cannot hold the configured days of history.
    #[error(
        "the configuration keeps history for {days} days, but the server has locks for {bearable} \
         days only: raise max_locks_per_transaction on the server, or lower history.days or the \
         plans' history_days"
    )]
    LongHistory {
        /// The days of history in the configuration.
        days: u64,
        /// The maximum number of days for the server.
        bearable: u64,
    },
    /// The HTTP client cannot be used.
    #[error("cannot set up outbound requests: {0}")]
    Outbound(#[from] SetupError),
    /// The queue cannot be used.
    #[error("{0} (queue.url)")]
    Queue(#[from] crate::queue::QueueError),
    /// The thread that keeps this replica in the cluster cannot be started.
    #[error("cannot start the thread that keeps this replica in the cluster: {0}")]
    Member(std::io::Error),
    /// The first pass of the job rescuer failed.
    #[error("cannot close the attempts of an earlier process: {0}")]
    Recovery(crate::runtime::RunError),
}
