use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt;

use super::{Readiness, ReadinessSources, router};
use crate::cluster::single::SingleNode;
use crate::cluster::{Cluster, ClusterError, LiveReplica, Replacement, SharedCluster, Terms};
use crate::domain::{AccountId, Timestamp};
use crate::queue::memory::MemoryQueue;
use crate::runtime::Clock;
use crate::store::{
    self, PrunedRows, ShardRecord, StoreError, StoreErrorKind, UpkeepStore, WaitingJobs,
};
use crate::telemetry;

/// A store that answers pings only while `up` is `true`, and counts them.
#[derive(Default)]
struct Pinged {
    up: AtomicBool,
    pings: AtomicUsize,
}

#[async_trait]
impl UpkeepStore for Pinged {
    async fn ping(&self) -> store::Result<()> {
        self.pings.fetch_add(1, Ordering::SeqCst);
        let down = || StoreError::new("ping", StoreErrorKind::Unavailable, "secret-host:5432");
        self.up.load(Ordering::SeqCst).then_some(()).ok_or_else(down)
    }

    async fn time(&self) -> store::Result<Option<Timestamp>> {
        Ok(None)
    }

    async fn prepare(&self, _: Timestamp) -> store::Result<()> {
        Ok(())
    }

    async fn prune(&self, _: Timestamp, _: u32) -> store::Result<PrunedRows> {
        Ok(PrunedRows::default())
    }

    async fn short_histories(
        &self,
        _: &str,
        _: Timestamp,
        _: u32,
    ) -> store::Result<Vec<AccountId>> {
        Ok(Vec::new())
    }
    async fn prune_account(
        &self,
        _: AccountId,
        _: Timestamp,
        _: Timestamp,
        _: u32,
    ) -> store::Result<u64> {
        Ok(0)
    }

    async fn prune_keys(&self, _: Timestamp, _: u32) -> store::Result<u64> {
        Ok(0)
    }

    async fn shard_records(&self, _: Timestamp) -> store::Result<Vec<ShardRecord>> {
        Ok(Vec::new())
    }

    async fn unfinished(&self, _: u32) -> store::Result<u64> {
        Ok(0)
    }

    async fn waiting(&self, _: Timestamp, _: u32) -> store::Result<WaitingJobs> {
        Ok(WaitingJobs::default())
    }
}

async fn ask(router: &Router, request: Request) -> (u16, String) {
    let answer = router.clone().oneshot(request).await.expect("infallible");
    let status = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), usize::MAX).await.expect("read");
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

async fn get(router: &Router, path: &str) -> (u16, String) {
    ask(router, Request::get(path).body(Body::empty()).expect("a request")).await
}

fn ops(clock: &Clock) -> (Router, Arc<Readiness>) {
    let readiness = Readiness::starting(clock.clone());
    (router(readiness.clone(), telemetry::metrics::install(), clock.clone(), None), readiness)
}

