//! Connections to a Redis Cluster. The pool's own manager for clusters trusts only the public
//! certificate authorities.

use std::time::Duration;

use deadpool::managed::{self, Metrics, RecycleResult};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::{RedisError, RedisResult, TlsCertificates};

use super::RedisSettings;

/// The first pause before the client tries a node again, in milliseconds.
const FIRST_WAIT_MS: u64 = 20;
/// The longest such pause, in milliseconds.
const MAX_WAIT_MS: u64 = 200;

/// Creates connections to all nodes of a cluster.
pub(super) struct Nodes(ClusterClient);

impl Nodes {
    /// Creates the client. A request waits for its answer for `timeout`: after a shorter wait the
    /// client would repeat a request that has taken effect. While the client connects to a node,
    /// all requests wait, and a new connection may try a node that is down twice. So connecting may
    /// take a third of `timeout`.
    pub(super) fn new(settings: &RedisSettings, timeout: Duration) -> RedisResult<Self> {
        let mut client = ClusterClientBuilder::new(settings.nodes.clone())
            .connection_timeout(timeout / 3)
            .response_timeout(timeout)
            .overall_response_timeout(Some(timeout))
            .min_retry_wait(FIRST_WAIT_MS)
            .max_retry_wait(MAX_WAIT_MS);
        if let Some(authorities) = &settings.authorities {
            let root_cert = Some(authorities.clone());
            client = client.certs(TlsCertificates { client_tls: None, root_cert });
        }
        Ok(Self(client.build()?))
    }
}

impl managed::Manager for Nodes {
    type Type = ClusterConnection;
    type Error = RedisError;

    async fn create(&self) -> Result<ClusterConnection, RedisError> {
        self.0.get_async_connection().await
    }

    /// Lends the connection without a check. The client reconnects to each node by itself, and a
    /// node that is down must not cost the connections to the others.
    async fn recycle(&self, _: &mut ClusterConnection, _: &Metrics) -> RecycleResult<RedisError> {
        Ok(())
    }
}
