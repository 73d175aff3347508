//! The endpoint of all schedules. The seed, the job and the attempt determine its response. It
//! records all requests in order.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use punctual::domain::{JobId, Timestamp};
use punctual::runtime::Clock;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// The response of the target to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This status.
    Status(u16),
    /// 429 with `Retry-After`, in seconds.
    TooMany(u64),
    /// No response: the connection breaks.
    Reset,
    /// 200 after this many seconds.
    Slow(u64),
}

/// Returns the response to an attempt of a job. It does not depend on the time.
pub fn script(seed: u64, job: JobId, attempt: u8) -> Answer {
    let mut bytes = job.to_bytes().to_vec();
    bytes.extend(seed.to_be_bytes());
    bytes.push(attempt);
    let hash = crc32fast::hash(&bytes);
    let (kind, size) = (hash % 100, u64::from(hash / 100 % 90) + 1);
    match kind {
        0..56 => Answer::Status(200),
        56..72 => Answer::Status(500),
        72..80 => Answer::Status(404),
        80..88 => Answer::TooMany(size),
        88..94 => Answer::Reset,
        _ => Answer::Slow(size),
    }
}

/// A received request.
#[derive(Clone, Debug)]
pub struct Hit {
    pub job: JobId,
    pub attempt: u8,
    /// The time of the service's clock.
    pub at: Timestamp,
    /// The process that sent it, counted from 1.
    pub process: u32,
    pub path: String,
    pub body: String,
    pub scheduled_at: Timestamp,
    /// The attempts of the same job and process that were open when this one arrived.
    pub beside: Vec<u8>,
}

#[derive(Default)]
struct Log {
    hits: Vec<Hit>,
    /// The requests without a response so far: job, attempt, process.
    open: HashSet<(JobId, u8, u32)>,
    process: u32,
    wrong: Vec<String>,
}

/// A running target.
pub struct Target {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    seed: u64,
    clock: Clock,
    log: Mutex<Log>,
}

impl Drop for Target {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Target {
    pub async fn start(seed: u64, clock: Clock) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared { seed, clock, log: Mutex::default() });
        let serving = tokio::spawn(serve(listener, shared.clone()));
        Self { address, shared, serving }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Counts all further requests for a new process.
    pub fn next_process(&self) {
        self.shared.log().process += 1;
    }

    /// Returns the number of requests of the current process without a response.
    pub fn open(&self) -> usize {
        let log = self.shared.log();
        log.open.iter().filter(|(.., process)| *process == log.process).count()
    }

    /// Returns the received requests in order.
    pub fn hits(&self) -> Vec<Hit> {
        self.shared.log().hits.clone()
    }

    /// Returns the requests that violated the contract.
    pub fn wrong(&self) -> Vec<String> {
        self.shared.log().wrong.clone()
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        connections.spawn(async move {
            let service = service_fn(|request| shared.answer(request));
            // It returns an error if the client disconnects or the script breaks the connection.
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            let _ = connection.await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Removes a request from the open ones when it is dropped.
struct Open<'a>(&'a Shared, (JobId, u8, u32));

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.log().open.remove(&self.1);
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the scripted response. An error breaks the connection.
    async fn answer(
        &self,
        request: hyper::Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, std::io::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        let body = String::from_utf8_lossy(&body).into_owned();
        let Some(hit) = read(&head.headers, head.uri.path(), body, self.clock.now()) else {
            self.log().wrong.push(format!("{} {:?}", head.uri, head.headers));
            return Ok(plain(StatusCode::BAD_REQUEST));
        };
        let (job, attempt) = (hit.job, hit.attempt);
        let _open = self.enter(hit);
        match script(self.seed, job, attempt) {
            Answer::Status(status) => Ok(plain(status.try_into().expect("a status"))),
            Answer::TooMany(seconds) => {
                let mut response = plain(StatusCode::TOO_MANY_REQUESTS);
                response.headers_mut().insert("retry-after", seconds.into());
                Ok(response)
            }
            Answer::Reset => Err(std::io::ErrorKind::ConnectionReset.into()),
            Answer::Slow(seconds) => {
                let until = self.clock.now().plus(Duration::from_secs(seconds));
                self.clock.sleep_until(until).await;
                Ok(plain(StatusCode::OK))
            }
        }
    }

    fn enter(&self, mut hit: Hit) -> Open<'_> {
        let mut log = self.log();
        hit.process = log.process;
        let same = |open: &&(JobId, u8, u32)| (open.0, open.2) == (hit.job, hit.process);
        hit.beside = log.open.iter().filter(same).map(|(_, attempt, _)| *attempt).collect();
        let key = (hit.job, hit.attempt, hit.process);
        log.open.insert(key);
        log.hits.push(hit);
        Open(self, key)
    }
}

fn plain(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from("done"));
    *response.status_mut() = status;
    response
}

/// Returns the request as a hit, if it has the headers of the contract.
fn read(headers: &HeaderMap, path: &str, body: String, at: Timestamp) -> Option<Hit> {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    let job: JobId = header("punctual-job-id")?.parse().ok()?;
    if header("idempotency-key")? != job.to_string() {
        return None;
    }
    Some(Hit {
        job,
        attempt: header("punctual-attempt")?.parse().ok()?,
        scheduled_at: header("punctual-scheduled-at")?.parse().ok()?,
        at,
        process: 0,
        path: path.to_owned(),
        body,
        beside: Vec::new(),
    })
}
