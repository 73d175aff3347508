//! The adapters and addresses of the three contracts: store, queue and cluster.
//!
//! Two combinations are valid: everything inside one process, or everything on servers that the
//! replicas share.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::errors::without_password;
use super::reader::{ParseResult, SettingsReader, SourceValue, flag, number, seconds, text};
use crate::cluster::etcd::ServerSettings;
use crate::queue::redis::RedisSettings;
use crate::store::postgres::PostgresSettings;
use crate::store::sqlite::SqliteSettings;

/// The default numbers of shards of a new store. One process needs only one shard, because an
/// embedded store fires the due ticks of a shard in one transaction. A cluster distributes its
/// shards over the replicas.
const SHARDS_ALONE: u16 = 1;
const SHARDS_SHARED: u16 = 64;
/// The maximum number of connections of a replica to the store's server.
const MAX_CONNECTIONS: u32 = 40;
/// The minimum number of connections of the scheduler pool. No caller holds a connection while it
/// waits for another, so even fewer would not deadlock. But upkeep holds one for up to 30 seconds,
/// and a second one may be busy. A replica that could not read the store's time would then stop
/// firing.
const MIN_FOR_SCHEDULER: u32 = 3;

/// The store.
#[derive(Clone, Debug)]
pub enum StoreChoice {
    /// An embedded store in a file on this machine.
    Sqlite(SqliteSettings),
    /// A store on a PostgreSQL server.
    Postgres(PostgresSettings),
}

/// Formats the location of the store, without the password.
impl fmt::Display for StoreChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(settings) => settings.path.display().fmt(f),
            Self::Postgres(settings) => f.write_str(&without_password(&settings.url)),
        }
    }
}

/// The other replicas that this process works with.
#[derive(Clone, Debug)]
pub enum ClusterMode {
    /// This process works alone: queue and cluster are in its memory.
    Alone,
    /// The replicas share a queue and find each other through etcd.
    Cluster(Box<SharedServers>),
}

/// The servers that replicas share in addition to the store.
#[derive(Clone, Debug)]
pub struct SharedServers {
    /// The queue.
    pub queue: RedisSettings,
    /// The etcd cluster through which the replicas find each other.
    pub cluster: ServerSettings,
    /// The duration of a replica's lease. It is also how long a dead replica keeps its shards.
    pub lease_time: Duration,
}

/// The settings of the store and of the other replicas.
pub(super) struct StoreSettings {
    pub(super) store: StoreChoice,
    pub(super) cluster_mode: ClusterMode,
    pub(super) shards: u16,
    pub(super) migrate: bool,
}

/// Reads the settings of the three contracts. They must be consistent with each other only if
/// `whole` is set.
pub(super) fn read(reader: &mut SettingsReader, data_dir: &Path, whole: bool) -> StoreSettings {
    let before = reader.error_count();
    let store = read_store(reader, data_dir);
    let queue = read_queue(reader);
    let cluster = read_cluster(reader);
    let lease_time = reader.read("cluster.lease_seconds", seconds(2..=60));
    let shards: u16 = reader.read("cluster.shards", number(0..=1_024));
    let migrate = reader.read("store.migrate", flag);
    // Settings that could not be read are already recorded as mistakes.
    if whole && reader.error_count() == before {
        check_mix(reader, &store, queue.is_some(), cluster.is_some());
    }
    let (cluster_mode, usual) = match (queue, cluster) {
        (Some(queue), Some(cluster)) => (
            ClusterMode::Cluster(Box::new(SharedServers { queue, cluster, lease_time })),
            SHARDS_SHARED,
        ),
        // A command that needs only the store may be given a cluster's store alone.
        _ if matches!(store, StoreChoice::Postgres(_)) => (ClusterMode::Alone, SHARDS_SHARED),
        _ => (ClusterMode::Alone, SHARDS_ALONE),
    };
    let shards = if shards == 0 { usual } else { shards };
    StoreSettings { store, cluster_mode, shards, migrate }
}

