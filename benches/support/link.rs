//! A link between the service and its servers that can be cut: TCP connections are forwarded on a
//! thread of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::load;

const LOOPBACK: &str = "127.0.0.1:";

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Bytes are forwarded.
    Whole,
    /// Connections stay open and forward nothing.
    Hanging,
    /// Connections are closed as soon as they are opened.
    Closed,
}

/// The links to the servers of one URL.
pub struct Link {
    state: watch::Sender<LinkState>,
}

impl Link {
    /// Starts links to all servers of `url`. Returns them, and the URL that leads through them.
    pub fn start(url: &str) -> (Self, String) {
        let state = watch::Sender::new(LinkState::Whole);
        let mut parts = url.split(LOOPBACK);
        let mut through = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            let (port, rest) = part.split_at(end);
            let server = (Ipv4Addr::LOCALHOST, port.parse().expect("a port")).into();
            through.push_str(&format!("{}{rest}", forward(server, state.subscribe())));
        }
        (Self { state }, through)
    }

    /// Sets the state of all links.
    pub fn set(&self, state: LinkState) {
        self.state.send_replace(state);
    }
}

/// Forwards connections to `server`. Returns the address that accepts them.
fn forward(server: SocketAddr, state: watch::Receiver<LinkState>) -> SocketAddr {
    let (tell, address) = std::sync::mpsc::channel();
    thread::spawn(move || {
        load::runtime().block_on(async move {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
            let listener = listener.expect("a free port");
            tell.send(listener.local_addr().expect("bound")).expect("the caller waits");
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connect(stream, server, state.clone()));
            }
        });
    });
    address.recv().expect("the thread runs")
}

async fn connect(client: TcpStream, server: SocketAddr, mut state: watch::Receiver<LinkState>) {
    if !is_whole(&mut state).await {
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    tokio::select! {
        () = pump(from_client, to_server, state.clone()) => {}
        () = pump(from_server, to_client, state) => {}
    }
}

/// Forwards bytes until a side closes the connection or the link is closed.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<LinkState>,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = tokio::select! {
            Ok(_) = state.wait_for(|now| *now == LinkState::Closed) => return,
            read = from.read(&mut buffer) => read,
        };
        let Ok(read @ 1..) = read else { return };
        if !is_whole(&mut state).await || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// Waits while the link hangs. Returns `true` if it then forwards.
async fn is_whole(state: &mut watch::Receiver<LinkState>) -> bool {
    let state = state.wait_for(|now| *now != LinkState::Hanging).await;
    state.is_ok_and(|now| *now == LinkState::Whole)
}
