//! Leadership by the store's word.

use std::sync::Arc;

use async_trait::async_trait;

use super::{PostgresStore, Within};
use crate::domain::Timestamp;
use crate::domain::shard::{Epoch, ShardId};
use crate::store::leadership::KEPT;
use crate::store::{Leadership, LeadershipStore, ReplicaLease, Result};

const RENEW: &str = "
    WITH over AS (DELETE FROM replicas WHERE alive_until < $4 AND name <> $1)
    INSERT INTO replicas (name, cut_off, alive_until) VALUES ($1, $2, $3)
    ON CONFLICT (name) DO UPDATE
    SET cut_off = excluded.cut_off, alive_until = excluded.alive_until";

const ALIVE: &str = "
    SELECT name, cut_off, alive_until FROM replicas WHERE alive_until >= $1 ORDER BY name";

const LEADERS: &str = "
    SELECT n.shard, s.epoch, s.replica
    FROM generate_series(
             0, (SELECT value::integer - 1 FROM meta WHERE name = 'shards')) AS n (shard)
    LEFT JOIN shards AS s ON s.shard = n.shard
    ORDER BY n.shard";

/// A shard that nobody has led has no row yet, and is as if its epoch was 0.
const REPLACE: &str = "
    INSERT INTO shards AS s (shard, epoch, replica, led_at)
    SELECT $1, $2 + 1, $3, $4
    WHERE $2 = 0 OR EXISTS (SELECT FROM shards WHERE shard = $1)
    ON CONFLICT (shard) DO UPDATE
    SET epoch = excluded.epoch, replica = excluded.replica,
        led_at = CASE WHEN s.epoch = $2 THEN excluded.led_at ELSE s.led_at END
    WHERE s.epoch = $2 OR s.epoch = $2 + 1 AND s.replica = $3
    RETURNING epoch";

#[async_trait]
impl LeadershipStore for PostgresStore {
    async fn renew_replica(&self, lease: &ReplicaLease, now: Timestamp) -> Result<()> {
        let lease: Arc<ReplicaLease> = lease.clone().into();
        let over = now.minus(KEPT);
        self.scheduler
            .run("renew_replica", Within::Statement, move |connection| {
                let lease = lease.clone();
                Box::pin(async move {
                    let query = sqlx::query(RENEW).bind(&lease.name).bind(lease.is_cut_off);
                    query.bind(lease.until).bind(over).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    async fn end_replica(&self, name: &str) -> Result<()> {
        let name: Arc<str> = name.into();
        self.scheduler
            .run("end_replica", Within::Statement, move |connection| {
                let name = name.clone();
                Box::pin(async move {
                    let query = sqlx::query("DELETE FROM replicas WHERE name = $1").bind(&*name);
                    query.execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    async fn leadership(&self, now: Timestamp) -> Result<Leadership> {
        self.scheduler
            .run("leadership", Within::Statement, move |connection| {
                Box::pin(async move {
                    // Who is alive first: a leader that comes in between is not in question.
                    let alive = sqlx::query_as(ALIVE).bind(now).fetch_all(&mut *connection).await?;
                    let leaders = sqlx::query_as(LEADERS).fetch_all(connection).await?;
                    Ok(Leadership { alive, leaders })
                })
            })
            .await
    }

    async fn replace_leader(
        &self,
        shard: ShardId,
        seen: Epoch,
        replica: &str,
        now: Timestamp,
    ) -> Result<Option<Epoch>> {
        let replica: Arc<str> = replica.into();
        self.scheduler
            .run("replace_leader", Within::Statement, move |connection| {
                let replica = replica.clone();
                Box::pin(async move {
                    let query = sqlx::query_scalar(REPLACE).bind(shard).bind(seen.0);
                    let query = query.bind(&*replica).bind(now);
                    Ok(query.fetch_optional(connection).await?.map(Epoch))
                })
            })
            .await
    }
}
