//! Connections to the server. Every wait is bounded.

use std::future::Future;
use std::time::Duration;

use deadpool::managed;
use deadpool_redis::{Manager, PoolError, Runtime};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::{
    AsyncConnectionConfig, Cmd, FromRedisValue, Pipeline, RedisError, RedisFuture, RedisResult,
    ScriptInvocation, Value,
};

use super::RedisSettings;
use super::failure::RedisFailure;
use super::keys::RedisKeys;
use super::nodes::Nodes;
use crate::queue::{QueueError, Result};
use crate::runtime::{Clock, Mutex};

/// The longest wait for a connection, and then for the answer to a request.
pub(super) const TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum number of connections of a replica. Each carries many requests at once.
const CONNECTIONS: usize = 8;
/// The time for which a connection that has answered is lent again without a check, unless a
/// request fails on it. A check takes as long as most requests do.
const PROVEN_FOR: Duration = Duration::from_millis(100);

/// One server or a cluster.
pub(super) struct RedisServer {
    /// The names of the queue's keys on it.
    pub(super) keys: RedisKeys,
    pub(super) clock: Clock,
    pool: RedisPool,
    proven: Mutex<ProvenConnection>,
}

/// The connection that has answered last.
#[derive(Default)]
struct ProvenConnection {
    /// The connection, and the end of the time for which it counts as good, on the monotonic clock.
    link: Option<(RedisLink, Duration)>,
    /// The number of failures of requests on such connections.
    failures: u64,
}

enum RedisPool {
    Single(deadpool_redis::Pool),
    Cluster(managed::Pool<Nodes>),
}

impl RedisServer {
    /// Creates the server's pool, which connects at the first request.
    pub(super) fn new(settings: &RedisSettings, clock: Clock) -> Result<Self> {
        let keys = RedisKeys::new(&settings.prefix);
        Ok(Self { keys, pool: RedisPool::new(settings)?, clock, proven: Mutex::default() })
    }

    /// Returns a connection that has just answered, for `operation`. A connection to a cluster is
    /// returned without a check, because each of its nodes may fail by itself.
    pub(super) async fn connect(&self, operation: &'static str) -> Result<LentConnection<'_>> {
        let now = self.clock.monotonic();
        let (known, failures) = {
            let proven = self.proven.lock();
            (proven.link.clone().filter(|(_, until)| now < *until), proven.failures)
        };
        let link = match known {
            Some((link, _)) => link,
            None => self.prove(operation, failures).await?,
        };
        Ok(LentConnection { server: self, operation, link, failures })
    }

    /// Gets a connection that answers. It is lent again unless a request has failed meanwhile.
    async fn prove(&self, operation: &'static str, failures: u64) -> Result<RedisLink> {
        let link = match tokio::time::timeout(TIMEOUT, self.pool.link()).await {
            Ok(Ok(link)) => link,
            Ok(Err(PoolError::Backend(error))) => return Err(failed(operation, error)),
            Ok(Err(other)) => return Err(QueueError::new(operation, other)),
            Err(_) => return Err(QueueError::new(operation, RedisFailure::Silent)),
        };
        let mut proven = self.proven.lock();
        if proven.failures == failures {
            proven.link = Some((link.clone(), self.clock.monotonic() + PROVEN_FOR));
        }
        Ok(link)
    }
}

impl RedisPool {
    fn new(settings: &RedisSettings) -> Result<Self> {
        let failed = |error: RedisError| failed("connect", error);
        let no_pool = |error| QueueError::new("connect", error);
        if settings.cluster {
            let nodes = Nodes::new(settings, TIMEOUT).map_err(failed)?;
            let pool = managed::Pool::<Nodes>::builder(nodes).max_size(CONNECTIONS);
            return Ok(Self::Cluster(pool.runtime(Runtime::Tokio1).build().map_err(no_pool)?));
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(TIMEOUT))
            .set_response_timeout(Some(TIMEOUT));
        let node = settings.nodes.first().expect("an address has a host").clone();
        let manager = Manager::new_with_config(node, config).map_err(failed)?;
        let pool = deadpool_redis::Pool::builder(manager).max_size(CONNECTIONS);
        Ok(Self::Single(pool.runtime(Runtime::Tokio1).build().map_err(no_pool)?))
    }

    /// Returns a connection. It stays in the pool, because many requests use it at once.
    async fn link(&self) -> std::result::Result<RedisLink, PoolError> {
        Ok(match self {
            Self::Single(pool) => RedisLink::Single(pool.get().await?.as_ref().clone()),
            Self::Cluster(pool) => RedisLink::Cluster(pool.get().await?.clone()),
        })
    }
}

/// A connection that is lent for an operation. Several requests can run on it at once: they are
/// sent in the order in which they are first polled, without waiting for each other's answers.
pub(super) struct LentConnection<'a> {
    pub(super) server: &'a RedisServer,
    operation: &'static str,
    link: RedisLink,
    /// The value of `ProvenConnection::failures` when the connection was lent.
    failures: u64,
}

impl LentConnection<'_> {
    pub(super) async fn run<T: FromRedisValue>(&self, script: &ScriptInvocation<'_>) -> Result<T> {
        self.answer(script.invoke_async(&mut self.link.clone())).await
    }

    pub(super) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        self.answer(command.query_async(&mut self.link.clone())).await
    }

    pub(super) async fn query_all<T: FromRedisValue>(&self, pipeline: &Pipeline) -> Result<T> {
        self.answer(pipeline.query_async(&mut self.link.clone())).await
    }

    /// Waits for the answer to a request, for [`TIMEOUT`] at most. A request without an answer may
    /// have taken effect or not. After a failure, the next caller gets a connection that has
    /// answered since.
    async fn answer<T>(&self, request: impl Future<Output = RedisResult<T>>) -> Result<T> {
        let answer = match tokio::time::timeout(TIMEOUT, request).await {
            Ok(answer) => answer.map_err(|error| failed(self.operation, error)),
            Err(_) => Err(QueueError::new(self.operation, RedisFailure::Silent)),
        };
        if answer.is_err() {
            let mut proven = self.server.proven.lock();
            if proven.failures == self.failures {
                *proven = ProvenConnection { link: None, failures: self.failures + 1 };
            }
        }
        answer
    }

    /// Returns `true` if shards are on several servers, of which some may fail.
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.link, RedisLink::Cluster(_))
    }

    /// Returns the maximum number of shards whose keys a script may name. The shards of a cluster
    /// are on several servers. On a single server the number is bounded, because the server does
    /// nothing else while a script runs.
    pub(super) fn shards_at_once(&self) -> usize {
        if self.is_cluster() { 1 } else { 256 }
    }
}

/// A connection on which commands, pipelines and scripts run.
#[derive(Clone)]
enum RedisLink {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl ConnectionLike for RedisLink {
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

fn failed(operation: &'static str, error: RedisError) -> QueueError {
    QueueError::new(operation, RedisFailure::from(error))
}
