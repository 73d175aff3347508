//! Reads the state of the cluster without joining it.

use etcd_client::GetOptions;

use super::connection::{GET, answer, connect};
use super::failure::EtcdFailure;
use super::membership::{ClusterView, EtcdKeys};
use super::settings::ServerSettings;
use crate::cluster::{ClusterError, ClusterState};
use crate::runtime::Clock;

/// Reads the state of the cluster from the first server that answers.
///
/// # Errors
/// If no server answers: the error of the last one.
pub async fn inspect(
    settings: &ServerSettings,
    clock: &Clock,
) -> Result<ClusterState, ClusterError> {
    let mut failed = EtcdFailure::Ended;
    for turn in 0..settings.endpoints.len() {
        match inspect_from(settings, turn, clock).await {
            Ok(seen) => return Ok(seen),
            Err(failure) => failed = failure,
        }
    }
    Err(ClusterError { operation: "inspect", source: failed.into() })
}

async fn inspect_from(
    settings: &ServerSettings,
    turn: usize,
    clock: &Clock,
) -> Result<ClusterState, EtcdFailure> {
    let keys = EtcdKeys::new(&settings.prefix);
    let mut client = connect(clock, settings, turn).await?;
    let listed = client.get(keys.all(), Some(GetOptions::new().with_prefix()));
    let listed = answer(clock, GET, listed).await?;
    let installation = keys.installation();
    let told = listed.kvs().iter().find(|entry| entry.key() == installation.as_bytes());
    let installation = told.map(|told| String::from_utf8_lossy(told.value()).into_owned());
    Ok(ClusterState { installation, members: ClusterView::of(&keys, listed.kvs()).all_members() })
}
