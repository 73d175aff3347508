//! Malformed, slow and large responses (F46–F49, F51–F54).

use std::time::{Duration, Instant};

use punctual::domain::outcome::{ErrorCode, Exchange};
use tokio::net::{TcpSocket, TcpStream};

use super::{ALLOWED, Caller, failure, get, post, response};
use crate::harness::eventually;
use crate::harness::target::{Peer, Target};

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
const SHORT: Duration = Duration::from_millis(400);
/// A bound for an attempt with the timeout `SHORT`, whose target never ends its response.
const FAR: Duration = Duration::from_secs(10);

/// Calls a target that answers one request with `bytes` and then closes.
async fn answer_and_close(bytes: impl Into<Vec<u8>>) -> Exchange {
    let bytes = std::sync::Arc::<[u8]>::from(bytes.into());
    let target = Target::start(ALLOWED, move |mut peer| {
        let bytes = bytes.clone();
        async move {
            peer.request().await?;
            peer.write(&bytes).await
        }
    })
    .await;
    Caller::new().get(&target.url("/?s3cret")).await
}

/// Asserts that the attempt ends at its deadline and closes its connection.
async fn assert_cut(target: &Target, waiting: &str) {
    let started = Instant::now();
    let exchange = Caller::new().send(get(&target.url("/")), SHORT).await;
    let spent = started.elapsed();
    assert!((SHORT..FAR).contains(&spent), "{spent:?}");
    assert!(exchange.duration_ms >= 400, "{exchange:?}");
    let failure = failure(exchange, ErrorCode::Timeout, true);
    assert_eq!(failure.message, format!("timed out after 0.4 s while {waiting}"));
    eventually("the connection is closed", || target.closed().len() == 1).await;
}

#[tokio::test]
async fn a_target_that_hangs_is_cut_at_the_deadline() {
    let target = Target::start(ALLOWED, |mut peer: Peer| async move {
        peer.request().await?;
        peer.hang().await
    })
    .await;
    assert_cut(&target, "waiting for the response").await;
    let target = Target::start(ALLOWED, |mut peer: Peer| async move {
        peer.request().await?;
        peer.write(HEAD).await?;
        peer.hang().await
    })
    .await;
    assert_cut(&target, "reading the response's body").await;
}

#[tokio::test]
async fn a_target_that_drips_is_cut_at_the_deadline() {
    let pause = Duration::from_millis(20);
    let target = Target::start(ALLOWED, move |mut peer: Peer| async move {
        peer.request().await?;
        peer.write("HTTP/1.1 200 OK\r\nX-Drip: ").await?;
        peer.drip(b"x", pause).await
    })
    .await;
    assert_cut(&target, "waiting for the response").await;
    let target = Target::start(ALLOWED, move |mut peer: Peer| async move {
        peer.request().await?;
        peer.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await?;
        peer.drip(b"1\r\nx\r\n", pause).await
    })
    .await;
    assert_cut(&target, "reading the response's body").await;
}

/// A listener with a full queue drops new connections, like a firewall.
#[tokio::test]
async fn a_host_that_takes_no_connection_fails_before_the_deadline() {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(ALLOWED.parse().expect("an address")).expect("a free port");
    let listener = socket.listen(1).expect("listening");
    let address = listener.local_addr().expect("bound");
    let mut fillers = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_secs(1), TcpStream::connect(address)).await
    {
        fillers.push(stream);
    }
    let caller = Caller::new();
    // Connecting may take three quarters of this time.
    let timeout = Duration::from_secs(4);
    let started = Instant::now();
    let exchange = caller.send(get(&format!("http://{address}/")), timeout).await;
    assert!(started.elapsed() < timeout, "{exchange:?}");
    assert!(exchange.timings.connect_ms.is_some() && exchange.timings.first_byte_ms.is_none());
    let failure = failure(exchange, ErrorCode::Connect, true);
    assert!(failure.message.starts_with("no connection within 2."), "{failure:?}");
}

