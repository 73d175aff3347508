//! The servers of the cluster, if `tests/servers` has started them for the benchmark.

use std::env;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use url::Url;

use super::load;

/// Returns the settings of a cluster of this process: a new database, and unique prefixes. Returns
/// no settings without servers, so that everything is embedded.
pub fn settings() -> Vec<(&'static str, String)> {
    let Ok(postgres) = env::var("PUNCTUAL_TEST_POSTGRES") else { return Vec::new() };
    let other = |name| env::var(name).expect("tests/servers sets all three");
    let name = format!("bench_{}", std::process::id());
    let mut store: Url = postgres.parse().expect("a URL");
    load::runtime().block_on(async {
        let mut connection = PgConnection::connect(store.as_str()).await.expect("a connection");
        let create = format!("CREATE DATABASE {name}");
        connection.execute(AssertSqlSafe(create)).await.expect("a new database");
    });
    store.set_path(&name);
    vec![
        ("PUNCTUAL_STORE_URL", store.into()),
        ("PUNCTUAL_SECRETS_KEYS", "bench:dGVzdHMgdGVzdHMgdGVzdHMgdGVzdHMgdGVzdHMgISE=".into()),
        ("PUNCTUAL_QUEUE_URL", other("PUNCTUAL_TEST_REDIS")),
        ("PUNCTUAL_QUEUE_PREFIX", name.clone()),
        ("PUNCTUAL_CLUSTER_URL", format!("{}/{name}", other("PUNCTUAL_TEST_ETCD"))),
    ]
}

/// Returns the memory that Redis uses, in bytes.
pub fn redis_bytes() -> u64 {
    let url = env::var("PUNCTUAL_TEST_REDIS").expect("tests/servers sets it");
    let client = redis::Client::open(url).expect("a URL");
    let mut connection = client.get_connection().expect("a connection");
    let info: String = redis::cmd("INFO").arg("memory").query(&mut connection).expect("an answer");
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    used.and_then(|used| used.trim().parse().ok()).expect("a number")
}

/// Returns the size on disk of the database of [`settings`], in bytes.
pub fn postgres_bytes() -> u64 {
    let url = env::var("PUNCTUAL_TEST_POSTGRES").expect("tests/servers sets it");
    let size: i64 = load::runtime().block_on(async {
        let mut connection = PgConnection::connect(&url).await.expect("a connection");
        let name = format!("bench_{}", std::process::id());
        let query = sqlx::query_scalar("SELECT pg_database_size($1)").bind(name);
        query.fetch_one(&mut connection).await.expect("a size")
    });
    u64::try_from(size).expect("a size")
}

/// Returns the bytes per finished job in the database of [`settings`], with indexes.
pub fn bytes_per_job() -> f64 {
    load::runtime().block_on(async {
        let mut connection = connect().await;
        let query = "SELECT (SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('jobs'))::float8
                     / (SELECT count(*) FROM jobs)";
        sqlx::query_scalar(query).fetch_one(&mut connection).await.expect("some jobs")
    })
}

/// Gives PostgreSQL its default durability: each commit waits for the disk. `tests/servers` starts
/// it without.
pub fn make_durable() {
    let url = env::var("PUNCTUAL_TEST_POSTGRES").expect("tests/servers sets it");
    load::runtime().block_on(async {
        let mut connection = PgConnection::connect(&url).await.expect("a connection");
        for statement in ["ALTER SYSTEM SET fsync = on", "SELECT pg_reload_conf()"] {
            connection.execute(statement).await.expect("a superuser");
        }
        // The server reads the file soon after it has answered.
        let mut fsync = String::new();
        while fsync != "on" {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let show = sqlx::query_scalar("SHOW fsync").fetch_one(&mut connection).await;
            fsync = show.expect("a setting");
        }
    });
}

/// A transaction that reads a snapshot of the database of [`settings`] until it is dropped.
pub struct Snapshot {
    runtime: tokio::runtime::Runtime,
    connection: Option<PgConnection>,
}

impl Snapshot {
    /// Opens the snapshot, as a backup does.
    pub fn open() -> Self {
        let runtime = load::runtime();
        let connection = runtime.block_on(async {
            let mut connection = connect().await;
            for statement in
                ["BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM schedules"]
            {
                connection.execute(statement).await.expect("a snapshot");
            }
            connection
        });
        Self { runtime, connection: Some(connection) }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let _closed = self.runtime.block_on(connection.close());
        }
    }
}

/// Opens a connection to the database of [`settings`].
async fn connect() -> PgConnection {
    let mut url: Url =
        env::var("PUNCTUAL_TEST_POSTGRES").expect("tests/servers sets it").parse().expect("a URL");
    url.set_path(&format!("bench_{}", std::process::id()));
    PgConnection::connect(url.as_str()).await.expect("a connection")
}

/// Returns `true` if `tests/servers` has started servers for the benchmark.
pub fn is_there() -> bool {
    env::var_os("PUNCTUAL_TEST_POSTGRES").is_some()
}
