//! `/readyz`: whether this replica should be sent requests.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::cluster::SharedCluster;
use crate::domain::shard::ShardId;
use crate::runtime::Clock;
use crate::store::UpkeepStore;

/// For how long an answer of the store is believed.
const BELIEVED: Duration = Duration::from_secs(1);
/// How long the store may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where the replica is in its life, as the composition tells it.
pub struct Readiness {
    clock: Clock,
    phase: Mutex<Phase>,
    /// When the store was last asked, and whether it answered. Locked while it is being asked, so
    /// that many who ask cost one question.
    store: tokio::sync::Mutex<Option<(Duration, bool)>>,
}

#[derive(Clone)]
enum Phase {
    /// Waiting for these servers.
    Starting(Vec<&'static str>),
    Serving(Serving),
    Draining,
}

/// What a replica that serves is asked for.
#[derive(Clone)]
pub struct Serving {
    /// Where everything is kept.
    pub store: Arc<dyn UpkeepStore>,
    /// Which shards it leads.
    pub cluster: SharedCluster,
    /// What the others call it.
    pub replica: String,
}

impl Readiness {
    /// A replica that has not found its stores yet.
    pub fn starting(clock: Clock) -> Arc<Self> {
        let (phase, store) =
            (Mutex::new(Phase::Starting(Vec::new())), tokio::sync::Mutex::default());
        Arc::new(Self { clock, phase, store })
    }

    /// It still waits for these servers.
    pub fn waiting_for(&self, servers: Vec<&'static str>) {
        self.enter(Phase::Starting(servers));
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
            Phase::Starting(waiting_for) => Report { waiting_for, ..Report::new("starting") },
            Phase::Draining => Report::new("draining"),
            Phase::Serving(Serving { store, cluster, replica }) => {
                let (status, store) = match self.answers(&*store).await {
                    true => ("ready", "ok"),
                    false => ("not ready", "unavailable"),
                };
                let now = self.clock.monotonic();
                let terms = cluster.terms().borrow().clone();
                let trusted = terms
                    .into_iter()
                    .filter(|(_, term)| term.trusted_until.is_none_or(|until| now < until));
                Report {
                    store: Some(store),
                    replica: Some(replica),
                    shards: Some(trusted.map(|(ShardId(shard), _)| shard).collect()),
                    ..Report::new(status)
                }
            }
        }
    }

    async fn answers(&self, store: &dyn UpkeepStore) -> bool {
        let mut known = self.store.lock().await;
        let now = self.clock.monotonic();
        if let Some((asked, answered)) = *known
            && now.saturating_sub(asked) < BELIEVED
        {
            return answered;
        }
        let answered = tokio::select! {
            pong = store.ping() => pong.is_ok(),
            () = self.clock.sleep(PATIENCE) => false,
        };
        *known = Some((now, answered));
        answered
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
    replica: Option<String>,
    /// The shards that it leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<Vec<u16>>,
}

impl Report {
    fn new(status: &'static str) -> Self {
        Self { status, waiting_for: Vec::new(), store: None, replica: None, shards: None }
    }
}

pub(super) async fn readyz(State(readiness): State<Arc<Readiness>>) -> Response {
    let report = readiness.report().await;
    let ready = report.status == "ready";
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(report)).into_response()
}
