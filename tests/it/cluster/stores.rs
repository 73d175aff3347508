//! The servers of a world, and a replica's connections to them.

use std::time::Duration;

use url::Url;

use crate::harness::database::Database;
use crate::harness::link::{Link, Mood};
use crate::harness::postgres::PostgresServer;
use crate::harness::servers::{EtcdServers, RedisServer, shared};
use sqlx::PgConnection;

/// The database, on the shared server or on a server of the test.
pub enum Store {
    Shared(Database),
    Own(PostgresServer),
}

impl Store {
    /// Returns the URL of the database.
    pub fn url(&self) -> String {
        match self {
            Self::Shared(database) => database.url(),
            Self::Own(server) => server.url(),
        }
    }

    /// Opens a second connection, for the test.
    pub async fn second_connection(&self) -> PgConnection {
        match self {
            Self::Shared(database) => database.second_connection().await,
            Self::Own(server) => server.second_connection().await,
        }
    }
}

/// The servers that the replicas share.
pub struct Stores {
    pub store: Store,
    pub redis: RedisServer,
    /// `None` for the shared servers.
    pub etcd: Option<EtcdServers>,
    prefix: String,
}

impl Stores {
    /// Starts the servers that the test needs for itself. Redis is always one of them.
    pub async fn start(own_store: bool, etcd_members: usize) -> Self {
        let store = match own_store {
            true => Store::Own(PostgresServer::start().await),
            false => Store::Shared(Database::migrated().await),
        };
        let etcd = match etcd_members {
            0 => None,
            members => Some(EtcdServers::start(members).await),
        };
        let redis = RedisServer::start(&[]).await;
        let name = tempfile::Builder::new().rand_bytes(12).tempdir().expect("a name");
        let name = name.path().file_name().expect("a name").to_string_lossy();
        let prefix = name.trim_start_matches('.').to_owned();
        Self { store, redis, etcd, prefix }
    }

    fn etcd_ports(&self) -> Vec<u16> {
        match &self.etcd {
            Some(servers) => servers.clients.clone(),
            None => {
                let url = shared("PUNCTUAL_TEST_ETCD");
                let hosts = url.trim_start_matches("etcd://").split(',');
                hosts.map(|host| port_of(&format!("http://{host}"))).collect()
            }
        }
    }

    /// Starts proxies to all servers.
    pub async fn links(&self) -> Links {
        let mut etcd = Vec::new();
        for port in self.etcd_ports() {
            etcd.push(Link::start(port).await);
        }
        Links {
            store: Link::start(port_of(&self.store.url())).await,
            redis: Link::start(self.redis.port).await,
            etcd,
        }
    }

    /// Returns the settings of a replica process that reaches the servers through its proxies.
    pub fn settings(&self, links: &Links, life: &str) -> Vec<(&'static str, String)> {
        let mut store: Url = self.store.url().parse().expect("a URL");
        store.set_port(Some(links.store.port)).expect("it has a host");
        store.query_pairs_mut().append_pair("options[test.life]", life);
        let redis =
            self.redis.url().replace(&self.redis.port.to_string(), &links.redis.port.to_string());
        let etcd: Vec<_> =
            links.etcd.iter().map(|link| format!("127.0.0.1:{}", link.port)).collect();
        vec![
            ("PUNCTUAL_STORE_URL", store.into()),
            ("PUNCTUAL_QUEUE_URL", redis),
            ("PUNCTUAL_CLUSTER_URL", format!("etcd://{}/{}", etcd.join(","), self.prefix)),
        ]
    }
}

fn port_of(url: &str) -> u16 {
    let url: Url = url.parse().expect("a URL");
    url.port().expect("a port")
}

/// The proxies between a replica and the servers.
pub struct Links {
    pub store: Link,
    pub redis: Link,
    pub etcd: Vec<Link>,
}

/// The server behind a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    Store,
    Redis,
    Etcd,
}

impl Links {
    /// Sets the mood of the proxies to a server.
    pub fn set(&self, server: ServerKind, mood: Mood) {
        match server {
            ServerKind::Store => self.store.set(mood),
            ServerKind::Redis => self.redis.set(mood),
            ServerKind::Etcd => self.etcd.iter().for_each(|link| link.set(mood)),
        }
    }

    /// Opens all proxies.
    pub fn open(&self) {
        for server in [ServerKind::Store, ServerKind::Redis, ServerKind::Etcd] {
            self.set(server, Mood::Open);
        }
    }
}

/// The time after which a lost leader is replaced.
pub const LEASE: Duration = Duration::from_secs(3);
