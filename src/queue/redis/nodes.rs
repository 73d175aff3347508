//! Connections to a Redis Cluster. The pool's own manager of them trusts no authorities but the public
//! ones.

use deadpool::managed::{self, Metrics, RecycleResult};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::{RedisError, RedisResult, TlsCertificates, cmd};

use super::Settings;

/// Makes connections to all nodes of a cluster.
pub(super) struct Nodes(ClusterClient);

impl Nodes {
    pub(super) fn new(settings: &Settings) -> RedisResult<Self> {
        let mut client = ClusterClientBuilder::new(settings.nodes.clone());
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

    async fn recycle(
        &self,
        connection: &mut ClusterConnection,
        _: &Metrics,
    ) -> RecycleResult<RedisError> {
        Ok(cmd("PING").query_async(connection).await?)
    }
}
