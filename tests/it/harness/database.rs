//! Test databases on the PostgreSQL server that `tests/servers` starts.

use std::sync::atomic::{AtomicU32, Ordering};

use punctual::store::postgres::{PostgresSettings, PostgresStore};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection};

use super::keys::cipher;
use super::servers::shared;

/// The database of one test. It is dropped after the test.
pub struct Database {
    name: String,
}

impl Database {
    /// Creates a migrated database by copying a template. The template is created once for each
    /// state of the migrations.
    pub async fn migrated() -> Self {
        let mut server = connect("postgres").await;
        let template = template(&mut server).await;
        let name = new_name();
        let copy = copy_strategy(&server);
        run(&mut server, &format!("CREATE DATABASE {name} TEMPLATE {template}{copy}")).await;
        Self { name }
    }

    /// Creates an empty database.
    pub async fn empty() -> Self {
        let name = new_name();
        run(&mut connect("postgres").await, &format!("CREATE DATABASE {name}")).await;
        Self { name }
    }

    pub fn url(&self) -> String {
        url(&self.name)
    }

    pub fn settings(&self) -> PostgresSettings {
        PostgresSettings::new(self.url())
    }

    pub fn open(&self) -> PostgresStore {
        PostgresStore::open(&self.settings(), &cipher()).expect("open")
    }

    /// Opens a second connection, independent of the store under test.
    pub async fn second_connection(&self) -> PgConnection {
        connect(&self.name).await
    }
}

impl Drop for Database {
    #[expect(clippy::disallowed_methods, reason = "a drop cannot wait in the test's own runtime")]
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                run(&mut connect("postgres").await, &drop).await;
            });
        });
        let _ = dropped.join();
    }
}

/// Runs a statement that the test has composed.
pub async fn run(connection: &mut PgConnection, sql: &str) {
    connection.execute(AssertSqlSafe(sql)).await.expect("a statement");
}

fn server() -> url::Url {
    shared("PUNCTUAL_TEST_POSTGRES").parse().expect("a URL")
}

fn url(database: &str) -> String {
    let mut url = server();
    url.set_path(database);
    url.into()
}

async fn connect(database: &str) -> PgConnection {
    let options: PgConnectOptions = url(database).parse().expect("a URL");
    options.connect().await.expect("connect to the server of the tests")
}

/// Returns the option that copies the files of a template. The default of PostgreSQL 15 and later, a
/// copy by way of the log, takes half as long again.
fn copy_strategy(server: &PgConnection) -> &'static str {
    if server.server_version_num() >= Some(150_000) { " STRATEGY file_copy" } else { "" }
}

fn new_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the name of the template, and creates the template if it does not exist.
async fn template(server: &mut PgConnection) -> String {
    let migrator = punctual::store::migrations::postgres();
    let sums = migrator.iter().flat_map(|migration| migration.checksum.iter());
    let name = sums.fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    let name = format!("template_{name:016x}");
    let mut lock = server.begin().await.expect("begin");
    run(&mut lock, "SELECT pg_advisory_xact_lock(1)").await;
    let exists: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
            .bind(&name)
            .fetch_one(&mut *lock)
            .await
            .expect("ask");
    if !exists {
        let mut other_session = connect("postgres").await;
        run(&mut other_session, &format!("CREATE DATABASE making_{name}")).await;
        let store =
            PostgresStore::open(&PostgresSettings::new(url(&format!("making_{name}"))), &cipher());
        let store = store.expect("open");
        store.migrate().await.expect("migrate");
        store.close().await;
        run(&mut other_session, &format!("ALTER DATABASE making_{name} RENAME TO {name}")).await;
    }
    lock.commit().await.expect("commit");
    name
}
