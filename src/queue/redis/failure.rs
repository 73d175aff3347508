//! The reasons why the server cannot be used, each in a sentence for its operator.

use redis::{ErrorKind, RedisError};

/// The reason why the server cannot be used. It never shows a password.
#[derive(Debug, thiserror::Error)]
pub(super) enum RedisFailure {
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
    #[error("the server takes no writes, because it cannot write to its disk: {0}")]
    Disk(String),
    #[error("{0}")]
    Other(RedisError),
}

impl From<RedisError> for RedisFailure {
    fn from(error: RedisError) -> Self {
        match error.kind() {
            _ if is_of_login(&error) => Self::Login(detail(&error)),
            _ if says(&error, "NOPERM") => Self::Rights(detail(&error)),
            _ if says(&error, "READONLY") => Self::ReadOnly,
            _ if says(&error, "OOM") => Self::Full(detail(&error)),
            _ if says(&error, "MISCONF") => Self::Disk(detail(&error)),
            _ if error.is_timeout() => Self::Silent,
            _ => Self::Other(error),
        }
    }
}

/// Returns `true` if the server's error has this code. Before Redis 7, the error of a command in a
/// script is only in the text of the script's own error.
fn says(error: &RedisError, code: &str) -> bool {
    error.code() == Some(code) || detail(error).contains(&format!("-{code} "))
}

/// Returns `true` if the login failed. For a cluster, only the text of the error says why none of
/// its nodes is connected.
fn is_of_login(error: &RedisError) -> bool {
    let text = detail(error);
    match error.kind() {
        ErrorKind::AuthenticationFailed => true,
        // The answer to a command with more than ten arguments that comes before the login.
        _ if text.contains("unauthenticated") => true,
        ErrorKind::Io => {
            ["AuthenticationFailed", "NOAUTH", "WRONGPASS"].iter().any(|word| text.contains(word))
        }
        _ => says(error, "NOAUTH") || says(error, "WRONGPASS"),
    }
}

fn detail(error: &RedisError) -> String {
    error.detail().map_or_else(|| error.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts are answers of Redis 6.0.16.
    #[test]
    fn errors_of_a_script_are_recognized() {
        let of_script = |met: &str| {
            let text =
                format!("running script (call to f_29): @user_script:16: @user_script: 16: {met}");
            RedisFailure::from(RedisError::from((ErrorKind::Extension, "Error", text)))
        };
        let read_only = of_script("-READONLY You can't write against a read only replica. ");
        assert!(matches!(read_only, RedisFailure::ReadOnly), "{read_only}");
        let rights = of_script("-NOPERM this user has no permissions to run the 'zadd' command ");
        assert!(matches!(rights, RedisFailure::Rights(_)), "{rights}");
        let full = of_script("-OOM command not allowed when used memory > 'maxmemory'. ");
        assert!(matches!(full, RedisFailure::Full(_)), "{full}");
        let other = of_script("attempt to index a nil value");
        assert!(matches!(other, RedisFailure::Other(_)), "{other}");
    }
}
