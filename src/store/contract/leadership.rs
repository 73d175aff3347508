//! Leadership according to the store: the live replicas, and the leader of each shard.
//!
//! The cluster assigns leaders, and the epoch decides whose writes succeed. While the cluster is
//! unreachable, it cannot report that a leader has died. So each replica renews a lease in the
//! store, and a replica that finds a shard whose leader has no lease replaces that leader. The
//! epoch is compared and set in one statement: if two replicas find the same shard, only one of
//! them leads it.

use std::time::Duration;

use crate::domain::Timestamp;
use crate::domain::shard::{Epoch, ShardId};
use crate::runtime::measured;
use crate::store::Result;

/// The time for which a lease is kept after its end. Until it is removed, it shows that the replica
/// has died.
pub(in crate::store) const KEPT: Duration = Duration::from_hours(1);

/// The lease by which a replica shows that it is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaLease {
    /// The replica's name. No other process has or had the same.
    pub name: String,
    /// `true` if the replica takes over the shards of leaders that have died, because the cluster
    /// has not answered it for some time.
    pub is_cut_off: bool,
    /// `true` if the replica works without the cluster.
    pub without_cluster: bool,
    /// `true` if the replica works without the queue.
    pub without_queue: bool,
    /// The end of the lease unless it is renewed.
    pub until: Timestamp,
}

/// The leader of a shard according to its epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardLeader {
    /// The shard.
    pub shard: ShardId,
    /// Its epoch. It is 0 if no replica has led the shard yet.
    pub epoch: Epoch,
    /// The replica that raised the epoch. It is empty if none has.
    pub replica: String,
}

/// The live replicas and the leaders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The leases that have not ended, by name.
    pub alive: Vec<ReplicaLease>,
    /// The leaders of all shards, in the order of the shards.
    pub leaders: Vec<ShardLeader>,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Leadership according to the store.
    pub trait LeadershipStore: Send + Sync {
        /// Returns the number of shards, which the first call fixes to `wanted`. If the store was
        /// set up with another number, it returns an error of kind `Incompatible` that contains
        /// both.
        async fn set_up_shards(&self, wanted: u16) -> Result<u16>;

        /// Returns the number that distinguishes this store from all others. A store without a
        /// number adopts `proposed`.
        async fn installation(&self, proposed: u32) -> Result<u32>;

        /// Raises the shard's epoch and returns it. From then on, writes with a lower one change
        /// nothing.
        async fn raise_epoch(&self, shard: ShardId, replica: &str, now: Timestamp) -> Result<Epoch>;

        /// Creates or renews the lease of a replica. Removes leases that ended long ago.
        async fn renew_replica(&self, lease: &ReplicaLease, now: Timestamp) -> Result<()>;

        /// Ends the lease of a replica, if it has one.
        async fn end_replica(&self, name: &str) -> Result<()>;

        /// Returns the leases that have not ended by `now`, and the leader of each shard.
        async fn leadership(&self, now: Timestamp) -> Result<Leadership>;

        /// Raises the shard's epoch by one if it is still `seen`, as
        /// [`raise_epoch`](Self::raise_epoch) does. Then `replica` leads the shard. A
        /// repeated call returns the same epoch, unless another replica has raised it since.
        /// Returns `None` if another replica was faster.
        async fn replace_leader(
            &self,
            shard: ShardId,
            seen: Epoch,
            replica: &str,
            now: Timestamp,
        ) -> Result<Option<Epoch>>;
    }
}