#[tokio::test]
async fn a_closed_port_is_a_refused_connection() {
    let target = Target::answering(ALLOWED, HEAD).await;
    let url = target.url("/");
    drop(target);
    eventually("the port is closed", || {
        std::net::TcpStream::connect(url.trim_start_matches("http://").trim_end_matches('/'))
            .is_err()
    })
    .await;
    let failure = failure(Caller::new().get(&url).await, ErrorCode::Connect, true);
    assert!(failure.message.starts_with("the host refused the connection"), "{failure:?}");
}

#[tokio::test]
async fn a_response_that_breaks_off_is_a_network_error() {
    for (bytes, words) in [
        ("", "closed the connection before"),
        ("HTTP/1.1 200 OK\r\nContent-Le", "closed the connection before"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "closed the connection before"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "closed the connection before",
        ),
    ] {
        let failure = failure(answer_and_close(bytes).await, ErrorCode::Network, true);
        assert!(failure.message.contains(words), "{bytes:?}: {failure:?}");
    }
    for answer in ["", HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"] {
        let target = Target::start(ALLOWED, move |mut peer: Peer| async move {
            peer.request().await?;
            peer.write(answer).await?;
            peer.reset()
        })
        .await;
        failure(Caller::new().get(&target.url("/")).await, ErrorCode::Network, true);
    }
    let target = Target::start(ALLOWED, |peer: Peer| async move { peer.reset() }).await;
    failure(Caller::new().get(&target.url("/")).await, ErrorCode::Network, true);
}

#[tokio::test]
async fn a_body_without_a_length_ends_with_its_connection() {
    let response = response(answer_and_close("HTTP/1.1 200 OK\r\n\r\nto the end").await);
    assert_eq!((response.body.as_slice(), response.truncated), (&b"to the end"[..], false));
}

#[tokio::test]
async fn bytes_beyond_the_length_are_not_part_of_the_response() {
    let bytes = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokmore";
    assert_eq!(response(answer_and_close(bytes).await).body, b"ok");
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_a_network_error() {
    for bytes in [
        "SSH-2.0-OpenSSH_9.6\r\n",
        "-ERR unknown command\r\n",
        "HTTP/1.1 999999 x\r\n\r\n",
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nxxx",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
        "\0\0\0\0\0\0\0\0\0\0\0\0\r\n\r\n",
    ] {
        failure(answer_and_close(bytes).await, ErrorCode::Network, true);
    }
}

#[tokio::test]
async fn oversized_heads_fail_cleanly() {
    let status_line = format!("HTTP/1.1 200 {}\r\n\r\n", "x".repeat(1_024 * 1_024));
    let one_large = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1_024 * 1_024));
    let many: String = (0..10_000).map(|number| format!("x-{number}: v\r\n")).collect();
    let many = format!("HTTP/1.1 200 OK\r\n{many}\r\n");
    for bytes in [status_line, one_large, many] {
        let failure = failure(answer_and_close(bytes).await, ErrorCode::Network, true);
        assert_eq!(failure.message, "the response's headers are too large or too many");
    }
}

