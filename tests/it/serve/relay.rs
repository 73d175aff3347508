//! A second address of a server, which accepts connections only after the test opens it.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::harness::servers::free_port;

/// An address that leads to a server once it is open.
pub struct Relay {
    pub port: u16,
    server: SocketAddr,
    passing: Option<JoinHandle<()>>,
}

impl Relay {
    /// Creates a closed relay to the server at `host:port`.
    pub fn to(server: &str) -> Self {
        let server = server.parse().expect("an address");
        Self { port: free_port(), server, passing: None }
    }

    /// Accepts connections from now on.
    pub async fn open(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.expect("the port");
        let server = self.server;
        self.passing = Some(tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(server).await?;
                    tokio::io::copy_bidirectional(&mut client, &mut server).await
                });
            }
        }));
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(passing) = &self.passing {
            passing.abort();
        }
    }
}
