//! The errors of the calls to etcd, with messages for the operator.

use etcd_client::Error;

use crate::runtime::CallError;

/// The reason why a call to etcd failed, or why this replica is not in the cluster. It never
/// contains a password.
#[derive(Debug, thiserror::Error)]
pub(super) enum EtcdFailure {
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
        "the prefix of PUNCTUAL_CLUSTER_URL is used by replicas of another store ({0}): \
         give each installation a prefix of its own"
    )]
    Foreign(String),
    #[error("etcd is unreachable: {0}")]
    Other(String),
}

/// The kind of remedy for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EtcdRemedy {
    Settings,
    Rights,
    Wait,
}

impl EtcdFailure {
    /// Returns the remedy. A retry logs a failure only if its remedy differs from the last one,
    /// because each server may fail in its own way.
    pub(super) fn remedy(&self) -> EtcdRemedy {
        match self {
            Self::Login(_) | Self::Foreign(_) => EtcdRemedy::Settings,
            Self::Rights(_) => EtcdRemedy::Rights,
            Self::Silent | Self::LeaseEnded | Self::Ended | Self::Other(_) => EtcdRemedy::Wait,
        }
    }
}

impl CallError for EtcdFailure {
    fn is_fault(&self) -> bool {
        true
    }
}

impl From<Error> for EtcdFailure {
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

/// Returns the message of the innermost error. The outer errors contain no details.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
