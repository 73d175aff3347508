//! `/readyz`: reports if this replica should receive requests.
//!
//! Once the replica serves, only the store decides. An unavailable queue or cluster is reported,
//! but does not change the status: the API works without them, and other replicas would lack them
//! too. The replica works without such a server until it has been back for a while, so the report
//! also lists these servers.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::cluster::SharedCluster;
use crate::domain::shard::ShardId;
use crate::inspection::missing_servers;
use crate::queue::SharedQueue;
use crate::runtime::{Clock, Mutex};
use crate::store::UpkeepStore;

/// The time for which the last answer of a server is reused.
const ANSWER_REUSED_FOR: Duration = Duration::from_secs(1);
/// The timeout of a ping of the store.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The timeout of a request to the queue or the cluster. It is short because a probe may time out
/// after one second, and an unavailable queue or cluster must not fail it.
const PEER_TIMEOUT: Duration = Duration::from_millis(500);

const OK: &str = "ok";

/// The phase of the replica, from start to drain. The composition root sets it.
pub struct Readiness {
    clock: Clock,
    phase: Mutex<StartPhase>,
    store: LastPing,
    queue: LastPing,
    cluster: LastPing,
}

/// The time of the last request to a server, and `true` if it answered. The lock is held during a
/// request, so that many concurrent probes cost one request.
#[derive(Default)]
struct LastPing(tokio::sync::Mutex<Option<(Duration, bool)>>);

impl LastPing {
    async fn ask<E>(
        &self,
        clock: &Clock,
        timeout: Duration,
        question: impl Future<Output = Result<(), E>>,
    ) -> &'static str {
        let mut known = self.0.lock().await;
        let now = clock.monotonic();
        let answered = match *known {
            Some((asked, answered)) if now.saturating_sub(asked) < ANSWER_REUSED_FOR => answered,
            _ => tokio::select! {
                answer = question => known.insert((now, answer.is_ok())).1,
                () = clock.sleep(timeout) => known.insert((now, false)).1,
            },
        };
        if answered { OK } else { "unavailable" }
    }
}

#[derive(Clone)]
enum StartPhase {
    /// Waits for these servers. The second value is the state of the store, if that is one of them.
    Starting(Vec<&'static str>, Option<&'static str>),
    Serving(ReadinessSources),
    Draining,
}

/// The parts of a serving replica that `/readyz` reports on.
#[derive(Clone)]
pub struct ReadinessSources {
    /// The store, which decides if the replica is ready.
    pub store: Arc<dyn UpkeepStore>,
    /// The queue that replicas share. Absent if the queue is in this process: it is always
    /// available then.
    pub queue: Option<SharedQueue>,
    /// The cluster, which assigns the shards that this replica leads.
    pub cluster: SharedCluster,
    /// The name of this replica in the cluster.
    pub replica: String,
}

impl Readiness {
    /// Creates the readiness of a replica that has not reached its servers yet.
    pub fn starting(clock: Clock) -> Arc<Self> {
        let phase = Mutex::new(StartPhase::Starting(Vec::new(), None));
        let [store, queue, cluster] =
            [LastPing::default(), LastPing::default(), LastPing::default()];
        Arc::new(Self { clock, phase, store, queue, cluster })
    }

    /// Reports that the replica still waits for these servers.
    pub fn waiting_for(&self, servers: Vec<&'static str>) {
        self.enter(StartPhase::Starting(servers, None));
    }

    /// Reports that the replica still waits for the store, which is in this state.
    pub fn waiting_for_store(&self, state: &'static str) {
        self.enter(StartPhase::Starting(vec!["store"], Some(state)));
    }

    /// Reports that the replica serves from now on, as long as the store answers.
    pub fn serving(&self, serving: ReadinessSources) {
        self.enter(StartPhase::Serving(serving));
    }

    /// Reports that the replica takes no more requests. No later call changes that.
    pub fn draining(&self) {
        self.enter(StartPhase::Draining);
    }

    fn enter(&self, next: StartPhase) {
        let mut phase = self.phase.lock();
        if !matches!(*phase, StartPhase::Draining) {
            *phase = next;
        }
    }

    async fn report(&self) -> ReadinessReport {
        let phase = self.phase.lock().clone();
        match phase {
            StartPhase::Starting(waiting_for, store) => {
                ReadinessReport { waiting_for, store, ..ReadinessReport::new("starting") }
            }
            StartPhase::Draining => ReadinessReport::new("draining"),
            StartPhase::Serving(serving) => self.report_serving(serving).await,
        }
    }

    async fn report_serving(&self, serving: ReadinessSources) -> ReadinessReport {
        let ReadinessSources { store, queue, cluster, replica } = serving;
        let peers = async {
            let Some(queue) = &queue else { return (None, None) };
            let members = async { cluster.members().await.map(drop) };
            let (queue, cluster) = tokio::join!(
                self.queue.ask(&self.clock, PEER_TIMEOUT, queue.ping()),
                self.cluster.ask(&self.clock, PEER_TIMEOUT, members),
            );
            (Some(queue), Some(cluster))
        };
        let ping = self.store.ask(&self.clock, TIMEOUT, store.ping());
        let (store, (queue_answer, cluster_answer)) = tokio::join!(ping, peers);
        let without = queue.map(|queue| missing_servers(!cluster.is_trusted(), queue.is_away()));
        let now = self.clock.monotonic();
        let terms = cluster.terms().borrow().clone();
        let trusted = terms
            .into_iter()
            .filter(|(_, term)| term.trusted_until.is_none_or(|until| now < until));
        ReadinessReport {
            store: Some(store),
            queue: queue_answer,
            cluster: cluster_answer,
            without_servers: without,
            replica: Some(replica),
            shards: Some(trusted.map(|(ShardId(shard), _)| shard).collect()),
            ..ReadinessReport::new(if store == OK { "ready" } else { "not ready" })
        }
    }
}

/// The body of `/readyz`. The answer is 200 only if `status` is `ready`.
#[derive(Serialize)]
struct ReadinessReport {
    status: &'static str,
    #[serde(rename = "waitingFor", skip_serializing_if = "Vec::is_empty")]
    waiting_for: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'static str>,
    /// The servers that the replica works without, also while such a server has just returned.
    #[serde(rename = "withoutServers", skip_serializing_if = "Option::is_none")]
    without_servers: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replica: Option<String>,
    /// The shards whose leadership this replica still trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<Vec<u16>>,
}

impl ReadinessReport {
    fn new(status: &'static str) -> Self {
        Self {
            status,
            waiting_for: Vec::new(),
            store: None,
            queue: None,
            cluster: None,
            without_servers: None,
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