#[tokio::test]
async fn readiness_follows_the_life_of_the_replica() {
    let clock = Clock::manual(Timestamp::from_millis(0));
    let (ops, readiness) = ops(&clock);
    assert_eq!(get(&ops, "/healthz").await, (200, "ok\n".into()));
    assert_eq!(get(&ops, "/readyz").await, (503, r#"{"status":"starting"}"#.into()));

    let store = Arc::new(Pinged::default());
    store.up.store(true, Ordering::SeqCst);
    let serving = ReadinessSources {
        store: store.clone(),
        queue: None,
        cluster: Arc::new(SingleNode::new("here", 2)),
        replica: "here".to_owned(),
    };
    readiness.waiting_for(vec!["queue"]);
    let waiting = (503, r#"{"status":"starting","waitingFor":["queue"]}"#.to_owned());
    assert_eq!(get(&ops, "/readyz").await, waiting);
    readiness.waiting_for_store("refused");
    let refused = r#"{"status":"starting","waitingFor":["store"],"store":"refused"}"#;
    assert_eq!(get(&ops, "/readyz").await, (503, refused.to_owned()));
    readiness.serving(serving.clone());
    let ready = r#"{"status":"ready","store":"ok","replica":"here","shards":[0,1]}"#;
    let ready = (200, ready.to_owned());
    assert_eq!(get(&ops, "/readyz").await, ready);

    store.up.store(false, Ordering::SeqCst);
    assert_eq!(get(&ops, "/readyz").await, ready, "believed for a second");
    assert_eq!(store.pings.load(Ordering::SeqCst), 1);
    clock.advance(Duration::from_secs(1));
    let (status, body) = get(&ops, "/readyz").await;
    assert_eq!((status, body.contains("secret")), (503, false), "{body}");
    assert_eq!(get(&ops, "/healthz").await.0, 200, "alive all the same");

    store.up.store(true, Ordering::SeqCst);
    clock.advance(Duration::from_secs(1));
    assert_eq!(get(&ops, "/readyz").await, ready);
    readiness.draining();
    readiness.serving(serving);
    assert_eq!(get(&ops, "/readyz").await, (503, r#"{"status":"draining"}"#.into()));
}

/// A cluster that does not answer.
struct Lost;

#[async_trait]
impl Cluster for Lost {
    fn terms(&self) -> watch::Receiver<Terms> {
        watch::Sender::new(Terms::new()).subscribe()
    }

    async fn members(&self) -> Result<Vec<LiveReplica>, ClusterError> {
        Err(ClusterError { operation: "members", source: "secret-host:2379".into() })
    }

    fn is_trusted(&self) -> bool {
        false
    }

    fn replace(&self, _: Vec<Replacement>) {}

    async fn leave(&self) {}
}

#[tokio::test]
async fn peers_that_are_away_are_named_and_do_not_matter() {
    let clock = Clock::manual(Timestamp::from_millis(0));
    let (ops, readiness) = ops(&clock);
    let store = Arc::new(Pinged::default());
    store.up.store(true, Ordering::SeqCst);
    let serving = |cluster: SharedCluster| ReadinessSources {
        store: store.clone(),
        queue: Some(Arc::new(MemoryQueue::new())),
        cluster,
        replica: "here".to_owned(),
    };
    readiness.serving(serving(Arc::new(SingleNode::new("here", 1))));
    let told = |status, store, cluster, without, shards| {
        let peers = format!(r#""queue":"ok","cluster":"{cluster}","withoutServers":[{without}]"#);
        let own = format!(r#""replica":"here","shards":[{shards}]"#);
        format!(r#"{{"status":"{status}","store":"{store}",{peers},{own}}}"#)
    };
    assert_eq!(get(&ops, "/readyz").await, (200, told("ready", "ok", "ok", "", "0")));
    readiness.serving(serving(Arc::new(Lost)));
    clock.advance(Duration::from_secs(1));
    assert_eq!(
        get(&ops, "/readyz").await,
        (200, told("ready", "ok", "unavailable", r#""cluster""#, ""))
    );
    store.up.store(false, Ordering::SeqCst);
    clock.advance(Duration::from_secs(1));
    let not_ready = told("not ready", "unavailable", "unavailable", r#""cluster""#, "");
    assert_eq!(get(&ops, "/readyz").await, (503, not_ready));
}

#[tokio::test]
async fn metrics_are_shown_and_unknown_paths_are_not_found() {
    let (ops, _) = ops(&Clock::system());
    let (status, text) = get(&ops, "/metrics").await;
    assert_eq!(status, 200);
    assert!(text.contains("\npunctual_ticks_fired_total "), "{text}");
    assert_eq!(get(&ops, "/").await.0, 404);
    assert_eq!(get(&ops, "/healthz/").await.0, 404);
}

#[tokio::test]
async fn echo_returns_the_request() {
    let (ops, _) = ops(&Clock::system());
    let request = Request::put("/echo?a=b&a=%20")
        .header("x-one", "1")
        .header("x-many", "1")
        .header("x-many", "2")
        .body(Body::from(&b"h\xe9 \0 you"[..]));
    let (status, text) = ask(&ops, request.expect("a request")).await;
    assert_eq!(status, 200);
    let expected = json!({
        "method": "PUT",
        "path": "/echo",
        "query": "a=b&a=%20",
        "headers": {"x-one": "1", "x-many": ["1", "2"]},
        "body": "h\u{fffd} \0 you",
    });
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), expected);

    let large = |size| Request::post("/echo").body(Body::from("x".repeat(size)));
    assert_eq!(ask(&ops, large(64 << 10).expect("a request")).await.0, 200);
    assert_eq!(ask(&ops, large((64 << 10) + 1).expect("a request")).await.0, 413);
    assert_eq!(get(&ops, "/echo").await.0, 200);
}
