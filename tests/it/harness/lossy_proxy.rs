//! A TCP proxy that loses one response of a server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Forwards bytes to a server and back. It drops the response to the first request that contains a
/// given text, and closes that connection.
pub struct LossyProxy {
    pub address: SocketAddr,
    lost: Arc<AtomicUsize>,
}

impl LossyProxy {
    pub async fn start(port: u16, text: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let lost = Arc::new(AtomicUsize::new(0));
        let counter = lost.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
                tokio::spawn(pass(client, server, text, counter.clone()));
            }
        });
        Self { address, lost }
    }

    /// Returns the number of lost responses.
    pub fn lost(&self) -> usize {
        self.lost.load(Ordering::SeqCst)
    }
}

async fn pass(
    mut client: TcpStream,
    mut server: TcpStream,
    text: &'static str,
    lost: Arc<AtomicUsize>,
) {
    let (mut request, mut answer) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let Ok(length @ 1..) = read else { return };
                let part = &request[..length];
                if server.write_all(part).await.is_err() {
                    return;
                }
                let fatal = part.windows(text.len()).any(|window| window == text.as_bytes());
                if fatal && lost.fetch_add(1, Ordering::SeqCst) == 0 {
                    // The server has executed the request by the time it responds.
                    let _ = server.read(&mut answer).await;
                    return;
                }
            }
            read = server.read(&mut answer) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&answer[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}
