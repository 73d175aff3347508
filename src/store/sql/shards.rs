//! What is set up once for a whole store, and the epochs of its shards.

use super::access::{Access, Database};
use super::connection::Connection;
use super::fault::{Fault, Outcome};
use crate::domain::Timestamp;
use crate::domain::shard::{Epoch, ShardId};
use crate::store::{Result, StoreErrorKind, sql};

/// Sets up the shards of a store and returns their number.
pub(in crate::store) async fn set_up_shards<D: Database>(store: &D, wanted: u16) -> Result<u16> {
    let work = store
        .scheduler()
        .transaction("set_up_shards", move |connection| Box::pin(set_up(connection, wanted)));
    work.await
}

/// Returns the number of the installation: `proposed`, if the store has none yet.
pub(in crate::store) async fn installation<D: Database>(store: &D, proposed: u32) -> Result<u32> {
    let work = store.scheduler().transaction("installation", move |connection| {
        Box::pin(async move {
            let number = set_once(connection, "installation", proposed.into()).await?;
            let damaged = "the number of the installation is damaged";
            u32::try_from(number).map_err(|_| Fault::new(StoreErrorKind::Corrupt, damaged))
        })
    });
    work.await
}

const RAISE: &str = "
    INSERT INTO shards (shard, epoch, replica, led_at) VALUES ($1, 1, $2, $3)
    ON CONFLICT (shard) DO UPDATE
    SET epoch = shards.epoch + 1, replica = excluded.replica, led_at = excluded.led_at
    RETURNING epoch";

/// Raises the epoch of a shard, whose leader is `replica` from then on.
pub(in crate::store) async fn raise_epoch<D: Database>(
    store: &D,
    shard: ShardId,
    replica: &str,
    now: Timestamp,
) -> Result<Epoch> {
    let raise = sql::query_scalar::<i64>(RAISE).bind(shard).bind(replica.to_owned()).bind(now);
    let raised = store.scheduler().statement("raise_epoch", 1, move |connection| {
        Box::pin(raise.clone().fetch_one(connection))
    });
    raised.await.map(Epoch)
}

/// The number of shards: `wanted`, if the store has none yet.
pub(in crate::store) async fn set_up(connection: &mut Connection<'_>, wanted: u16) -> Outcome<u16> {
    let shards = set_once(connection, "shards", wanted.into()).await?;
    if shards == i64::from(wanted) {
        return Ok(wanted);
    }
    let message =
        format!("it was set up with {shards} shards, not {wanted}: set cluster.shards to {shards}");
    Err(Fault::new(StoreErrorKind::Incompatible, message))
}

/// A value of the whole store: `value`, if it has none yet.
async fn set_once(connection: &mut Connection<'_>, name: &'static str, value: i64) -> Outcome<i64> {
    sql::query("INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING")
        .bind(name)
        .bind(value)
        .execute(connection)
        .await?;
    sql::query_scalar("SELECT value FROM meta WHERE name = $1")
        .bind(name)
        .fetch_one(connection)
        .await
}
