//! The report on an installation, made of the answers of its servers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ServersOverview, StoreState};
use crate::cluster::LiveReplica;
use crate::domain::Timestamp;
use crate::store::{ReplicaLease, ShardRecord};

/// The servers, replicas and shards of an installation.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallationReport {
    /// The servers that the installation depends on.
    pub servers: Vec<ServerStatus>,
    /// The id of the installation whose store the members share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installation: Option<String>,
    /// The live replicas, by name.
    pub members: Vec<ReplicaStatus>,
    /// The shards, in order.
    pub shards: Vec<ShardStatus>,
    /// The jobs and alerts that wait; absent if the store did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingWork>,
}

/// A server that the installation depends on.
#[derive(Clone, Debug, Serialize)]
pub struct ServerStatus {
    /// The setting that contains its address.
    pub setting: &'static str,
    /// `ok` or `away`. The texts for people say "unreachable" instead of `away`.
    pub status: &'static str,
    /// The reason why it did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The jobs and alerts that could start or be sent now.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingWork {
    /// The number of jobs, counted up to [`super::JOBS_COUNTED`].
    pub jobs: u64,
    /// The time that the oldest of them has waited, in milliseconds.
    pub oldest_job_ms: u64,
    /// The number of deliveries of alerts, counted up to a maximum.
    pub alerts: u64,
    /// The time that the oldest of them has waited, in milliseconds.
    pub oldest_alert_ms: u64,
}

/// A live replica. Its version and roles are absent if the cluster does not list it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaStatus {
    /// The name that the replica chose.
    pub name: String,
    /// The version of its binary.
    pub version: Option<String>,
    /// `true` if the replica takes part in leading shards.
    pub leads: Option<bool>,
    /// `true` if the replica executes jobs.
    pub executes: Option<bool>,
    /// The shards that it leads; according to the store if the cluster does not list the replica.
    pub shards: Vec<u16>,
    /// The servers that the replica works without, with their names in `/readyz`. Absent if the
    /// store has no lease of the replica.
    pub without_servers: Option<Vec<&'static str>>,
}

impl ReplicaStatus {
    /// Returns the servers that the replica works without, in words.
    pub fn mode(&self) -> &'static str {
        match self.without_servers.as_deref() {
            None => "-",
            Some([]) => "normal",
            Some(["cluster"]) => "without etcd",
            Some(["queue"]) => "without Redis",
            Some(_) => "without etcd and Redis",
        }
    }
}

/// A shard: its leader, and how late its work is.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardStatus {
    /// The number of the shard.
    pub shard: u16,
    /// The replica that holds the shard according to the cluster. If no replica does, or the
    /// cluster cannot be reached, this is the last leader according to the store.
    pub leader: Option<String>,
    /// `true` if, according to the cluster, the leader is alive and holds the shard.
    pub held: bool,
    /// The epoch of the last leader according to the store.
    pub epoch: Option<i64>,
    /// The time at which it took the shard over.
    pub led_since: Option<Timestamp>,
    /// The lateness of the oldest due tick that has not fired, in milliseconds.
    pub tick_lag_ms: u64,
    /// The time that the oldest startable job has waited, in milliseconds.
    pub job_lag_ms: u64,
}

fn server<T>(setting: &'static str, told: &Result<T, String>) -> ServerStatus {
    let error = told.as_ref().err().cloned();
    ServerStatus { setting, status: if error.is_some() { "away" } else { "ok" }, error }
}

impl InstallationReport {
    /// Makes the report. Answers that are missing leave gaps.
    pub fn new(overview: ServersOverview) -> Self {
        let ServersOverview { now, store, queue, cluster } = overview;
        let mut servers = vec![server("store.url", &store)];
        servers.extend(queue.iter().map(|told| server("queue.url", told)));
        servers.extend(cluster.iter().map(|told| server("cluster.url", told)));
        let seen = cluster.and_then(Result::ok);
        let installation = seen.as_ref().and_then(|seen| seen.installation.clone());
        let members = seen.map(|seen| seen.members);
        let waiting = store.as_ref().ok().map(|state| waiting(now, state));
        let state = store.unwrap_or_default();
        let shards = shards(now, &state.shards, members.as_deref().unwrap_or_default());
        let members = replicas(members, state.alive, &shards);
        Self { servers, installation, members, shards, waiting }
    }
}

