//! Checks that a configuration works with its servers, before a start or beside a running service.
//!
//! The checks change nothing, except that they write data to test permissions and remove it again.
//! Every wait has a timeout: a server that hangs is reported as a finding, and does not prevent the
//! other checks.

mod certificates;
mod mail;
mod oidc;
mod secrets;

use crate::cluster::etcd;
use crate::config::{ClusterMode, Config, StoreChoice};
use crate::domain::finding::Finding;
use crate::queue::redis;
use crate::runtime::Clock;
use crate::store::{postgres, sqlite};

/// A finding, with the setting that it concerns.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The setting to check.
    pub setting: &'static str,
    /// The finding.
    pub finding: Finding,
}

/// Checks all servers, files and keys of `config`. The number of database connections is checked
/// for this number of `replicas`; by default for the replicas that are alive, but at least one.
pub async fn diagnose(config: &Config, replicas: Option<u32>, clock: &Clock) -> Vec<Diagnosis> {
    let (secrets, (servers, alive), certificates, mail, oidc) = tokio::join!(
        secrets::check_up(config),
        of_queue_and_cluster(config, clock),
        certificates::check_up(config, clock),
        mail::check_up(config),
        oidc::check_up(config, clock),
    );
    let mut all = named("secrets.keys_file", secrets);
    all.extend(of_store(config, replicas.unwrap_or(alive.max(1)), clock).await);
    all.extend(servers);
    all.extend(mail);
    all.extend(oidc);
    all.extend(certificates);
    all
}

fn named(setting: &'static str, findings: Vec<Finding>) -> Vec<Diagnosis> {
    findings.into_iter().map(|finding| Diagnosis { setting, finding }).collect()
}

async fn of_store(config: &Config, replicas: u32, clock: &Clock) -> Vec<Diagnosis> {
    let migrate = config.migrate;
    let findings = match &config.store {
        StoreChoice::Sqlite(settings) => sqlite::check_up(settings, migrate, clock).await,
        StoreChoice::Postgres(settings) => {
            let deployment = postgres::Deployment { replicas, migrate };
            postgres::check_up(settings, deployment, clock).await
        }
    };
    named("store.url", findings)
}

/// Checks the queue and the cluster, and returns the number of replicas that are alive.
async fn of_queue_and_cluster(config: &Config, clock: &Clock) -> (Vec<Diagnosis>, u32) {
    let ClusterMode::Cluster(shared) = &config.cluster_mode else { return (Vec::new(), 0) };
    let (queue, cluster) =
        tokio::join!(redis::check_up(&shared.queue, clock), etcd::check_up(&shared.cluster, clock));
    let alive = cluster.seen.map_or(0, |seen| seen.members.len());
    let mut all = named("queue.url", queue);
    all.extend(named("cluster.url", cluster.findings));
    (all, u32::try_from(alive).unwrap_or(u32::MAX))
}
