//! Leadership: which replicas are alive, and who leads which shard, by the store's word alone.
//!
//! The cluster decides who should lead; the epoch decides who can. While the cluster is away, nobody
//! says that a leader has died. So each replica that leads renews a lease here, and who finds a shard
//! whose leader has none replaces that leader. The epoch is compared and set in one statement: of two
//! that find the same shard, one leads it.

use std::time::Duration;

use sqlx::FromRow;

use super::Result;
use super::rows::StoreRow;
use crate::domain::Timestamp;
use crate::domain::shard::{Epoch, ShardId};
use crate::runtime::measured;

/// How long after its end a lease is removed: until then it tells who looks that a replica has died.
pub(in crate::store) const KEPT: Duration = Duration::from_hours(1);

/// A replica's word that it is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaLease {
    /// The replica's name, which no other process has or had.
    pub name: String,
    /// Whether the cluster does not answer it.
    pub is_cut_off: bool,
    /// When the lease ends unless it is renewed.
    pub until: Timestamp,
}

/// Who leads a shard, as its epoch says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardLeader {
    /// The shard.
    pub shard: ShardId,
    /// Its epoch; 0 if nobody has led it yet.
    pub epoch: Epoch,
    /// Who has raised it; empty if nobody has.
    pub replica: String,
}

/// Who is alive and who leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The leases that have not ended, by name.
    pub alive: Vec<ReplicaLease>,
    /// The leaders of all shards, in order.
    pub leaders: Vec<ShardLeader>,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Leadership by the store's word.
    pub trait LeadershipStore: Send + Sync {
        /// Makes a replica's lease, or renews it. Leases that have ended for long are removed.
        async fn renew_replica(&self, lease: &ReplicaLease, now: Timestamp) -> Result<()>;

        /// Ends a replica's lease, if it has one.
        async fn end_replica(&self, name: &str) -> Result<()>;

        /// The leases that have not ended by `now`, and the leader of each shard.
        async fn leadership(&self, now: Timestamp) -> Result<Leadership>;

        /// Raises the shard's epoch if it is `seen` still: by one, as
        /// [`raise_epoch`](super::FiringStore::raise_epoch) does, and `replica` leads it then. The
        /// same call made again answers the same, as long as nobody else has raised it. `None`:
        /// another replica was faster.
        async fn replace_leader(
            &self,
            shard: ShardId,
            seen: Epoch,
            replica: &str,
            now: Timestamp,
        ) -> Result<Option<Epoch>>;
    }
}

impl<R: StoreRow> FromRow<'_, R> for ReplicaLease {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        Ok(Self {
            name: row.read("name")?,
            is_cut_off: row.read("cut_off")?,
            until: row.read("alive_until")?,
        })
    }
}

impl<R: StoreRow> FromRow<'_, R> for ShardLeader {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        let (epoch, replica): (Option<i64>, Option<String>) =
            (row.read("epoch")?, row.read("replica")?);
        Ok(Self {
            shard: row.read("shard")?,
            epoch: Epoch(epoch.unwrap_or(0)),
            replica: replica.unwrap_or_default(),
        })
    }
}
