//! A target on a raw socket. It behaves as scripted, correctly or not, and records all requests.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// A listener and the log of its requests.
pub struct Target {
    address: SocketAddr,
    log: Arc<Mutex<Log>>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct Log {
    connections: usize,
    closed: Vec<(usize, Instant)>,
    requests: Vec<Recorded>,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The number of its connection, counted from 0.
    pub connection: usize,
    /// The head and the body.
    pub bytes: Vec<u8>,
    /// The time at which its last byte arrived.
    pub at: Instant,
}

impl Recorded {
    /// Returns the request as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Returns all values of a header.
    pub fn header(&self, name: &str) -> Vec<String> {
        let text = self.text();
        let (head, _) = text.split_once("\r\n\r\n").expect("a complete head");
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_owned())
            .collect()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Target {
    /// Listens on `address`. `handle` serves each connection.
    pub async fn start<H, F>(address: &str, handle: H) -> Self
    where
        H: Fn(Peer) -> F + Send + Sync + 'static,
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        Self::listen(address, None, handle).await
    }

    /// Like `start`, over TLS. `handle` serves the connections whose handshake succeeds.
    pub async fn start_tls<H, F>(address: &str, config: ServerConfig, handle: H) -> Self
    where
        H: Fn(Peer) -> F + Send + Sync + 'static,
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        Self::listen(address, Some(TlsAcceptor::from(Arc::new(config))), handle).await
    }

    /// Answers every request with the same bytes, over persistent connections.
    pub async fn answering(address: &str, response: impl Into<Vec<u8>>) -> Self {
        let response: Arc<[u8]> = response.into().into();
        Self::start(address, move |mut peer| {
            let response = response.clone();
            async move {
                loop {
                    peer.request().await?;
                    peer.write(&response).await?;
                }
            }
        })
        .await
    }

    async fn listen<H, F>(address: &str, tls: Option<TlsAcceptor>, handle: H) -> Self
    where
        H: Fn(Peer) -> F + Send + Sync + 'static,
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let log = Arc::new(Mutex::new(Log::default()));
        let (handle, record) = (Arc::new(handle), log.clone());
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let connection = {
                    let mut log = record.lock().expect("not poisoned");
                    log.connections += 1;
                    log.connections - 1
                };
                let (handle, log, tls) = (handle.clone(), record.clone(), tls.clone());
                connections.spawn(async move {
                    let wire = match tls {
                        None => Wire::Plain(stream),
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => Wire::Tls(Box::new(stream)),
                            Err(_) => return,
                        },
                    };
                    let peer = Peer { wire, buffer: Vec::new(), log: log.clone(), connection };
                    // It returns an error if the client closes the connection, which is allowed.
                    let _ = handle(peer).await;
                    log.lock().expect("not poisoned").closed.push((connection, Instant::now()));
                });
            }
        });
        Self { address, log, accepting }
    }

    /// Returns the address of the target.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the port of the target.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns a URL of the target.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the number of accepted connections.
    pub fn connections(&self) -> usize {
        self.log.lock().expect("not poisoned").connections
    }

    /// Returns the connections whose handler has ended, with the time of that.
    pub fn closed(&self) -> Vec<(usize, Instant)> {
        self.log.lock().expect("not poisoned").closed.clone()
    }

    /// Returns the received requests.
    pub fn requests(&self) -> Vec<Recorded> {
        self.log.lock().expect("not poisoned").requests.clone()
    }
}

/// The server side of one connection.
pub struct Peer {
    wire: Wire,
    buffer: Vec<u8>,
    log: Arc<Mutex<Log>>,
    /// The number of this connection, counted from 0.
    pub connection: usize,
}

enum Wire {
    Plain(TcpStream),
    Tls(Box<tokio_rustls::server::TlsStream<TcpStream>>),
}

trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

impl Peer {
    /// Reads and records the next request. Fails if the client closes the connection first.
    pub async fn request(&mut self) -> io::Result<Recorded> {
        let end = loop {
            if let Some(length) = request_length(&self.buffer)
                && self.buffer.len() >= length
            {
                break length;
            }
            self.read().await?;
        };
        let bytes = self.buffer.drain(..end).collect();
        let recorded = Recorded { connection: self.connection, bytes, at: Instant::now() };
        self.log.lock().expect("not poisoned").requests.push(recorded.clone());
        Ok(recorded)
    }

    /// Reads until the client closes the connection. Returns the bytes that belong to no request.
    pub async fn closed(&mut self) -> Vec<u8> {
        while self.read().await.is_ok() {}
        std::mem::take(&mut self.buffer)
    }

    /// Writes bytes.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let wire = self.wire();
        wire.write_all(bytes.as_ref()).await?;
        wire.flush().await
    }

    /// Writes nothing for a while.
    pub async fn pause(&mut self, pause: Duration) {
        tokio::time::sleep(pause).await;
    }

    /// Writes one byte at a time, with a pause after each, forever.
    pub async fn drip(&mut self, bytes: &[u8], pause: Duration) -> io::Result<()> {
        for byte in bytes.iter().cycle() {
            self.write([*byte]).await?;
            self.pause(pause).await;
        }
        Ok(())
    }

    /// Waits until the client closes the connection.
    pub async fn hang(&mut self) -> io::Result<()> {
        self.closed().await;
        Ok(())
    }

    /// Resets the connection.
    pub fn reset(self) -> io::Result<()> {
        match &self.wire {
            Wire::Plain(stream) => stream.set_zero_linger(),
            Wire::Tls(stream) => stream.get_ref().0.set_zero_linger(),
        }
    }

    async fn read(&mut self) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = self.wire().read_buf(&mut buffer).await;
        self.buffer = buffer;
        if read? == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn wire(&mut self) -> &mut dyn Duplex {
        match &mut self.wire {
            Wire::Plain(stream) => stream,
            Wire::Tls(stream) => stream,
        }
    }
}

/// Returns the length of the request at the start of `bytes`, once its head is complete. Only a
/// declared length counts, so a wrong one leaves excess bytes.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let fields = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
    let length = fields.lines().find_map(|line| line.strip_prefix("content-length:"));
    Some(head + length.map_or(0, |length| length.trim().parse().expect("a length")))
}
