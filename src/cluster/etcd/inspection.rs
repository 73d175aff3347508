//! Reads the state of the cluster without joining it.

use etcd_client::GetOptions;

use super::connection::{GET, answer, connect};
use super::failure::Failure;
use super::membership::{Keys, Membership};
use super::settings::ServerSettings;
use crate::cluster::{ClusterError, Member};
use crate::runtime::Clock;

/// The state of the cluster.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The id of the store that the members share; absent before the first replica has joined.
    pub installation: Option<String>,
    /// The live replicas.
    pub members: Vec<Member>,
}

/// Reads the state of the cluster from the first server that answers.
///
/// # Errors
/// If no server answers: the error of the last one.
pub async fn look(settings: &ServerSettings, clock: &Clock) -> Result<Seen, ClusterError> {
    let mut failed = Failure::Ended;
    for turn in 0..settings.endpoints.len() {
        match look_from(settings, turn, clock).await {
            Ok(seen) => return Ok(seen),
            Err(failure) => failed = failure,
        }
    }
    Err(ClusterError { operation: "look", source: failed.into() })
}

async fn look_from(settings: &ServerSettings, turn: usize, clock: &Clock) -> Result<Seen, Failure> {
    let keys = Keys::new(&settings.prefix);
    let mut client = connect(clock, settings, turn).await?;
    let listed = client.get(keys.all(), Some(GetOptions::new().with_prefix()));
    let listed = answer(clock, GET, listed).await?;
    let installation = keys.installation();
    let told = listed.kvs().iter().find(|entry| entry.key() == installation.as_bytes());
    let installation = told.map(|told| String::from_utf8_lossy(told.value()).into_owned());
    Ok(Seen { installation, members: Membership::of(&keys, listed.kvs()).all_members() })
}
