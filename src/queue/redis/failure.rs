//! Why the server could not be used, in a sentence for its operator.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why the server could not be used. Never shows a password.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the server refuses the user or the password of PUNCTUAL_QUEUE_URL: {0}")]
    Login(String),
    #[error("the user of PUNCTUAL_QUEUE_URL needs more rights: {0}")]
    Rights(String),
    #[error("the server did not answer in time")]
    Silent,
    #[error("the server lost entries of the index while it was built")]
    Lossy,
    #[error(
        "the server is a replica that takes no writes; PUNCTUAL_QUEUE_URL must name the primary"
    )]
    ReadOnly,
    #[error("the server has used up its maxmemory: {0}")]
    Full(String),
    #[error("{0}")]
    Other(RedisError),
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        let code = error.code().unwrap_or_default();
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Login(detail(&error)),
            _ if code == "NOAUTH" || code == "WRONGPASS" => Self::Login(detail(&error)),
            // Of a cluster it is in the text alone why none of its nodes is connected.
            ErrorKind::Io if is_of_login(&detail(&error)) => Self::Login(detail(&error)),
            ErrorKind::Server(ServerErrorKind::NoPerm) => Self::Rights(detail(&error)),
            ErrorKind::Server(ServerErrorKind::ReadOnly) => Self::ReadOnly,
            _ if code == "OOM" || detail(&error).contains("OOM ") => Self::Full(detail(&error)),
            _ if error.is_timeout() => Self::Silent,
            _ => Self::Other(error),
        }
    }
}

fn is_of_login(text: &str) -> bool {
    ["AuthenticationFailed", "NOAUTH", "WRONGPASS"].iter().any(|word| text.contains(word))
}

fn detail(error: &RedisError) -> String {
    error.detail().map_or_else(|| error.to_string(), str::to_owned)
}
