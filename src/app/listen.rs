//! Binding the listeners.

use std::io::ErrorKind;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::StartError;
use crate::config::Config;

/// A bound listener and the address it got.
pub(super) struct BoundListener {
    pub(super) listener: TcpListener,
    pub(super) address: SocketAddr,
}

/// Both listeners. They are bound before anything else starts. The public one needs the role `api`.
pub(super) struct Listeners {
    pub(super) public: Option<BoundListener>,
    pub(super) operations: BoundListener,
}

impl Listeners {
    pub(super) async fn bind(config: &Config) -> Result<Self, StartError> {
        let public = match config.roles.api {
            true => Some(bind("http.listen", config.http.listen).await?),
            false => None,
        };
        let operations = bind("ops.listen", config.ops.listen).await?;
        Ok(Self { public, operations })
    }

    /// Returns the addresses of the public listener, if there is one, and of the operations
    /// listener.
    pub(super) fn addresses(&self) -> (Option<SocketAddr>, SocketAddr) {
        (self.public.as_ref().map(|bound| bound.address), self.operations.address)
    }
}

/// Binds `address`, the value of `setting`.
async fn bind(setting: &'static str, address: SocketAddr) -> Result<BoundListener, StartError> {
    let failed = |error: std::io::Error| StartError::Listen {
        setting,
        address,
        reason: match error.kind() {
            ErrorKind::AddrInUse => {
                "the port is in use; stop the process that uses it, or choose another port (0 \
                 picks a free one)"
                    .to_owned()
            }
            ErrorKind::PermissionDenied => {
                "not allowed; ports below 1024 need a privilege, choose a higher one".to_owned()
            }
            ErrorKind::AddrNotAvailable => "this machine does not have the address".to_owned(),
            _ => error.to_string(),
        },
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(BoundListener { listener, address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_in_use_is_named_with_its_setting() {
        let first = bind("http.listen", ([127, 0, 0, 1], 0).into()).await.expect("a free port");
        let error = bind("http.listen", first.address).await.err().expect("in use");
        let text = error.to_string();
        assert!(text.contains("http.listen") && text.contains("in use"), "{text}");
    }
}
