//! Why this replica is not in the cluster, in a sentence for its operator.

use etcd_client::Error;

use crate::runtime::CallError;

/// Why this replica is not in the cluster. Never shows a password.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("etcd refuses the user or the password of PUNCTUAL_CLUSTER_URL: {0}")]
    Login(String),
    #[error("the user of PUNCTUAL_CLUSTER_URL needs more rights in etcd: {0}")]
    Rights(String),
    #[error("etcd did not answer in time")]
    Silent,
    #[error("the lease has ended")]
    LeaseEnded,
    #[error("etcd ended the connection")]
    Ended,
    #[error(
        "under the prefix of PUNCTUAL_CLUSTER_URL are the replicas of another store ({0}): \
         give each installation a prefix of its own"
    )]
    Foreign(String),
    #[error("etcd is away: {0}")]
    Other(String),
}

/// What has to be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    Settings,
    Rights,
    Patience,
}

impl Failure {
    /// What has to be done: one server after the other may fail in its own way, which is no news.
    pub(super) fn remedy(&self) -> Remedy {
        match self {
            Self::Login(_) | Self::Foreign(_) => Remedy::Settings,
            Self::Rights(_) => Remedy::Rights,
            Self::Silent | Self::LeaseEnded | Self::Ended | Self::Other(_) => Remedy::Patience,
        }
    }
}

impl CallError for Failure {
    fn is_fault(&self) -> bool {
        true
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let Error::GRpcStatus(status) = &error else { return Self::Other(deepest(&error)) };
        let message = status.message();
        if message.contains("lease not found") {
            return Self::LeaseEnded;
        }
        if message.contains("permission denied") {
            return Self::Rights(message.to_owned());
        }
        let of_login = ["authentication", "invalid auth token", "user name is empty", "user ID"];
        if of_login.iter().any(|part| message.contains(part)) {
            return Self::Login(message.to_owned());
        }
        Self::Other(message.to_owned())
    }
}

/// What the innermost error says: the outer ones only say that there is one.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
