//! The store of a service that is stopped, for statements that fill it.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};

use super::load;

/// A connection to the store, with the runtime that it needs.
pub struct Database {
    runtime: tokio::runtime::Runtime,
    connection: Open,
}

enum Open {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

impl Database {
    /// Opens the store with this URL, as in the service's settings.
    pub fn open(url: &str) -> Self {
        let runtime = load::runtime();
        let connection = runtime.block_on(async {
            if url.starts_with("sqlite:") {
                Open::Sqlite(SqliteConnection::connect(url).await.expect("the file"))
            } else {
                Open::Postgres(PgConnection::connect(url).await.expect("a connection"))
            }
        });
        Self { runtime, connection }
    }

    /// Returns the one of two texts that this database understands.
    pub fn either<'t>(&self, postgres: &'t str, sqlite: &'t str) -> &'t str {
        match self.connection {
            Open::Postgres(_) => postgres,
            Open::Sqlite(_) => sqlite,
        }
    }

    /// Runs statements without parameters.
    pub fn run(&mut self, sql: &str) {
        let (runtime, sql) = (&self.runtime, AssertSqlSafe(sql.to_owned()));
        let done = match &mut self.connection {
            Open::Postgres(connection) => runtime.block_on(connection.execute(sql)).map(drop),
            Open::Sqlite(connection) => runtime.block_on(connection.execute(sql)).map(drop),
        };
        done.expect("a statement for this store");
    }

    /// Updates the statistics of the planner, as the server does by itself after some minutes.
    pub fn analyze(&mut self) {
        if let Open::Postgres(_) = self.connection {
            self.run("VACUUM ANALYZE");
        }
    }

    /// Closes the connection.
    pub fn close(self) {
        let Self { runtime, connection } = self;
        let closed = match connection {
            Open::Postgres(connection) => runtime.block_on(connection.close()),
            Open::Sqlite(connection) => runtime.block_on(connection.close()),
        };
        closed.expect("closed");
    }
}