/// Checks that everything is inside one process, or that everything is shared.
fn check_mix(reader: &mut SettingsReader, store: &StoreChoice, queue: bool, cluster: bool) {
    let store = matches!(store, StoreChoice::Postgres(_));
    if store == queue && queue == cluster {
        return;
    }
    let all = [
        ("store.url", store, "sqlite:PATH", "postgres://…"),
        ("queue.url", queue, "memory:", "redis://…"),
        ("cluster.url", cluster, "single:", "etcd://…"),
    ];
    let shared = [store, queue, cluster].iter().filter(|shared| **shared).count();
    // The setting to blame is the one that differs from the other two.
    let to_cluster = shared >= 2;
    let (odd, ..) = *all.iter().find(|(_, shared, ..)| *shared != to_cluster).expect("they differ");
    let say = |pick: fn(&(&str, bool, &'static str, &'static str)) -> &'static str| {
        let parts = all.iter().map(|entry| format!("{} = {}", entry.0, pick(entry)));
        parts.collect::<Vec<_>>().join(", ")
    };
    let (one, cluster) = (say(|entry| entry.2), say(|entry| entry.3));
    reader.mistake(
        odd,
        &format!(
            "does not fit the other two settings: one process needs {one}; a cluster needs \
             {cluster}"
        ),
    );
}

fn read_store(reader: &mut SettingsReader, data_dir: &Path) -> StoreChoice {
    let read_connections = reader.read("store.read_connections", number(1..=32));
    let password_file = reader.read("store.password_file", file);
    let sizes = [
        ("store.api_connections", 1),
        ("store.scheduler_connections", MIN_FOR_SCHEDULER),
        ("store.executor_connections", 1),
    ]
    .map(|(key, fewest)| reader.read(key, number(fewest..=MAX_CONNECTIONS)));
    if sizes.iter().sum::<u32>() > MAX_CONNECTIONS {
        let why = format!("must not be more than {MAX_CONNECTIONS} with the other two pools");
        reader.mistake("store.api_connections", &why);
    }
    let [api_connections, scheduler_connections, executor_connections] = sizes;
    let store = reader.read("store.url", |raw| store_of(raw, data_dir));
    match store {
        StoreChoice::Sqlite(settings) => {
            StoreChoice::Sqlite(SqliteSettings { read_connections, ..settings })
        }
        StoreChoice::Postgres(settings) => StoreChoice::Postgres(PostgresSettings {
            password_file,
            api_connections,
            scheduler_connections,
            executor_connections,
            ..settings
        }),
    }
}

fn store_of(raw: &SourceValue, data_dir: &Path) -> ParseResult<StoreChoice> {
    let url = text(raw)?;
    let path = |path: &str| StoreChoice::Sqlite(SqliteSettings::new(path));
    if url.is_empty() {
        return Ok(StoreChoice::Sqlite(SqliteSettings::new(data_dir.join("punctual.db"))));
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return PostgresSettings::parse(url).map(StoreChoice::Postgres);
    }
    match url.strip_prefix("sqlite:") {
        Some("") => Err("needs a path, such as sqlite:/var/lib/punctual/punctual.db".to_owned()),
        Some(":memory:") => Err("must be a file, so that jobs outlive the process".to_owned()),
        Some(given) => Ok(path(given)),
        None => {
            Err("must be sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE".to_owned())
        }
    }
}

fn read_queue(reader: &mut SettingsReader) -> Option<RedisSettings> {
    let password_file = reader.read("queue.password_file", file);
    let ca_file = reader.read("queue.ca_file", file);
    let prefix = reader.read("queue.prefix", text);
    reader.read("queue.url", |raw| {
        let url = text(raw)?;
        if url == "memory:" {
            return Ok(None);
        }
        let (password_file, ca_file) = (password_file.as_deref(), ca_file.as_deref());
        let redis = RedisSettings::parse(&url, &prefix, password_file, ca_file);
        redis.map(Some).map_err(|error| format!("{error}; or memory: within one process"))
    })
}

fn read_cluster(reader: &mut SettingsReader) -> Option<ServerSettings> {
    let password_file = reader.read("cluster.password_file", file);
    let ca_file = reader.read("cluster.ca_file", file);
    reader.read("cluster.url", |raw| {
        let url = text(raw)?;
        if url == "single:" {
            return Ok(None);
        }
        let etcd = ServerSettings::parse(&url, password_file.as_deref(), ca_file.as_deref());
        etcd.map(Some).map_err(|error| format!("{error}; or single: for one process"))
    })
}

/// Parses the path of a file. An empty text means no file.
pub(super) fn file(raw: &SourceValue) -> ParseResult<Option<PathBuf>> {
    Ok(Some(text(raw)?).filter(|path| !path.is_empty()).map(PathBuf::from))
}