#[tokio::test]
async fn headers_are_kept_up_to_a_bound_and_as_text() {
    let mut head = "HTTP/1.1 204 No Content\r\nX-First: 1\r\n".to_owned().into_bytes();
    head.extend_from_slice(b"X-Bytes: a\xff\xfeb\r\n");
    for number in 0..60 {
        head.extend_from_slice(format!("x-{number:02}: {}\r\n", "v".repeat(1_000)).as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    let response = response(answer_and_close(head).await);
    assert_eq!(response.headers[0], ("x-first".into(), "1".into()));
    assert_eq!(response.headers[1], ("x-bytes".into(), "a\u{fffd}\u{fffd}b".into()));
    let size: usize = response.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!((15_000..=16_384).contains(&size), "{size}");
}

#[tokio::test]
async fn the_first_64_kib_of_a_body_are_kept() {
    for (length, truncated) in [(65_536, false), (65_537, true), (1_048_575, true)] {
        let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
        bytes.extend((0..length).map(|index| u8::try_from(index % 251).expect("small")));
        let response = response(answer_and_close(bytes).await);
        assert_eq!((response.body.len(), response.truncated), (65_536, truncated), "{length}");
        assert!(
            response.body.iter().enumerate().all(|(index, byte)| index % 251 == usize::from(*byte))
        );
    }
}

#[tokio::test]
async fn reading_stops_at_1_mib_and_the_response_counts() {
    let written = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    for head in [
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        let count = written.clone();
        let target = Target::start(ALLOWED, move |mut peer: Peer| {
            let count = count.clone();
            async move {
                peer.request().await?;
                peer.write(head).await?;
                // All chunks have the same size: 4,080 bytes with their frame.
                let chunk = format!("ff0\r\n{}\r\n", "x".repeat(4_080));
                loop {
                    peer.write(&chunk).await?;
                    count.fetch_add(chunk.len(), std::sync::atomic::Ordering::SeqCst);
                }
            }
        })
        .await;
        let response = response(Caller::new().get(&target.url("/")).await);
        assert_eq!((response.status, response.body.len()), (200, 65_536));
        assert!(response.truncated);
        eventually("the endless target is cut off", || target.closed().len() == 1).await;
    }
    // The sockets buffer more than the client reads.
    let read = written.load(std::sync::atomic::Ordering::SeqCst);
    assert!(read < 3 * 16 * 1_024 * 1_024, "{read}");
}

#[tokio::test]
async fn any_bytes_can_be_a_body() {
    let body = b"\xff\xfe\0\0\xc3\x28\0";
    let mut bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n".to_vec();
    bytes.extend_from_slice(body);
    assert_eq!(response(answer_and_close(bytes).await).body, body);
}

#[tokio::test]
async fn any_status_is_a_response() {
    for status in [100_u16, 200, 204, 301, 304, 404, 408, 429, 500, 503, 599, 999] {
        // The final response follows an interim one.
        let rest = if status == 100 { "HTTP/1.1 200 OK\r\n\r\n" } else { "" };
        let bytes = format!("HTTP/1.1 {status} x\r\nRetry-After: 3600\r\n\r\n{rest}");
        let response = response(answer_and_close(bytes).await);
        assert_eq!(response.status, if status == 100 { 200 } else { status });
        if status != 100 {
            assert!(response.headers.contains(&("retry-after".into(), "3600".into())));
        }
    }
}

#[tokio::test]
async fn an_answer_before_the_body_was_read_is_an_answer() {
    let target = Target::start(ALLOWED, |mut peer: Peer| async move {
        peer.write("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            .await?;
        peer.hang().await
    })
    .await;
    let exchange = Caller::new().send(post(&target.url("/"), "body"), Duration::from_secs(5)).await;
    // The response arrives before the request, so it may count as no response.
    match exchange.result {
        Ok(response) => assert_eq!(response.status, 413),
        Err(failure) => assert_eq!(failure.code, ErrorCode::Network),
    }
}

#[tokio::test]
async fn the_time_is_reported_by_phases() {
    let target = Target::start(ALLOWED, |mut peer: Peer| async move {
        loop {
            peer.request().await?;
            peer.pause(Duration::from_millis(60)).await;
            peer.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no").await?;
            peer.pause(Duration::from_millis(120)).await;
            peer.write("k").await?;
        }
    })
    .await;
    let caller = Caller::new();
    for reused in [false, true] {
        let exchange = caller.get(&target.url("/")).await;
        let timings = exchange.timings;
        assert_eq!(timings.dns_ms, None);
        assert_eq!(timings.connect_ms.is_none(), reused, "{timings:?}");
        let first_byte = timings.first_byte_ms.expect("an answer");
        let body = timings.body_ms.expect("a body");
        assert!((50..10_000).contains(&first_byte), "{timings:?}");
        // A client that reads the first byte late waits less for the body. No time counts twice.
        let phases = timings.connect_ms.unwrap_or(0) + first_byte + body;
        assert!((170..=exchange.duration_ms).contains(&phases), "{exchange:?}");
        assert!(exchange.duration_ms < 20_000, "{exchange:?}");
    }
    assert_eq!(target.connections(), 1);
    let [first, second] = &target.requests()[..] else { panic!("two requests") };
    assert!(second.at.duration_since(first.at) >= Duration::from_millis(180), "one by one");
}
