//! A TCP proxy that a test can cut, slow down or silence.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// The treatment of the bytes of all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Bytes are forwarded.
    Open,
    /// Responses are delayed by this time.
    Slow(Duration),
    /// Bytes are held back until the mood changes, as in a network that drops packets.
    Silent,
    /// Existing and new connections are closed.
    Cut,
}

/// Forwards bytes to a server and back according to its mood.
pub struct Link {
    pub port: u16,
    mood: watch::Sender<Mood>,
    fatal: Arc<Mutex<Option<&'static str>>>,
    accepting: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Link {
    /// Starts an open proxy to a port of this machine.
    pub async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mood = watch::Sender::new(Mood::Open);
        let fatal = Arc::new(Mutex::new(None));
        let accepting = tokio::spawn(accept(listener, to, mood.subscribe(), fatal.clone()));
        Self { port, mood, fatal, accepting }
    }

    pub fn set(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }

    /// Loses the response to the next request that contains `text` or executes a statement that was
    /// prepared with it, and closes that connection.
    pub fn lose_answer_to(&self, text: &'static str) {
        *self.fatal.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// Returns `true` until that response has been lost.
    pub fn is_to_lose(&self) -> bool {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

async fn accept(
    listener: TcpListener,
    to: u16,
    mood: watch::Receiver<Mood>,
    fatal: Arc<Mutex<Option<&'static str>>>,
) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        if *mood.borrow() == Mood::Cut {
            continue;
        }
        let (mood, fatal) = (mood.clone(), fatal.clone());
        connections.spawn(async move {
            // If the server is down, the client's connection is closed.
            let Ok(server) = TcpStream::connect(("127.0.0.1", to)).await else { return };
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let lost = Arc::new(AtomicBool::new(false));
            let (fatal, heard) = (Some(fatal), mood.clone());
            let prepared = HashMap::new();
            let requests = Way {
                from: from_client,
                to: to_server,
                mood: heard,
                fatal,
                lost: lost.clone(),
                prepared: prepared.clone(),
            };
            let answers =
                Way { from: from_server, to: to_client, mood, fatal: None, lost, prepared };
            tokio::select! {
                () = requests.pass() => {}
                () = answers.pass() => {}
            }
        });
    }
}

/// One direction of a connection. The direction of requests looks for the fatal request.
struct Way {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    mood: watch::Receiver<Mood>,
    fatal: Option<Arc<Mutex<Option<&'static str>>>>,
    /// Set when responses must no longer be forwarded.
    lost: Arc<AtomicBool>,
    /// PostgreSQL's prepared statements by their names.
    prepared: HashMap<Vec<u8>, Vec<u8>>,
}

impl Way {
    /// Forwards bytes until one end closes or the proxy is cut.
    async fn pass(mut self) {
        let mut bytes = vec![0; 65_536];
        loop {
            let mood = *self.mood.borrow_and_update();
            if mood == Mood::Cut {
                return;
            }
            let length = tokio::select! {
                read = self.from.read(&mut bytes), if mood != Mood::Silent => match read {
                    Ok(length @ 1..) => length,
                    _ => return,
                },
                changed = self.mood.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
            };
            if let Mood::Slow(by) = mood
                && self.fatal.is_none()
            {
                tokio::time::sleep(by).await;
            }
            let fatal = self.is_fatal(&bytes[..length]);
            self.lost.fetch_or(fatal, Ordering::SeqCst);
            if self.fatal.is_none() && self.lost.load(Ordering::SeqCst) {
                return;
            }
            if self.to.write_all(&bytes[..length]).await.is_err() {
                return;
            }
            if fatal {
                // The response closes the connection. By then the server has executed the request.
                std::future::pending::<()>().await;
            }
        }
    }

    fn is_fatal(&mut self, part: &[u8]) -> bool {
        let Some(fatal) = &self.fatal else { return false };
        // The messages Parse and Bind: a type, a length, and names that end with a zero byte.
        let mut names = part.get(5..).unwrap_or_default().split(|byte| *byte == 0);
        let said = match part.first() {
            Some(b'P') => {
                let (name, text) = (names.next().unwrap_or_default(), names.next());
                self.prepared.insert(name.to_owned(), text.unwrap_or_default().to_owned());
                return false;
            }
            Some(b'B') => names.nth(1).and_then(|name| self.prepared.get(name)).map(Vec::as_slice),
            _ => Some(part),
        };
        let mut fatal = fatal.lock().unwrap_or_else(PoisonError::into_inner);
        let found = fatal.zip(said).is_some_and(|(text, said)| {
            said.windows(text.len()).any(|window| window == text.as_bytes())
        });
        if found {
            *fatal = None;
        }
        found
    }
}
