//! Connections to the server, every wait of which is bounded.

use std::future::Future;
use std::time::Duration;

use deadpool_redis::cluster;
use deadpool_redis::{Manager, PoolError, Runtime};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisError, RedisFuture, RedisResult, Value};

use super::Settings;
use super::failure::Failure;
use crate::queue::{QueueError, Result};

/// How long getting a connection may take, and then a request.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// Connections of a replica; each carries many requests at once.
const CONNECTIONS: usize = 8;

/// One server or a cluster.
pub(super) enum Server {
    Single(deadpool_redis::Pool),
    Cluster(cluster::Pool),
}

impl Server {
    /// Connects when it is first asked.
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        let failed = |error: RedisError| failed("connect", error);
        let no_pool = |error| QueueError::new("connect", error);
        if settings.cluster {
            let manager = cluster::Manager::new(settings.nodes.clone(), false).map_err(failed)?;
            let pool = cluster::Pool::builder(manager).max_size(CONNECTIONS);
            return Ok(Self::Cluster(pool.runtime(Runtime::Tokio1).build().map_err(no_pool)?));
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let node = settings.nodes.first().expect("an address has a host").clone();
        let manager = Manager::new_with_config(node, config).map_err(failed)?;
        let pool = deadpool_redis::Pool::builder(manager).max_size(CONNECTIONS);
        Ok(Self::Single(pool.runtime(Runtime::Tokio1).build().map_err(no_pool)?))
    }

    /// A connection that has just answered, for `operation`. It goes back when it is dropped.
    pub(super) async fn connect(&self, operation: &'static str) -> Result<Lent> {
        let lent = async {
            match self {
                Self::Single(pool) => pool.get().await.map(|connection| Lent {
                    link: Link::Single(connection.as_ref().clone()),
                    _place: Place::Single(connection),
                }),
                Self::Cluster(pool) => pool.get().await.map(|connection| Lent {
                    link: Link::Cluster(connection.as_ref().clone()),
                    _place: Place::Cluster(connection),
                }),
            }
        };
        match tokio::time::timeout(PATIENCE, lent).await {
            Ok(Ok(lent)) => Ok(lent),
            Ok(Err(PoolError::Backend(error))) => Err(failed(operation, error)),
            Ok(Err(other)) => Err(QueueError::new(operation, other)),
            Err(_) => Err(QueueError::new(operation, Failure::Silent)),
        }
    }
}

/// A connection that is lent.
pub(super) struct Lent {
    link: Link,
    _place: Place,
}

#[expect(dead_code, reason = "held for their drop")]
enum Place {
    Single(deadpool_redis::Connection),
    Cluster(cluster::Connection),
}

impl Lent {
    /// The connection, for one of several requests at once: they are sent in the order in which
    /// they are first polled, without waiting for each other's answers.
    pub(super) fn link(&self) -> Link {
        self.link.clone()
    }

    /// The keys of how many shards a script may name: those of a cluster are on several servers.
    /// Bounded, since the server does nothing else meanwhile.
    pub(super) fn shards_at_once(&self) -> usize {
        match self.link {
            Link::Single(_) => 256,
            Link::Cluster(_) => 1,
        }
    }
}

/// What commands, pipelines and scripts are run on.
#[derive(Clone)]
pub(super) enum Link {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl ConnectionLike for Link {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Single(link) => link.req_packed_command(command),
            Self::Cluster(link) => link.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Single(link) => link.req_packed_commands(commands, offset, count),
            Self::Cluster(link) => link.req_packed_commands(commands, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Single(link) => link.get_db(),
            Self::Cluster(link) => link.get_db(),
        }
    }
}

/// The answer to a request of `operation`, waited for as long as is bearable. Whether a request
/// without an answer had an effect is unknown.
pub(super) async fn answer<T>(
    operation: &'static str,
    request: impl Future<Output = RedisResult<T>>,
) -> Result<T> {
    match tokio::time::timeout(PATIENCE, request).await {
        Ok(answer) => answer.map_err(|error| failed(operation, error)),
        Err(_) => Err(QueueError::new(operation, Failure::Silent)),
    }
}

fn failed(operation: &'static str, error: RedisError) -> QueueError {
    QueueError::new(operation, Failure::from(error))
}
