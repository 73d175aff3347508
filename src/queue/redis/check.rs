//! Checks that the server's setup suits the data of the queue.

use std::collections::BTreeSet;

use redis::{InfoDict, Value};

use super::server::{LentConnection, RedisServer};
use crate::queue::Result;

/// The oldest major version that is known to work.
pub(super) const OLDEST: u32 = 6;

/// The lifetime of the key that `ping` writes.
const PING_LIFE_MS: u64 = 10_000;

/// Checks that the server takes writes. Just reading is not enough: a read-only replica answers,
/// and so does a server without memory.
pub(super) async fn ping(server: &RedisServer) -> Result<()> {
    let lent = server.connect("ping").await?;
    let mut set = redis::cmd("SET");
    set.arg(server.keys.ping()).arg(1).arg("PX").arg(PING_LIFE_MS);
    lent.query(&set).await
}

/// Logs the faults in the setup of the server, or of any node of a cluster.
pub(super) async fn check(server: &RedisServer) {
    let found = async {
        let lent = server.connect("check").await?;
        Ok::<_, crate::queue::QueueError>((
            ask(&lent, "redis_version").await?,
            ask(&lent, "maxmemory_policy").await?,
        ))
    };
    let (versions, policies) = match found.await {
        Ok(found) => found,
        Err(error) => {
            return tracing::warn!(%error, "could not check the queue server's version and maxmemory-policy");
        }
    };
    for version in versions.iter().flatten() {
        if major(version).is_some_and(|major| major < OLDEST) {
            tracing::warn!(version, "the queue server is too old: use Redis 6 or later, or Valkey");
        }
    }
    for policy in policies {
        match policy.as_deref() {
            Some("noeviction") => {}
            Some(policy) => tracing::warn!(
                policy,
                "the queue server may evict entries when its memory is used up, which makes ticks and \
                 jobs late: set its maxmemory-policy to noeviction"
            ),
            None => tracing::warn!(
                "the queue server does not report its maxmemory-policy: it must be noeviction"
            ),
        }
    }
}

/// Returns the first number of a version.
pub(super) fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

/// Returns a field of the server's `INFO`. The nodes of a cluster may differ: equal answers are
/// returned once.
pub(super) async fn ask(
    lent: &LentConnection<'_>,
    field: &str,
) -> Result<BTreeSet<Option<String>>> {
    let section = if field == "redis_version" { "server" } else { "memory" };
    let info: Value = lent.query(redis::cmd("INFO").arg(section)).await?;
    let read = |info: Value| {
        let fields: Option<InfoDict> = redis::from_redis_value(info).ok();
        fields.and_then(|fields| fields.get(field))
    };
    Ok(match info {
        Value::Map(nodes) => nodes.into_iter().map(|(_, info)| read(info)).collect(),
        info => BTreeSet::from([read(info)]),
    })
}
