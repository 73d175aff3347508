//! Connections: which requests share them, and for how long (S34, F50).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use punctual::domain::outcome::ErrorCode;

use super::{ALLOWED, AMPLE, Caller, account, failure, get, post, response};
use crate::harness::eventually;
use crate::harness::target::{Peer, Target};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn an_account_reuses_its_connection_to_an_origin_and_no_other() {
    let target = Target::answering(ALLOWED, OK).await;
    let other = Target::answering(ALLOWED, OK).await;
    let caller = Caller::new();
    let call = async |number, url: &str| {
        response(caller.client.send(account(number), get(url), AMPLE).await);
    };
    for _ in 0..3 {
        call(1, &target.url("/")).await;
        call(2, &target.url("/")).await;
        call(1, &other.url("/")).await;
    }
    assert_eq!((target.connections(), other.connections()), (2, 1));
    let over: Vec<_> = target.requests().iter().map(|request| request.connection).collect();
    assert_eq!(over, [0, 1, 0, 1, 0, 1]);
}

/// I3, F08: a process that was paused while it connected does not write a request that another
/// executor may have sent in the meantime.
#[tokio::test]
async fn a_request_that_may_no_longer_be_sent_is_not_written_to_a_new_connection() {
    let target = Target::answering(ALLOWED, OK).await;
    let caller = Caller::new();
    let send = async |may_send: bool| {
        let request = get(&target.url("/"));
        caller.client.send_while(account(1), request, AMPLE, move || may_send).await
    };
    let failed = failure(send(false).await, ErrorCode::WorkerLost, true);
    assert_eq!(failed.message, "the executor was paused before it could send the request");
    eventually("the connection is open", || target.connections() == 1).await;
    assert_eq!(target.requests().len(), 0);
    assert_eq!(response(send(true).await).body, b"ok".as_slice());
    assert_eq!(target.requests().len(), 1);
}

/// A second response without a request never becomes the response to the next request, least of all
/// to one of another account.
#[tokio::test]
async fn an_unsolicited_response_reaches_no_request() {
    let target = Target::start(ALLOWED, |mut peer: Peer| async move {
        loop {
            let request = peer.request().await?;
            let path = request.text().split(' ').nth(1).unwrap_or_default().to_owned();
            let answer = |body: &str| {
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
            };
            peer.write(answer(&path) + &answer("/planted")).await?;
        }
    })
    .await;
    let caller = Caller::new();
    for round in 0..20 {
        for number in [1, 2] {
            let path = format!("/{round}/{number}");
            let request = get(&target.url(&path));
            let exchange = caller.client.send(account(number), request, AMPLE).await;
            assert_eq!(response(exchange).body, path.as_bytes());
        }
    }
    assert_eq!(target.requests().len(), 40);
}

/// The server closes an idle connection at the worst moment. The next request uses a new connection
/// and is written only once.
#[tokio::test]
async fn a_connection_closed_while_idle_is_not_used_again() {
    let target = Target::start(ALLOWED, |mut peer: Peer| async move {
        peer.request().await?;
        peer.write(OK).await
    })
    .await;
    let caller = Caller::new();
    for round in 1..=20 {
        let exchange = caller.send(post(&target.url("/"), "once"), AMPLE).await;
        assert_eq!(response(exchange).body, b"ok");
        assert_eq!(target.requests().len(), round);
        // The server has sent the end of the connection. The client may not have noticed it yet.
        eventually("the server has closed", || target.closed().len() == round).await;
    }
}

/// A request that was written may have been executed, even without a response. It is not written
/// again in the same attempt.
#[tokio::test]
async fn a_request_that_was_written_is_not_written_again() {
    let answered = Arc::new(AtomicUsize::new(0));
    let count = answered.clone();
    let target = Target::start(ALLOWED, move |mut peer: Peer| {
        let count = count.clone();
        async move {
            peer.request().await?;
            peer.write(OK).await?;
            count.fetch_add(1, Ordering::SeqCst);
            peer.request().await?;
            Ok(())
        }
    })
    .await;
    let caller = Caller::new();
    response(caller.send(post(&target.url("/first"), "x"), AMPLE).await);
    let exchange = caller.send(post(&target.url("/second"), "x"), AMPLE).await;
    failure(exchange, ErrorCode::Network, true);
    let requests = target.requests();
    assert_eq!(requests.len(), 2, "each once");
    assert_eq!(requests[0].connection, requests[1].connection, "the second over a reused one");
    assert_eq!(answered.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_idle_connection_is_closed_within_seconds() {
    let target = Target::answering(ALLOWED, OK).await;
    let caller = Caller::new();
    response(caller.get(&target.url("/")).await);
    let used = Instant::now();
    eventually("the idle connection is closed", || !target.closed().is_empty()).await;
    let idle = used.elapsed();
    assert!((3_500..6_500).contains(&idle.as_millis()), "{idle:?}");
    response(caller.get(&target.url("/")).await);
    assert_eq!(target.connections(), 2);
}

#[tokio::test]
async fn the_keep_alive_timeout_of_a_server_is_respected() {
    let keep = |timeout| {
        format!("HTTP/1.1 200 OK\r\nKeep-Alive: timeout={timeout}\r\nContent-Length: 2\r\n\r\nok")
    };
    let never = Target::answering(ALLOWED, keep(1)).await;
    let shortly = Target::answering(ALLOWED, keep(2)).await;
    let long = Target::answering(ALLOWED, keep(5)).await;
    let caller = Caller::new();
    for target in [&never, &shortly, &long] {
        for _ in 0..4 {
            response(caller.get(&target.url("/")).await);
        }
    }
    assert_eq!(never.connections(), 4);
    // The first response announced the timeout. Its connection was dropped, because its client was
    // created without that knowledge.
    assert_eq!(shortly.connections(), 2);
    assert_eq!(long.connections(), 1);
    // The short one may be idle for 1 s, and the long one, which was used after it, for 4 s.
    eventually("the short one is closed", || shortly.closed().len() == 2).await;
    assert!(long.closed().is_empty());
}

#[tokio::test]
async fn an_attempt_that_is_dropped_closes_its_connection() {
    let target = Target::start(ALLOWED, |mut peer: Peer| async move {
        peer.request().await?;
        peer.hang().await
    })
    .await;
    let caller = Caller::new();
    let url = target.url("/");
    let mut call = Box::pin(caller.get(&url));
    tokio::select! {
        exchange = &mut call => panic!("it hangs: {exchange:?}"),
        () = eventually("the request has come", || target.requests().len() == 1) => {}
    }
    drop(call);
    eventually("the connection is closed", || target.closed().len() == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_each_get_their_own_answer() {
    let target = Target::start(ALLOWED, |mut peer: Peer| async move {
        loop {
            let request = peer.request().await?;
            let path = request.text().split(' ').nth(1).unwrap_or_default().to_owned();
            let length = path.len();
            peer.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{path}"))
                .await?;
        }
    })
    .await;
    let caller = Caller::new();
    let calls = (0..2_000_u16).map(|number| {
        let path = format!("/{number}");
        let request = get(&target.url(&path));
        let owner = account(u8::try_from(number % 3).expect("small"));
        let client = caller.client.clone();
        tokio::spawn(async move {
            let exchange = client.send(owner, request, AMPLE).await;
            assert_eq!(response(exchange).body, path.as_bytes());
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.expect("the right answer");
    }
    assert_eq!(target.requests().len(), 2_000);
}
