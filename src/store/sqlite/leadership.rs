//! Leadership by the store's word. One process has one leader; what moves to a cluster has a history.

use async_trait::async_trait;

use super::{SqliteStore, failed_in};
use crate::domain::Timestamp;
use crate::domain::shard::{Epoch, ShardId};
use crate::store::leadership::KEPT;
use crate::store::{Leadership, LeadershipStore, ReplicaLease, Result};

const RENEW: &str = "
    INSERT INTO replicas (name, cut_off, alive_until) VALUES (?1, ?2, ?3)
    ON CONFLICT (name) DO UPDATE
    SET cut_off = excluded.cut_off, alive_until = excluded.alive_until";

const ALIVE: &str = "
    SELECT name, cut_off, alive_until FROM replicas WHERE alive_until >= ?1 ORDER BY name";

const LEADERS: &str = "
    WITH RECURSIVE n (shard) AS (
        SELECT 0 FROM meta WHERE name = 'shards'
        UNION ALL
        SELECT shard + 1 FROM n
        WHERE shard + 1 < (SELECT value FROM meta WHERE name = 'shards'))
    SELECT n.shard, s.epoch, s.replica
    FROM n LEFT JOIN shards AS s ON s.shard = n.shard
    ORDER BY n.shard";

/// A shard that nobody has led has no row yet, and is as if its epoch was 0.
const REPLACE: &str = "
    INSERT INTO shards (shard, epoch, replica, led_at)
    SELECT ?1, ?2 + 1, ?3, ?4
    WHERE ?2 = 0 OR EXISTS (SELECT 1 FROM shards WHERE shard = ?1)
    ON CONFLICT (shard) DO UPDATE
    SET epoch = excluded.epoch, replica = excluded.replica,
        led_at = CASE WHEN epoch = ?2 THEN excluded.led_at ELSE led_at END
    WHERE epoch = ?2 OR epoch = ?2 + 1 AND replica = ?3
    RETURNING epoch";

#[async_trait]
impl LeadershipStore for SqliteStore {
    async fn renew_replica(&self, lease: &ReplicaLease, now: Timestamp) -> Result<()> {
        let (lease, over) = (lease.clone(), now.minus(KEPT));
        self.write("renew_replica", move |connection| {
            Box::pin(async move {
                sqlx::query("DELETE FROM replicas WHERE alive_until < ?1")
                    .bind(over)
                    .execute(&mut *connection)
                    .await?;
                let query = sqlx::query(RENEW).bind(lease.name).bind(lease.is_cut_off);
                query.bind(lease.until).execute(connection).await?;
                Ok(())
            })
        })
        .await
    }

    async fn end_replica(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.write("end_replica", move |connection| {
            Box::pin(async move {
                let query = sqlx::query("DELETE FROM replicas WHERE name = ?1").bind(name);
                query.execute(connection).await?;
                Ok(())
            })
        })
        .await
    }

    async fn leadership(&self, now: Timestamp) -> Result<Leadership> {
        let failed = failed_in("leadership");
        let alive = sqlx::query_as(ALIVE).bind(now);
        let alive = self.readers.all(alive).await.map_err(&failed)?;
        let leaders = self.readers.all(sqlx::query_as(LEADERS)).await.map_err(&failed)?;
        Ok(Leadership { alive, leaders })
    }

    async fn replace_leader(
        &self,
        shard: ShardId,
        seen: Epoch,
        replica: &str,
        now: Timestamp,
    ) -> Result<Option<Epoch>> {
        let replica = replica.to_owned();
        self.write("replace_leader", move |connection| {
            Box::pin(async move {
                let query = sqlx::query_scalar(REPLACE).bind(shard).bind(seen.0);
                let query = query.bind(replica).bind(now);
                Ok(query.fetch_optional(connection).await?.map(Epoch))
            })
        })
        .await
    }
}
