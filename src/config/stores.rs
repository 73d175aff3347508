//! The three contracts: which adapter, and where.

use std::path::{Path, PathBuf};

use super::reader::{Parsed, Raw, Reader, flag, number, text};

/// The store.
#[derive(Clone, Debug)]
pub struct Store {
    /// The file of the embedded one.
    pub path: PathBuf,
    /// How many connections read at the same time.
    pub read_connections: u32,
    /// Whether `serve` applies migrations.
    pub migrate: bool,
}

/// The queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Within this process.
    Memory,
}

/// The cluster.
#[derive(Clone, Copy, Debug)]
pub struct Cluster {
    /// How replicas find each other.
    pub discovery: Discovery,
    /// The number of shards.
    pub shards: u16,
}

/// How replicas find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// There are none.
    Single,
}

pub(super) fn read(reader: &mut Reader, data_dir: &Path) -> (Store, Queue, Cluster) {
    let store = Store {
        path: reader.read("store.url", |raw| store_path(raw, data_dir)),
        read_connections: reader.read("store.read_connections", number(1..=32)),
        migrate: reader.read("store.migrate", flag),
    };
    let queue = reader.read("queue.url", |raw| only(raw, "memory:", Queue::Memory));
    let cluster = Cluster {
        discovery: reader.read("cluster.url", |raw| only(raw, "single:", Discovery::Single)),
        shards: reader.read("cluster.shards", number(1..=1_024)),
    };
    (store, queue, cluster)
}

fn store_path(raw: &Raw, data_dir: &Path) -> Parsed<PathBuf> {
    let url = text(raw)?;
    if url.is_empty() {
        return Ok(data_dir.join("punctual.db"));
    }
    match url.strip_prefix("sqlite:") {
        Some("") => Err("needs a path, such as sqlite:/var/lib/punctual/punctual.db".to_owned()),
        Some(":memory:") => Err("must be a file, so that jobs outlive the process".to_owned()),
        Some(path) => Ok(PathBuf::from(path)),
        None => Err(not_available(&url, "sqlite:PATH")),
    }
}

/// The one adapter there is.
fn only<T: Copy>(raw: &Raw, url: &str, adapter: T) -> Parsed<T> {
    let given = text(raw)?;
    if given == url { Ok(adapter) } else { Err(not_available(&given, url)) }
}

fn not_available(given: &str, instead: &str) -> String {
    match given.split_once("://") {
        Some((scheme @ ("postgres" | "postgresql" | "redis" | "rediss" | "etcd"), _)) => {
            format!("{scheme}:// is not available in this build; use {instead}")
        }
        _ => format!("must be {instead}"),
    }
}
