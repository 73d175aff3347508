//! A server's second address, where nobody listens until the test says so.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::harness::servers::free_port;

/// An address that will lead to a server.
pub struct Relay {
    pub port: u16,
    server: SocketAddr,
    passing: Option<JoinHandle<()>>,
}

impl Relay {
    /// One for the server at `host:port`, closed.
    pub fn to(server: &str) -> Self {
        let server = server.parse().expect("an address");
        Self { port: free_port(), server, passing: None }
    }

    /// Lets connections through from now on.
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
