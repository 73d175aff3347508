//! A target that records every request and answers as the path says:
//!
//! | Path | Answer |
//! |---|---|
//! | `/ok` | 200, `hello` |
//! | `/seq/500,200` | these statuses, by attempt; the last one is repeated; 0 breaks the connection |
//! | `/later/SECONDS` | 429 with `Retry-After` to the first attempt, 200 to others |
//! | `/slow/MS` | 200 after this time |
//! | `/hang` | 200 after the test calls `release` |
//! | `/size/BYTES` | 200 with this many letters |
//! | `/raw/HEX` | 200 with these bytes |
//!
//! The rest of the path after a further slash is only recorded.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// One received request.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The job id that the request states, or empty if it states none.
    pub job: String,
    /// The attempt number that the request states.
    pub attempt: u32,
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The time at which its last byte arrived.
    pub at: Instant,
    /// The same time on the wall clock, in Unix milliseconds.
    pub wall_ms: i64,
    /// The time at which it was answered or the client disconnected.
    pub ended: Option<Instant>,
    /// The status of the response, or `None` if the client disconnected first.
    pub answered: Option<u16>,
}

impl Hit {
    /// Returns the only value of a header, as text.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next().unwrap_or_else(|| panic!("no {name} in {:?}", self.headers));
        assert!(values.next().is_none(), "{name} twice in {:?}", self.headers);
        value.to_str().expect("text")
    }
}

/// A running target.
pub struct Recorder {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    hits: Mutex<Vec<Hit>>,
    released: watch::Sender<bool>,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Recorder {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let released = watch::Sender::new(false);
        let shared = Arc::new(Shared { hits: Mutex::default(), released });
        let serving = tokio::spawn(serve(listener, shared.clone()));
        Self { address, shared, serving }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the received requests in order.
    pub fn hits(&self) -> Vec<Hit> {
        self.shared.hits().clone()
    }

    /// Returns the requests of one job.
    pub fn hits_of(&self, job: &str) -> Vec<Hit> {
        self.shared.hits().iter().filter(|hit| hit.job == job).cloned().collect()
    }

    /// Returns the number of received requests.
    pub fn count(&self) -> usize {
        self.shared.hits().len()
    }

    /// Returns the number of received requests whose path ends like this.
    pub fn count_of(&self, path: &str) -> usize {
        self.shared.hits().iter().filter(|hit| hit.path.ends_with(path)).count()
    }

    /// Returns the jobs whose requests were received.
    pub fn jobs(&self) -> BTreeSet<String> {
        self.shared.hits().iter().map(|hit| hit.job.clone()).collect()
    }

    /// Answers the requests that hang. Further requests no longer hang.
    pub fn release(&self) {
        self.shared.released.send_replace(true);
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        connections.spawn(async move {
            let service = service_fn(|request| shared.take(request));
            let http = hyper::server::conn::http1::Builder::new();
            // It returns an error if the client disconnects or the path asks for a broken
            // connection.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Records the end of a request when it is dropped, also after a disconnect.
struct Under<'a> {
    shared: &'a Shared,
    index: usize,
    status: Option<u16>,
}

impl Drop for Under<'_> {
    fn drop(&mut self) {
        let hit = &mut self.shared.hits()[self.index];
        hit.ended = Some(Instant::now());
        hit.answered = self.status;
    }
}

impl Shared {
    fn hits(&self) -> MutexGuard<'_, Vec<Hit>> {
        self.hits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take(&self, request: hyper::Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
        let attempt = text("punctual-attempt").and_then(|text| text.parse().ok()).unwrap_or(0);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let hit = Hit {
            job: text("punctual-job-id").unwrap_or_default().to_owned(),
            attempt,
            method: head.method,
            path: head.uri.path().to_owned(),
            headers: head.headers,
            body,
            at: Instant::now(),
            wall_ms: i64::try_from(wall.as_millis()).expect("before the year 292 million"),
            ended: None,
            answered: None,
        };
        let path = hit.path.clone();
        let index = {
            let mut hits = self.hits();
            hits.push(hit);
            hits.len() - 1
        };
        let mut under = Under { shared: self, index, status: None };
        let response = self.answer(&path, attempt).await?;
        under.status = Some(response.status().as_u16());
        Ok(response)
    }

    /// Returns the response that the path asks for. An error breaks the connection.
    async fn answer(&self, path: &str, attempt: u32) -> io::Result<Response<Full<Bytes>>> {
        let mut parts = path.split('/').skip(1);
        let (kind, argument) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let number = || argument.parse::<u64>().expect("a number");
        match kind {
            "ok" => Ok(plain(200, "hello")),
            "seq" => {
                let statuses: Vec<u16> =
                    argument.split(',').map(|status| status.parse().expect("a status")).collect();
                let index = (attempt.max(1) as usize - 1).min(statuses.len() - 1);
                match statuses[index] {
                    0 => Err(io::ErrorKind::ConnectionReset.into()),
                    status => Ok(plain(status, "told")),
                }
            }
            "later" if attempt <= 1 => {
                let mut response = plain(429, "later");
                response.headers_mut().insert("retry-after", number().into());
                Ok(response)
            }
            "later" => Ok(plain(200, "now")),
            "slow" => {
                tokio::time::sleep(Duration::from_millis(number())).await;
                Ok(plain(200, "slow"))
            }
            "hang" => {
                let mut released = self.released.subscribe();
                let _ = released.wait_for(|released| *released).await;
                Ok(plain(200, "released"))
            }
            "size" => {
                let size = usize::try_from(number()).expect("small");
                Ok(plain(200, "a".repeat(size)))
            }
            "raw" => Ok(plain(200, unhex(argument))),
            _ => Ok(plain(404, "no such path")),
        }
    }
}

fn plain(status: u16, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    response
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(byte).collect()
}
