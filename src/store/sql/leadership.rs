//! Leadership by rows of the store: the leases of replicas, and the replacement of leaders while
//! etcd is unreachable.

use async_trait::async_trait;
use sqlx::FromRow;

use crate::domain::Timestamp;
use crate::domain::shard::{Epoch, ShardId};
use crate::store::contract::leadership::KEPT;
use crate::store::sql::connection::access::{Access, Database, call};
use crate::store::sql::connection::query::execute_all;
use crate::store::sql::encoding::rows::{StoreRow, read_rows};
use crate::store::sql::firing::shards;
use crate::store::{Leadership, LeadershipStore, ReplicaLease, Result, ShardLeader, sql};

const RAISE: &str = "
    INSERT INTO shards (shard, epoch, replica, led_at) VALUES ($1, 1, $2, $3)
    ON CONFLICT (shard) DO UPDATE
    SET epoch = shards.epoch + 1, replica = excluded.replica, led_at = excluded.led_at
    RETURNING epoch";

const RENEW: &str = "
    INSERT INTO replicas (name, cut_off, without_cluster, without_queue, alive_until)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (name) DO UPDATE
    SET cut_off = excluded.cut_off, without_cluster = excluded.without_cluster,
        without_queue = excluded.without_queue, alive_until = excluded.alive_until";

const ALIVE: &str = "
    SELECT name, cut_off, without_cluster, without_queue, alive_until
    FROM replicas WHERE alive_until >= $1 ORDER BY name";

/// A common table expression `n` with the numbers of all shards.
macro_rules! all_shards {
    () => {
        "WITH RECURSIVE n (shard) AS (
             SELECT 0 FROM meta WHERE name = 'shards'
             UNION ALL
             SELECT shard + 1 FROM n
             WHERE shard + 1 < (SELECT value FROM meta WHERE name = 'shards')) "
    };
}
pub(in crate::store::sql) use all_shards;

const LEADERS: &str = concat!(
    all_shards!(),
    "SELECT n.shard, s.epoch, s.replica
     FROM n LEFT JOIN shards AS s ON s.shard = n.shard
     ORDER BY n.shard"
);

/// A shard that never had a leader has no row, and counts as one with epoch 0.
const REPLACE: &str = "
    INSERT INTO shards (shard, epoch, replica, led_at)
    SELECT $1, $2 + 1, $3, $4
    WHERE $2 = 0 OR EXISTS (SELECT 1 FROM shards WHERE shard = $1)
    ON CONFLICT (shard) DO UPDATE
    SET epoch = excluded.epoch, replica = excluded.replica,
        led_at = CASE WHEN shards.epoch = $2 THEN excluded.led_at ELSE shards.led_at END
    WHERE shards.epoch = $2 OR shards.epoch = $2 + 1 AND shards.replica = $3
    RETURNING epoch";

read_rows! {
    ReplicaLease {
        name, is_cut_off: "cut_off", without_cluster, without_queue, until: "alive_until",
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

#[async_trait]
impl<D: Database> LeadershipStore for D {
    async fn set_up_shards(&self, wanted: u16) -> Result<u16> {
        self.scheduler().transaction("set_up_shards", call(shards::set_up, (wanted,))).await
    }

    async fn installation(&self, proposed: u32) -> Result<u32> {
        self.scheduler().transaction("installation", call(shards::installation, (proposed,))).await
    }

    async fn raise_epoch(&self, shard: ShardId, replica: &str, now: Timestamp) -> Result<Epoch> {
        let raise = sql::query_scalar::<i64>(RAISE).bind(shard).bind(replica.to_owned()).bind(now);
        let raised = self.scheduler().statement("raise_epoch", 1, move |connection| {
            Box::pin(raise.clone().fetch_one(connection))
        });
        raised.await.map(Epoch)
    }

    async fn renew_replica(&self, lease: &ReplicaLease, now: Timestamp) -> Result<()> {
        let end = sql::query("DELETE FROM replicas WHERE alive_until < $1").bind(now.minus(KEPT));
        let renew = sql::query(RENEW).bind(lease.name.clone()).bind(lease.is_cut_off);
        let renew = renew.bind(lease.without_cluster).bind(lease.without_queue).bind(lease.until);
        self.scheduler().transaction("renew_replica", call(execute_all, ([end, renew],))).await
    }

    async fn end_replica(&self, name: &str) -> Result<()> {
        let end = sql::query("DELETE FROM replicas WHERE name = $1").bind(name.to_owned());
        self.scheduler().execute("end_replica", 1, end).await?;
        Ok(())
    }

    async fn leadership(&self, now: Timestamp) -> Result<Leadership> {
        // The leaders first: the epoch of a replica that begins to lead in between is too new to be
        // replaced. In the other order, the replica would lead without being alive.
        let leaders = self.scheduler().all("leadership", sql::query_as(LEADERS)).await?;
        let alive = sql::query_as(ALIVE).bind(now);
        let alive = self.scheduler().all("leadership", alive).await?;
        Ok(Leadership { alive, leaders })
    }

    async fn replace_leader(
        &self,
        shard: ShardId,
        seen: Epoch,
        replica: &str,
        now: Timestamp,
    ) -> Result<Option<Epoch>> {
        let replace = sql::query_scalar(REPLACE).bind(shard).bind(seen.0);
        let replace = replace.bind(replica.to_owned()).bind(now);
        let replaced = self.scheduler().statement("replace_leader", 1, move |connection| {
            Box::pin(replace.clone().fetch_optional(connection))
        });
        Ok(replaced.await?.map(Epoch))
    }
}