/// Returns the time since an instant, in milliseconds; 0 for none.
fn ms_since(now: Timestamp, since: Option<Timestamp>) -> u64 {
    since.map_or(0, |since| u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX))
}

fn waiting(now: Timestamp, state: &StoreState) -> WaitingWork {
    WaitingWork {
        jobs: state.jobs.jobs,
        oldest_job_ms: ms_since(now, state.jobs.since),
        alerts: state.alerts.waiting,
        oldest_alert_ms: ms_since(now, state.alerts.oldest),
    }
}

fn replica(member: LiveReplica) -> ReplicaStatus {
    let LiveReplica { name, version, leads, executes, shards } = member;
    ReplicaStatus {
        name,
        version: Some(version),
        leads: Some(leads),
        executes: Some(executes),
        shards: shards.into_iter().map(|shard| shard.0).collect(),
        without_servers: None,
    }
}

/// Returns the members of the cluster, and the replicas that live without it. `members` is absent
/// if the cluster did not answer.
fn replicas(
    members: Option<Vec<LiveReplica>>,
    leases: Vec<ReplicaLease>,
    shards: &[ShardStatus],
) -> Vec<ReplicaStatus> {
    let is_answered = members.is_some();
    let members = members.into_iter().flatten().map(replica);
    let mut all: BTreeMap<_, _> = members.map(|one| (one.name.clone(), one)).collect();
    for lease in leases {
        let ReplicaLease { name, is_cut_off, without_cluster, without_queue, .. } = lease;
        // Replicas of releases before migration 15 write `cut_off` alone.
        let without_cluster = without_cluster || is_cut_off;
        // Otherwise the replica has just died: etcd would list it.
        if is_answered && !without_cluster && !all.contains_key(&name) {
            continue;
        }
        let unlisted = || {
            let own = shards.iter().filter(|shard| shard.leader.as_ref() == Some(&name));
            let shards = own.map(|shard| shard.shard).collect();
            ReplicaStatus { name: name.clone(), shards, ..ReplicaStatus::default() }
        };
        let replica = all.entry(name.clone()).or_insert_with(unlisted);
        replica.without_servers = Some(missing_servers(without_cluster, without_queue));
    }
    all.into_values().collect()
}

/// Returns the names of the servers that a replica works without.
pub fn missing_servers(without_cluster: bool, without_queue: bool) -> Vec<&'static str> {
    let servers = [("cluster", without_cluster), ("queue", without_queue)];
    servers.into_iter().filter_map(|(server, is_away)| is_away.then_some(server)).collect()
}

/// Returns all shards that the store or the members know.
fn shards(now: Timestamp, records: &[ShardRecord], members: &[LiveReplica]) -> Vec<ShardStatus> {
    let mut all = BTreeMap::new();
    for record in records {
        let leader = record.leader.as_ref();
        let shard = ShardStatus {
            shard: record.shard.0,
            leader: leader.map(|leader| leader.replica.clone()),
            held: false,
            epoch: leader.map(|leader| leader.epoch.0),
            led_since: leader.map(|leader| leader.at),
            tick_lag_ms: ms_since(now, record.due_since),
            job_lag_ms: ms_since(now, record.waiting_since),
        };
        all.insert(record.shard.0, shard);
    }
    let held = members.iter().flat_map(|member| member.shards.iter().map(move |id| (member, id)));
    for (member, id) in held {
        let shard = all.entry(id.0).or_insert_with(|| ShardStatus {
            shard: id.0,
            leader: None,
            held: true,
            epoch: None,
            led_since: None,
            tick_lag_ms: 0,
            job_lag_ms: 0,
        });
        (shard.leader, shard.held) = (Some(member.name.clone()), true);
    }
    all.into_values().collect()
}
