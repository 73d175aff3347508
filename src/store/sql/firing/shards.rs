//! Values of a whole store, which are set once: the number of its shards and of its installation.

use crate::store::sql::connection::Connection;
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::{StoreErrorKind, sql};

/// Returns the number of the installation: `proposed`, if the store has none yet.
pub(in crate::store::sql) async fn installation(
    connection: &mut Connection<'_>,
    proposed: u32,
) -> SqlResult<u32> {
    let number = set_once(connection, "installation", proposed.into()).await?;
    let damaged = "the number of the installation is damaged";
    u32::try_from(number).map_err(|_| SqlError::new(StoreErrorKind::Corrupt, damaged))
}

/// Returns the number of shards: `wanted`, if the store has none yet.
pub(in crate::store) async fn set_up(
    connection: &mut Connection<'_>,
    wanted: u16,
) -> SqlResult<u16> {
    let shards = set_once(connection, "shards", wanted.into()).await?;
    if shards == i64::from(wanted) {
        return Ok(wanted);
    }
    let message =
        format!("it was set up with {shards} shards, not {wanted}: set cluster.shards to {shards}");
    Err(SqlError::new(StoreErrorKind::Incompatible, message))
}

/// Returns a value of the whole store: `value`, if it has none yet.
async fn set_once(
    connection: &mut Connection<'_>,
    name: &'static str,
    value: i64,
) -> SqlResult<i64> {
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
