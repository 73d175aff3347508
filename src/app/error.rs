//! Why the service could not start.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::outbound::SetupError;
use crate::store::StoreError;
use crate::telemetry::traces::WrongSettings;

/// Why the service could not start; each says which setting to look at.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener's address cannot be used.
    #[error("cannot listen on {address} ({setting}): {reason}")]
    Listen {
        /// The setting that names the address.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The data folder cannot be made.
    #[error("cannot create the data folder {path} (data_dir): {source}")]
    DataDir {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The store cannot be used.
    #[error("{0} (store.url)")]
    Store(#[from] StoreError),
    /// The collector of traces cannot be used.
    #[error(transparent)]
    Traces(#[from] WrongSettings),
    /// A store of a cluster has no keys to seal secrets with.
    #[error(
        "a cluster needs keys to encrypt secrets with: set secrets.keys_file or secrets.keys; \
         `punctual secrets generate` makes a key"
    )]
    NoKeys,
    /// The key that a store's secrets are sealed with is gone.
    #[error(
        "{store} has secrets that are encrypted with the key in {path}, which is gone: give the \
         file back, or name the keys in secrets.keys_file"
    )]
    KeysLost {
        /// The store's file.
        store: PathBuf,
        /// The file of the key.
        path: PathBuf,
    },
    /// The file with the key cannot be used.
    #[error("the file with the key for secrets, {path}, cannot be used: {reason}")]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// What is wrong; quotes nothing of it.
        reason: String,
    },
    /// Accounts have plans that the configuration does not know.
    #[error(
        "accounts have plans that are not configured: {0}: describe them as [plans.NAME] in the \
         configuration file, or run `punctual account set-plan`"
    )]
    UnknownPlans(String),
    /// The store has not room for so much history.
    #[error(
        "history is to be kept for {days} days, and the server has locks for {bearable}: raise \
         max_locks_per_transaction at the server, or lower history.days or the plans' history_days"
    )]
    LongHistory {
        /// As the configuration says.
        days: u64,
        /// As the server can bear.
        bearable: u64,
    },
    /// The HTTP client cannot be used.
    #[error("cannot set up outbound requests: {0}")]
    Outbound(#[from] SetupError),
    /// The queue cannot be used.
    #[error("{0} (queue.url)")]
    Queue(#[from] crate::queue::QueueError),
    /// There is no thread to keep this replica a member of the cluster.
    #[error("cannot start the thread that keeps this replica in the cluster: {0}")]
    Member(std::io::Error),
    /// The first sweep failed.
    #[error("cannot close what an earlier process left: {0}")]
    Recovery(crate::runtime::RunError),
}
