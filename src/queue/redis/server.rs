//! Connections to the server, every wait of which is bounded.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool::managed;
use deadpool_redis::{Manager, PoolError, Runtime};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisError, RedisFuture, RedisResult, Value};

use super::Settings;
use super::failure::Failure;
use super::nodes::Nodes;
use crate::queue::{QueueError, Result};
use crate::runtime::Clock;

/// How long getting a connection may take, and then a request.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// Connections of a replica; each carries many requests at once.
const CONNECTIONS: usize = 8;
/// For how long a connection that has answered is lent again without being asked, unless a request
/// fails on it: asking takes as long as most requests do.
const PROVEN_FOR: Duration = Duration::from_millis(100);

/// One server or a cluster.
pub(super) struct Server {
    pool: Pool,
    clock: Clock,
    proven: Arc<Mutex<Proven>>,
}

/// The connection that has answered last.
#[derive(Default)]
struct Proven {
    /// Until when, on the monotonic clock, it is taken to be well.
    link: Option<(Link, Duration)>,
    /// How many requests have failed on such a connection.
    failures: u64,
}

enum Pool {
    Single(deadpool_redis::Pool),
    Cluster(managed::Pool<Nodes>),
}

impl Server {
    /// Connects when it is first asked.
    pub(super) fn new(settings: &Settings, clock: Clock) -> Result<Self> {
        Ok(Self { pool: Pool::new(settings)?, clock, proven: Arc::default() })
    }

    /// A connection that has just answered, for `operation`; one to a cluster as it is, since each of
    /// its nodes may fail by itself.
    pub(super) async fn connect(&self, operation: &'static str) -> Result<Lent> {
        let now = self.clock.monotonic();
        let (known, failures) = {
            let proven = lock(&self.proven);
            (proven.link.clone().filter(|(_, until)| now < *until), proven.failures)
        };
        let link = match known {
            Some((link, _)) => link,
            None => self.prove(operation, failures).await?,
        };
        Ok(Lent { link, failures, proven: self.proven.clone() })
    }

    /// A connection that answers; it is lent again unless another has failed meanwhile.
    async fn prove(&self, operation: &'static str, failures: u64) -> Result<Link> {
        let link = match tokio::time::timeout(PATIENCE, self.pool.link()).await {
            Ok(Ok(link)) => link,
            Ok(Err(PoolError::Backend(error))) => return Err(failed(operation, error)),
            Ok(Err(other)) => return Err(QueueError::new(operation, other)),
            Err(_) => return Err(QueueError::new(operation, Failure::Silent)),
        };
        let mut proven = lock(&self.proven);
        if proven.failures == failures {
            proven.link = Some((link.clone(), self.clock.monotonic() + PROVEN_FOR));
        }
        Ok(link)
    }
}

impl Pool {
    fn new(settings: &Settings) -> Result<Self> {
        let failed = |error: RedisError| failed("connect", error);
        let no_pool = |error| QueueError::new("connect", error);
        if settings.cluster {
            let nodes = Nodes::new(settings, PATIENCE).map_err(failed)?;
            let pool = managed::Pool::<Nodes>::builder(nodes).max_size(CONNECTIONS);
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

    /// A connection. It stays in the pool: many use it at once.
    async fn link(&self) -> std::result::Result<Link, PoolError> {
        Ok(match self {
            Self::Single(pool) => Link::Single(pool.get().await?.as_ref().clone()),
            Self::Cluster(pool) => Link::Cluster(pool.get().await?.clone()),
        })
    }
}

/// A connection that is lent.
pub(super) struct Lent {
    link: Link,
    /// How many requests had failed when it was lent.
    failures: u64,
    proven: Arc<Mutex<Proven>>,
}

impl Lent {
    /// The connection, for one of several requests at once: they are sent in the order in which
    /// they are first polled, without waiting for each other's answers.
    pub(super) fn link(&self) -> Link {
        self.link.clone()
    }

    /// The answer to a request of `operation`, waited for as long as is bearable. Whether a request
    /// without an answer had an effect is unknown; whoever connects next is given a connection that
    /// has answered since.
    pub(super) async fn answer<T>(
        &self,
        operation: &'static str,
        request: impl Future<Output = RedisResult<T>>,
    ) -> Result<T> {
        let answer = match tokio::time::timeout(PATIENCE, request).await {
            Ok(answer) => answer.map_err(|error| failed(operation, error)),
            Err(_) => Err(QueueError::new(operation, Failure::Silent)),
        };
        if answer.is_err() {
            let mut proven = lock(&self.proven);
            if proven.failures == self.failures {
                *proven = Proven { link: None, failures: self.failures + 1 };
            }
        }
        answer
    }

    /// Whether shards are on several servers, of which some may fail.
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.link, Link::Cluster(_))
    }

    /// The keys of how many shards a script may name: those of a cluster are on several servers.
    /// Bounded, since the server does nothing else meanwhile.
    pub(super) fn shards_at_once(&self) -> usize {
        if self.is_cluster() { 1 } else { 256 }
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(operation: &'static str, error: RedisError) -> QueueError {
    QueueError::new(operation, Failure::from(error))
}
