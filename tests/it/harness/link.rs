//! A line to a server that a test cuts, slows down or lets fall silent.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// What becomes of what is sent over a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// It is passed on.
    Open,
    /// Answers come so much later.
    Slow(Duration),
    /// It is kept until the mood is better, as by a network that drops packets.
    Silent,
    /// Connections end, and new ones do too.
    Cut,
}

/// Passes bytes to a server and back, as its mood is.
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
    /// A line to a port of this machine, open.
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

    /// The answer to the next request that contains a text, or runs what was prepared with it, is lost,
    /// and its connection with it.
    pub fn lose_answer_to(&self, text: &'static str) {
        *self.fatal.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// Whether such an answer is still to be lost.
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
            // Who asks for a server that is away is told so.
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

/// One way of a connection: of requests if there may be a fatal one.
struct Way {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    mood: watch::Receiver<Mood>,
    fatal: Option<Arc<Mutex<Option<&'static str>>>>,
    /// Set when answers shall be heard no more.
    lost: Arc<AtomicBool>,
    /// PostgreSQL's prepared statements by their names.
    prepared: HashMap<Vec<u8>, Vec<u8>>,
}

impl Way {
    /// Passes bytes on until an end closes or the line is cut.
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
                // The answer ends the connection: by then the server has done what it was asked.
                std::future::pending::<()>().await;
            }
        }
    }

    fn is_fatal(&mut self, part: &[u8]) -> bool {
        let Some(fatal) = &self.fatal else { return false };
        // The messages Parse and Bind: a type, a length, names that end with a zero.
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
