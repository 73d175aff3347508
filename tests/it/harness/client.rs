//! An API client over plain sockets, with one connection for each call.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::wait::{TIMEOUT, until, within};

/// The timeout of a call.
const MAX_CALL: Duration = Duration::from_secs(40);

/// An API client with a key.
#[derive(Clone, Debug)]
pub struct ApiClient {
    address: SocketAddr,
    key: String,
    /// Sent with every call.
    idempotency_key: Option<String>,
    /// Header lines that are sent with every call, each with its line break.
    headers: String,
}

/// A response of the API.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    /// The body as JSON, or `null` if it is not JSON.
    pub body: Value,
    /// The body as text, unchanged.
    pub text: String,
}

impl Reply {
    /// Returns the `data` of a successful response.
    #[track_caller]
    pub fn data(&self) -> &Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        &self.body["data"]
    }
}

impl ApiClient {
    pub fn new(address: SocketAddr, key: &str) -> Self {
        Self { address, key: key.to_owned(), idempotency_key: None, headers: String::new() }
    }

    /// Returns the address that the client calls.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the API key of the client.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the same client with another key.
    pub fn with_key(&self, key: &str) -> Self {
        Self::new(self.address, key)
    }

    /// Returns the same client with an idempotency key in every call.
    pub fn once(&self, idempotency_key: &str) -> Self {
        Self { idempotency_key: Some(idempotency_key.to_owned()), ..self.clone() }
    }

    /// Returns the same client with an additional header in every call.
    pub fn with_header(&self, name: &str, value: &str) -> Self {
        Self { headers: format!("{name}: {value}\r\n"), ..self.clone() }
    }

    /// Makes a call. Fails if the connection breaks before the complete response has arrived.
    pub async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Reply> {
        let exchange = self.exchange(method, path, body);
        tokio::time::timeout(MAX_CALL, exchange).await.map_err(io::Error::other)?
    }

    async fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Reply> {
        let mut stream = TcpStream::connect(self.address).await?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let once = self.idempotency_key.as_ref();
        let once = once.map_or_else(String::new, |key| format!("idempotency-key: {key}\r\n"));
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\nx-api-key: {}\r\n\
             {once}{}content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.key,
            self.headers,
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await?;
        read(&bytes).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Makes a `GET` call that must get a response.
    pub async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, None).await.expect("an answer")
    }

    /// Makes a `POST` call that must get a response.
    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.call("POST", path, Some(body)).await.expect("an answer")
    }

    /// Creates a schedule that ticks once in four years, with `fields` in addition to the default
    /// ones. Returns its id.
    pub async fn create(&self, endpoint: &str, fields: Value) -> String {
        let reply = self.post("/v1/schedules", &schedule(endpoint, fields)).await;
        reply.data()["id"].as_str().unwrap_or_else(|| panic!("no id: {reply:?}")).to_owned()
    }

    /// Triggers a schedule and returns the id of the job.
    pub async fn trigger(&self, schedule: &str) -> String {
        let reply = self.post(&format!("/v1/schedules/{schedule}/trigger"), &Value::Null).await;
        reply.data().as_str().expect("a job's id").to_owned()
    }

    /// Creates and triggers a schedule. Returns the id of the job.
    pub async fn run(&self, endpoint: &str, fields: Value) -> String {
        let schedule = self.create(endpoint, fields).await;
        self.trigger(&schedule).await
    }

    /// Returns the current state of a job.
    pub async fn job(&self, id: &str) -> Value {
        self.get(&format!("/v1/jobs/{id}")).await.data().clone()
    }

    /// Waits until a job has finished, and returns it.
    pub async fn finished(&self, id: &str) -> Value {
        self.finished_within(TIMEOUT, id).await
    }

    /// Waits at most `bound` until a job has finished, and returns it.
    pub async fn finished_within(&self, bound: Duration, id: &str) -> Value {
        within(bound, &format!("{id} finishes"), async || self.if_finished(id).await).await
    }

    async fn if_finished(&self, id: &str) -> Option<Value> {
        let job = self.job(id).await;
        matches!(job["status"].as_str(), Some("SUCCESS" | "FAILED")).then_some(job)
    }

    /// Waits until a job has `status`, and returns it.
    pub async fn job_when(&self, id: &str, status: &str) -> Value {
        until(&format!("{id} is {status}"), async || {
            let job = self.job(id).await;
            (job["status"] == status).then_some(job)
        })
        .await
    }

    /// Returns all jobs that match a query, from all pages.
    pub async fn jobs(&self, query: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/v1/jobs?pageSize=100&{query}{cursor}");
            let reply = self.get(&path).await;
            let page = reply.data();
            all.extend(page["jobs"].as_array().expect("jobs").iter().cloned());
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }
}

/// The request for a schedule that ticks once in four years, with `fields` in addition to the
/// default ones.
pub fn schedule(endpoint: &str, fields: Value) -> Value {
    let mut schedule = json!({
        "name": "test",
        "cronExpression": "0 0 29 2 *",
        "timezone": "UTC",
        "endpoint": endpoint,
        "httpMethod": "POST",
    });
    if let Value::Object(fields) = fields {
        schedule.as_object_mut().expect("an object").extend(fields);
    }
    schedule
}

/// Parses a response with a declared length.
fn read(bytes: &[u8]) -> Option<Reply> {
    let head_end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..head_end]).ok()?.to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let mut lengths = head.lines().filter_map(|line| line.strip_prefix("content-length: "));
    let length = lengths.next().map_or(Some(0), |length| length.parse().ok())?;
    let body = &bytes[head_end + 4..];
    if body.len() < length {
        return None;
    }
    let text = String::from_utf8_lossy(body).into_owned();
    Some(Reply { status, body: serde_json::from_slice(body).unwrap_or_default(), text })
}
