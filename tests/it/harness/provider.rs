//! A receiver of alerts that behaves as scripted: as a chat provider, as a webhook, or as a faulty
//! server.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::wait::until;

/// The reaction to a request.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// Answers with this status and body.
    Answer(u16, &'static str),
    /// Answers with this status and a body of this many bytes.
    Large(u16, usize),
    /// Answers 200 at once, and then sends one byte every 50 ms forever.
    Drip,
    /// Answers 307 with this location.
    Redirect(&'static str),
    /// Answers 429 with `Retry-After`, in seconds.
    SlowDown(u32),
    /// Answers when the test calls `release`.
    Hang,
    /// Answers 200 after this time.
    After(Duration),
    /// Breaks the connection.
    Break,
}

/// A received alert.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The time at which its last byte arrived.
    pub at: Instant,
}

impl Received {
    /// Returns the body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// Returns the type of the event in a webhook request.
    #[track_caller]
    pub fn kind(&self) -> String {
        self.json()["type"].as_str().expect("a type").to_owned()
    }

    /// Returns the id of the event in a webhook request.
    #[track_caller]
    pub fn event(&self) -> String {
        self.json()["id"].as_str().expect("an id").to_owned()
    }
}

type Script = dyn Fn(usize, &Received) -> Behaviour + Send + Sync;

/// A receiver and the requests that it has received.
pub struct Provider {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    received: Mutex<Vec<Received>>,
    released: watch::Sender<bool>,
    script: Mutex<Arc<Script>>,
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Provider {
    /// Starts a receiver that answers 200.
    pub async fn start() -> Self {
        Self::acting(|_, _| Behaviour::Answer(200, "ok")).await
    }

    /// Starts a receiver that behaves as `script` says. The script gets the number of earlier
    /// requests.
    pub async fn acting(
        script: impl Fn(usize, &Received) -> Behaviour + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared {
            received: Mutex::default(),
            released: watch::Sender::new(false),
            script: Mutex::new(Arc::new(script)),
        });
        let serving = tokio::spawn(serve(listener, shared.clone()));
        Self { address, shared, serving }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Replaces the script for all further requests.
    pub fn set_script(
        &self,
        script: impl Fn(usize, &Received) -> Behaviour + Send + Sync + 'static,
    ) {
        *self.shared.script.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(script);
    }

    /// Answers the requests that hang. Further requests no longer hang.
    pub fn release(&self) {
        self.shared.released.send_replace(true);
    }

    /// Returns the received alerts in order, without the test notifications of channels.
    pub fn alerts(&self) -> Vec<Received> {
        let is_test = |one: &Received| {
            String::from_utf8_lossy(&one.body).contains("channel.test")
                || String::from_utf8_lossy(&one.body).contains("Test notification")
        };
        self.shared.received().iter().filter(|one| !is_test(one)).cloned().collect()
    }

    /// Returns all received requests in order.
    pub fn all(&self) -> Vec<Received> {
        self.shared.received().clone()
    }

    /// Waits until at least `count` alerts have arrived, and returns them.
    pub async fn alerted(&self, count: usize) -> Vec<Received> {
        until("the alerts arrive", async || {
            let alerts = self.alerts();
            (alerts.len() >= count).then_some(alerts)
        })
        .await
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        connections.spawn(async move {
            let service = service_fn(|request| shared.take(request));
            let http = hyper::server::conn::http1::Builder::new();
            // It returns an error if the client disconnects or the script breaks the connection.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

impl Shared {
    fn received(&self) -> MutexGuard<'_, Vec<Received>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take(&self, request: hyper::Request<Incoming>) -> io::Result<Answer> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let path = head.uri.path().to_owned();
        let one = Received { path, headers: head.headers, body, at: Instant::now() };
        let before = {
            let mut received = self.received();
            received.push(one.clone());
            received.len() - 1
        };
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match script(before, &one) {
            Behaviour::Answer(status, body) => Ok(plain(status, body)),
            Behaviour::Large(status, bytes) => Ok(plain(status, vec![b'x'; bytes])),
            Behaviour::Drip => Ok(Response::new(StreamBody::new(drips()).boxed_unsync())),
            Behaviour::Redirect(location) => {
                let mut response = plain(307, "over there");
                response.headers_mut().insert("location", HeaderValue::from_static(location));
                Ok(response)
            }
            Behaviour::SlowDown(seconds) => {
                let mut response = plain(429, "slow down");
                response.headers_mut().insert("retry-after", HeaderValue::from(seconds));
                Ok(response)
            }
            Behaviour::Hang => {
                let mut released = self.released.subscribe();
                let _ = released.wait_for(|released| *released).await;
                Ok(plain(200, "released"))
            }
            Behaviour::After(span) => {
                tokio::time::sleep(span).await;
                Ok(plain(200, "late"))
            }
            Behaviour::Break => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

fn plain(status: u16, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    response
}

/// An endless body of one byte every 50 ms.
fn drips() -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + 'static {
    stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Some((Ok(Frame::data(Bytes::from_static(b"."))), ()))
    })
}
