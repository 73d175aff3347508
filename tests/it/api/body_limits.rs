//! Request bodies over real connections: too large, slow, and from clients that disconnect.

use std::time::Duration;

use punctual::runtime::{Clock, ServeLimits, Tasks, serve};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::harness::{Service, id, schedule_with};

const TIMEOUT: Duration = Duration::from_secs(20);

struct Listening {
    service: Service,
    address: std::net::SocketAddr,
    _tasks: Tasks,
}

async fn listen() -> Listening {
    let service = Service::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let tasks = Tasks::new();
    let router = service.router.clone();
    serve(&tasks, &Clock::system(), listener, router, ServeLimits::default());
    Listening { service, address, _tasks: tasks }
}

impl Listening {
    async fn connect(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.expect("listening");
        let request = request.replace("KEY", &self.service.key);
        stream.write_all(request.as_bytes()).await.expect("sent");
        stream
    }
}

async fn read_answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = async {
        let mut chunk = [0; 4_096];
        while !String::from_utf8_lossy(&bytes).ends_with("}}") {
            let length = stream.read(&mut chunk).await.expect("an answer");
            assert!(length > 0, "closed after {}", String::from_utf8_lossy(&bytes));
            bytes.extend_from_slice(&chunk[..length]);
        }
    };
    tokio::time::timeout(TIMEOUT, read).await.expect("an answer in time");
    String::from_utf8(bytes).expect("UTF-8")
}

#[tokio::test]
async fn an_oversized_body_is_answered_and_then_drained() {
    let listening = listen().await;
    for framing in ["Content-Length: 20971520", "Transfer-Encoding: chunked"] {
        let head = format!(
            "POST /v1/schedules HTTP/1.1\r\nHost: x\r\nx-api-key: KEY\r\n{framing}\r\n\r\n"
        );
        let mut stream = listening.connect(&head).await;
        // This client sends its whole body before it reads anything.
        let chunk = vec![b' '; 1 << 20];
        for _ in 0..20 {
            if framing.contains("chunked") {
                stream.write_all(b"100000\r\n").await.expect("still taken");
            }
            stream.write_all(&chunk).await.expect("still taken");
            if framing.contains("chunked") {
                stream.write_all(b"\r\n").await.expect("still taken");
            }
        }
        if framing.contains("chunked") {
            stream.write_all(b"0\r\n\r\n").await.expect("still taken");
        }
        let answer = read_answer(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains("PAYLOAD_TOO_LARGE") && answer.contains("x-ratelimit-limit"));
    }
}

#[tokio::test]
async fn a_refusal_is_seen_by_clients_that_are_still_sending() {
    let listening = listen().await;
    let head = "POST /v1/schedules HTTP/1.1\r\nHost: x\r\nx-api-key: nonsense\r\n\
                Content-Length: 10485760\r\n\r\n";
    let mut stream = listening.connect(head).await;
    for _ in 0..10 {
        stream.write_all(&vec![b' '; 1 << 20]).await.expect("still taken");
    }
    let answer = read_answer(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

#[tokio::test]
async fn an_endless_body_is_drained_only_up_to_a_limit() {
    let listening = listen().await;
    let head = "POST /v1/schedules HTTP/1.1\r\nHost: x\r\nx-api-key: KEY\r\n\
                Content-Length: 10737418240\r\n\r\n";
    let mut stream = listening.connect(head).await;
    let answer = read_answer(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let chunk = vec![b' '; 1 << 20];
    let send = async {
        let mut sent = 0;
        while stream.write_all(&chunk).await.is_ok() {
            sent += 1;
            assert!(sent < 200, "the drain of the body has a limit");
        }
    };
    tokio::time::timeout(TIMEOUT, send).await.expect("the connection is closed");
}

#[tokio::test]
async fn a_silent_body_is_cut_off_in_the_end() {
    let listening = listen().await;
    let head = "POST /v1/schedules HTTP/1.1\r\nHost: x\r\nx-api-key: KEY\r\n\
                Content-Length: 100\r\n\r\n{";
    let mut stream = listening.connect(head).await;
    let advance = async {
        loop {
            listening.service.advance(10);
            tokio::task::yield_now().await;
        }
    };
    let answer = tokio::select! {
        answer = read_answer(&mut stream) => answer,
        () = advance => unreachable!("the call ends"),
    };
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}

/// F35: after a client disconnects, its change is complete or absent, and nothing hangs.
#[tokio::test]
async fn clients_that_disconnect_break_nothing() {
    let listening = listen().await;
    let body = schedule_with(json!({})).to_string();
    let request = format!(
        "POST /v1/schedules HTTP/1.1\r\nHost: x\r\nx-api-key: KEY\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let sent = 200;
    for index in 0..sent {
        let mut stream = listening.connect(&request).await;
        if index % 2 == 0 {
            let mut first = [0; 1];
            let _ = tokio::time::timeout(Duration::from_millis(2), stream.read(&mut first)).await;
        }
    }
    let service = &listening.service;
    let count = async || {
        let list = service.get("/v1/schedules?limit=1").await;
        list.body["pagination"]["total"].as_u64().expect("a number")
    };
    // The service executes the requests that arrived completely. Wait until no more appear.
    let settled = async {
        let mut before = count().await;
        loop {
            let schedule = id(&service.create(json!({})).await);
            service.call("DELETE", &format!("/v1/schedules/{schedule}")).send().await.ok();
            let now = count().await;
            if now == before {
                return now;
            }
            before = now;
        }
    };
    let made = tokio::time::timeout(TIMEOUT, settled).await.expect("settled");
    assert!((1..=sent).contains(&made), "{made}");
    let list = service.get("/v1/schedules").await;
    for record in list.body["data"].as_array().expect("an array") {
        service.get(&format!("/v1/schedules/{}", id(record))).await.ok();
    }
}
