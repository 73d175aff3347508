//! `/readyz`: whether this replica should be sent requests.
//!
//! The store decides. Queue and cluster are named when they are away, and change nothing: the API
//! goes on without them, and other replicas would not have them either.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::cluster::SharedCluster;
use crate::domain::shard::ShardId;
use crate::queue::SharedQueue;
use crate::runtime::Clock;
use crate::store::UpkeepStore;

/// For how long an answer of a server is believed.
const BELIEVED: Duration = Duration::from_secs(1);
/// How long the store may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the queue and the cluster may: those who ask may wait for no more than a second.
const PEER_PATIENCE: Duration = Duration::from_millis(500);

const OK: &str = "ok";

/// Where the replica is in its life, as the composition tells it.
pub struct Readiness {
    clock: Clock,
    phase: Mutex<Phase>,
    store: Asked,
    queue: Asked,
    cluster: Asked,
}

/// When a server was last asked, and whether it answered. Locked while it is being asked, so that
/// many who ask cost one question.
#[derive(Default)]
struct Asked(tokio::sync::Mutex<Option<(Duration, bool)>>);

impl Asked {
    async fn ask<E>(
        &self,
        clock: &Clock,
        patience: Duration,
        question: impl Future<Output = Result<(), E>>,
    ) -> &'static str {
        let mut known = self.0.lock().await;
        let now = clock.monotonic();
        let answered = match *known {
            Some((asked, answered)) if now.saturating_sub(asked) < BELIEVED => answered,
            _ => tokio::select! {
                answer = question => known.insert((now, answer.is_ok())).1,
                () = clock.sleep(patience) => known.insert((now, false)).1,
            },
        };
        if answered { OK } else { "unavailable" }
    }
}

#[derive(Clone)]
enum Phase {
    /// Waiting for these servers; and why, if it is the store.
    Starting(Vec<&'static str>, Option<&'static str>),
    Serving(Serving),
    Draining,
}

/// What a replica that serves is asked for.
#[derive(Clone)]
pub struct Serving {
    /// Where everything is kept.
    pub store: Arc<dyn UpkeepStore>,
    /// What it shares with others; absent within one process, where it cannot be away.
    pub queue: Option<SharedQueue>,
    /// Which shards it leads.
    pub cluster: SharedCluster,
    /// What the others call it.
    pub replica: String,
}

impl Readiness {
    /// A replica that has not found its stores yet.
    pub fn starting(clock: Clock) -> Arc<Self> {
        let phase = Mutex::new(Phase::Starting(Vec::new(), None));
        let [store, queue, cluster] = [Asked::default(), Asked::default(), Asked::default()];
        Arc::new(Self { clock, phase, store, queue, cluster })
    }

    /// It still waits for these servers.
    pub fn waiting_for(&self, servers: Vec<&'static str>) {
        self.enter(Phase::Starting(servers, None));
    }

    /// It still waits for the store, which is in this state.
    pub fn waiting_for_store(&self, state: &'static str) {
        self.enter(Phase::Starting(vec!["store"], Some(state)));
    }

    /// From now on it serves, as long as the store answers.
    pub fn serving(&self, serving: Serving) {
        self.enter(Phase::Serving(serving));
    }

    /// From now on it wants no more requests, for good.
    pub fn draining(&self) {
        self.enter(Phase::Draining);
    }

    fn enter(&self, next: Phase) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*phase, Phase::Draining) {
            *phase = next;
        }
    }

    async fn report(&self) -> Report {
        let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match phase {
            Phase::Starting(waiting_for, store) => {
                Report { waiting_for, store, ..Report::new("starting") }
            }
            Phase::Draining => Report::new("draining"),
            Phase::Serving(serving) => self.report_serving(serving).await,
        }
    }

    async fn report_serving(&self, serving: Serving) -> Report {
        let Serving { store, queue, cluster, replica } = serving;
        let peers = async {
            let Some(queue) = queue else { return (None, None) };
            let members = async { cluster.members().await.map(drop) };
            let (queue, cluster) = tokio::join!(
                self.queue.ask(&self.clock, PEER_PATIENCE, queue.ping()),
                self.cluster.ask(&self.clock, PEER_PATIENCE, members),
            );
            (Some(queue), Some(cluster))
        };
        let ping = self.store.ask(&self.clock, PATIENCE, store.ping());
        let (store, (queue, cluster_answer)) = tokio::join!(ping, peers);
        let now = self.clock.monotonic();
        let terms = cluster.terms().borrow().clone();
        let trusted = terms
            .into_iter()
            .filter(|(_, term)| term.trusted_until.is_none_or(|until| now < until));
        Report {
            store: Some(store),
            queue,
            cluster: cluster_answer,
            replica: Some(replica),
            shards: Some(trusted.map(|(ShardId(shard), _)| shard).collect()),
            ..Report::new(if store == OK { "ready" } else { "not ready" })
        }
    }
}

/// What `/readyz` says; 200 only if the status is `ready`.
#[derive(Serialize)]
struct Report {
    status: &'static str,
    #[serde(rename = "waitingFor", skip_serializing_if = "Vec::is_empty")]
    waiting_for: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replica: Option<String>,
    /// The shards that it leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<Vec<u16>>,
}

impl Report {
    fn new(status: &'static str) -> Self {
        Self {
            status,
            waiting_for: Vec::new(),
            store: None,
            queue: None,
            cluster: None,
            replica: None,
            shards: None,
        }
    }
}

pub(super) async fn readyz(State(readiness): State<Arc<Readiness>>) -> Response {
    let report = readiness.report().await;
    let ready = report.status == "ready";
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(report)).into_response()
}
