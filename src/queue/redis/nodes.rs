//! Connections to a Redis Cluster. The pool's own manager of them trusts no authorities but the public
//! ones.

use std::time::Duration;

use deadpool::managed::{self, Metrics, RecycleResult};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::{RedisError, RedisResult, TlsCertificates};

use super::Settings;

/// How long the client waits before it tries a node again, in milliseconds.
const FIRST_WAIT_MS: u64 = 20;
const LONGEST_WAIT_MS: u64 = 200;

/// Makes connections to all nodes of a cluster.
pub(super) struct Nodes(ClusterClient);

impl Nodes {
    /// What is asked is waited for as long as `patience`; a shorter wait for an answer would let the
    /// client send again what has had its effect. It keeps everybody waiting while it connects to a
    /// node, and a new connection may meet one twice that is down; so that may take a third of it.
    pub(super) fn new(settings: &Settings, patience: Duration) -> RedisResult<Self> {
        let mut client = ClusterClientBuilder::new(settings.nodes.clone())
            .connection_timeout(patience / 3)
            .response_timeout(patience)
            .overall_response_timeout(Some(patience))
            .min_retry_wait(FIRST_WAIT_MS)
            .max_retry_wait(LONGEST_WAIT_MS);
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

    /// Lent as it is: the client connects again to each node by itself, and one that is down must not
    /// take those from us that are not.
    async fn recycle(&self, _: &mut ClusterConnection, _: &Metrics) -> RecycleResult<RedisError> {
        Ok(())
    }
}
