//! Queries on the installation: its servers, replicas and shards, and its waiting work. They read
//! no data of an account.
//!
//! Place in the flow: the command `punctual cluster` asks the servers itself and makes a report of
//! the answers. The dashboard asks an `Inspector`, which uses the connections of its replica.
//!
//! On failure: a server that does not answer leaves gaps in the report, which names it.

mod inspector;
mod report;

pub use inspector::{Inspector, PeerServers};
pub use report::{
    InstallationReport, ReplicaStatus, ServerStatus, ShardStatus, WaitingWork, missing_servers,
};

use crate::cluster::ClusterState;
use crate::domain::Timestamp;
use crate::store::{self, AlertWork, ReplicaLease, ShardRecord, SharedStore, WaitingJobs};

/// The maximum number of waiting jobs that are counted.
pub const JOBS_COUNTED: u32 = 10_000;

/// The reason why a server did not answer, as a sentence.
pub type AwayReason = String;

/// The answer of the store.
#[derive(Clone, Debug, Default)]
pub struct StoreState {
    /// The state of the shards.
    pub shards: Vec<ShardRecord>,
    /// The leases of the live replicas.
    pub alive: Vec<ReplicaLease>,
    /// The jobs that wait to be started.
    pub jobs: WaitingJobs,
    /// The alerts that wait to be sent.
    pub alerts: AlertWork,
}

impl StoreState {
    /// Reads the state at `now`. This scans all schedules, so no background loop may call it.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn read(store: &SharedStore, now: Timestamp) -> store::Result<Self> {
        Ok(Self {
            shards: store.shard_records(now).await?,
            alive: store.leadership(now).await?.alive,
            jobs: store.waiting(now, JOBS_COUNTED).await?,
            alerts: store.alert_work(now).await?,
        })
    }
}

/// The answers of the servers.
#[derive(Debug)]
pub struct ServersOverview {
    /// The time of the overview: the store's time, or the local time if the store does not answer.
    pub now: Timestamp,
    /// The state of the shards and of the replicas in the store.
    pub store: Result<StoreState, AwayReason>,
    /// `Ok` if the queue accepts writes; absent without a cluster.
    pub queue: Option<Result<(), AwayReason>>,
    /// The live replicas and the leaders of the shards; absent without a cluster.
    pub cluster: Option<Result<ClusterState, AwayReason>>,
}
