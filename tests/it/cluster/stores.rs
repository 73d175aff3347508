//! The servers of a world, and a replica's lines to them.

use std::time::Duration;

use url::Url;

use crate::harness::database::Database;
use crate::harness::link::{Link, Mood};
use crate::harness::postgres::PostgresServer;
use crate::harness::servers::{EtcdServers, RedisServer, shared};
use sqlx::PgConnection;

/// The database: in the server that tests share, or in one of the test's own.
pub enum Store {
    Shared(Database),
    Own(PostgresServer),
}

impl Store {
    /// Its address.
    pub fn url(&self) -> String {
        match self {
            Self::Shared(database) => database.url(),
            Self::Own(server) => server.url(),
        }
    }

    /// A connection of the test.
    pub async fn beside(&self) -> PgConnection {
        match self {
            Self::Shared(database) => database.beside().await,
            Self::Own(server) => server.beside().await,
        }
    }
}

/// The servers that the replicas share.
pub struct Stores {
    pub store: Store,
    pub redis: RedisServer,
    /// Absent: those that tests share.
    pub etcd: Option<EtcdServers>,
    prefix: String,
}

impl Stores {
    /// With servers of its own where the test hurts them: Redis always is one.
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

    /// Lines to all of them.
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

    /// The settings of a life of a replica that reaches them by its lines.
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

/// A replica's lines to the servers.
pub struct Links {
    pub store: Link,
    pub redis: Link,
    pub etcd: Vec<Link>,
}

/// What a line leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    Store,
    Redis,
    Etcd,
}

impl Links {
    /// Puts the lines to a server in a mood.
    pub fn set(&self, to: To, mood: Mood) {
        match to {
            To::Store => self.store.set(mood),
            To::Redis => self.redis.set(mood),
            To::Etcd => self.etcd.iter().for_each(|link| link.set(mood)),
        }
    }

    /// Opens all of them.
    pub fn open(&self) {
        for to in [To::Store, To::Redis, To::Etcd] {
            self.set(to, Mood::Open);
        }
    }
}

/// How long a leader that is gone is waited for.
pub const LEASE: Duration = Duration::from_secs(3);
