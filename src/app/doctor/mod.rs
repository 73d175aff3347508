//! Whether a configuration works with its servers, asked before a start or beside a running service.
//! Nothing is changed but what is written to try rights, which is removed again.
//!
//! Every wait is bounded: a server that hangs is a finding, and keeps none of the others from being
//! found.

mod certificates;
mod mail;
mod secrets;

use crate::cluster::etcd;
use crate::config::{Config, Peers, Store};
use crate::domain::finding::Finding;
use crate::queue::redis;
use crate::runtime::Clock;
use crate::store::{postgres, sqlite};

/// What was found of the thing that a setting names.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The setting to look at.
    pub setting: &'static str,
    /// What was found.
    pub finding: Finding,
}

/// Checks everything that `config` names. Connections are counted for so many `replicas`; for those
/// that are alive, or one, if it is not said.
pub async fn diagnose(config: &Config, replicas: Option<u32>, clock: &Clock) -> Vec<Diagnosis> {
    let (secrets, (peers, alive), certificates, mail) = tokio::join!(
        secrets::check_up(config),
        of_peers(config, clock),
        certificates::check_up(config, clock),
        mail::check_up(config),
    );
    let mut all = named("secrets.keys_file", secrets);
    all.extend(of_store(config, replicas.unwrap_or(alive.max(1)), clock).await);
    all.extend(peers);
    all.extend(mail);
    all.extend(certificates);
    all
}

fn named(setting: &'static str, findings: Vec<Finding>) -> Vec<Diagnosis> {
    findings.into_iter().map(|finding| Diagnosis { setting, finding }).collect()
}

async fn of_store(config: &Config, replicas: u32, clock: &Clock) -> Vec<Diagnosis> {
    let migrate = config.migrate;
    let findings = match &config.store {
        Store::Sqlite(settings) => sqlite::check_up(settings, migrate, clock).await,
        Store::Postgres(settings) => {
            let deployment = postgres::Deployment { replicas, migrate };
            postgres::check_up(settings, deployment, clock).await
        }
    };
    named("store.url", findings)
}

/// What the others share, and how many are alive.
async fn of_peers(config: &Config, clock: &Clock) -> (Vec<Diagnosis>, u32) {
    let Peers::Cluster(shared) = &config.peers else { return (Vec::new(), 0) };
    let (queue, cluster) =
        tokio::join!(redis::check_up(&shared.queue, clock), etcd::check_up(&shared.cluster, clock));
    let alive = cluster.seen.map_or(0, |seen| seen.members.len());
    let mut all = named("queue.url", queue);
    all.extend(named("cluster.url", cluster.findings));
    (all, u32::try_from(alive).unwrap_or(u32::MAX))
}
