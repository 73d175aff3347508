//! A connection to one of the two databases, and the differences of their dialects.

pub(in crate::store) mod access;
pub(in crate::store) mod query;
pub(in crate::store) mod version;
pub(in crate::store) mod work;

use sqlx::{PgConnection, SqliteConnection};

use crate::store::sql::encoding::batch_rows::{BatchRow, ColumnType};

/// A connection that a unit of work uses.
pub(in crate::store) enum Connection<'c> {
    /// A connection to a PostgreSQL server.
    Postgres(&'c mut PgConnection),
    /// A connection to an SQLite file.
    Sqlite(&'c mut SqliteConnection),
}

impl<'c> From<&'c mut PgConnection> for Connection<'c> {
    fn from(connection: &'c mut PgConnection) -> Self {
        Self::Postgres(connection)
    }
}

impl<'c> From<&'c mut SqliteConnection> for Connection<'c> {
    fn from(connection: &'c mut SqliteConnection) -> Self {
        Self::Sqlite(connection)
    }
}

impl Connection<'_> {
    /// Returns the dialect of the database.
    pub(in crate::store) fn dialect(&self) -> Dialect {
        match self {
            Self::Postgres(_) => Dialect::Postgres,
            Self::Sqlite(_) => Dialect::Sqlite,
        }
    }
}

/// A database's dialect of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Dialect {
    /// PostgreSQL: transactions run concurrently, so statements lock rows explicitly.
    Postgres,
    /// SQLite: writers take turns, so no row needs a lock.
    Sqlite,
}

impl Dialect {
    /// Returns the locking clause that prevents the removal of a row and changes of its key.
    /// Several transactions can hold the lock at once.
    pub(in crate::store) fn shared_lock(self) -> &'static str {
        self.locking("FOR KEY SHARE")
    }

    /// Returns the locking clause of transactions that change a row one after the other.
    pub(in crate::store) fn exclusive_lock(self) -> &'static str {
        self.locking("FOR NO KEY UPDATE")
    }

    /// Returns the locking clause of a transaction that is about to remove rows or change their
    /// keys.
    pub(in crate::store) fn removal_lock(self) -> &'static str {
        self.locking("FOR UPDATE")
    }

    /// Returns the locking clause of a statement that removes rows and skips those that are locked.
    pub(in crate::store) fn skip_locked(self) -> &'static str {
        self.locking("FOR UPDATE SKIP LOCKED")
    }

    /// Returns the clause in PostgreSQL, and an empty text in SQLite.
    fn locking(self, clause: &'static str) -> &'static str {
        match self {
            Self::Postgres => clause,
            Self::Sqlite => "",
        }
    }

    /// Returns the join that reads its left side first. SQLite keeps the order of a `CROSS JOIN`.
    pub(in crate::store) fn ordered_join(self) -> &'static str {
        match self {
            Self::Postgres => "JOIN",
            Self::Sqlite => "CROSS JOIN",
        }
    }

    /// Returns the clause that names the index to use. SQLite needs it, because it has no
    /// statistics to choose an index by.
    pub(in crate::store) fn indexed_by(self, index: &str) -> String {
        match self {
            Self::Postgres => String::new(),
            Self::Sqlite => format!("INDEXED BY {index}"),
        }
    }

    /// Returns the name of the function that finds the position of its second text in its first
    /// one.
    pub(in crate::store) fn position(self) -> &'static str {
        match self {
            Self::Postgres => "strpos",
            Self::Sqlite => "instr",
        }
    }

    /// Returns the name of the function that returns the larger of two values that are not null.
    pub(in crate::store) fn greatest(self) -> &'static str {
        match self {
            Self::Postgres => "greatest",
            Self::Sqlite => "max",
        }
    }

    /// Returns the ids in a parameter, a JSON array, as a table `e` with their positions.
    pub(in crate::store) fn listed(self, parameter: &str) -> String {
        match self {
            Self::Postgres => format!(
                "unnest(ARRAY (SELECT value::uuid FROM json_array_elements_text({parameter}::json)))
                     WITH ORDINALITY AS e (id, position)"
            ),
            Self::Sqlite => format!(
                "(SELECT unhex(value) AS id, rowid AS position FROM json_each({parameter})) AS e"
            ),
        }
    }

    /// Returns the rows of the batch in a parameter, a JSON text, as a table `r`.
    pub(in crate::store) fn rows<R: BatchRow>(self, parameter: &str) -> String {
        let list = |column: fn(&(&str, ColumnType)) -> String| {
            R::COLUMNS.iter().map(column).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Postgres => {
                let columns = list(|(name, of)| format!("{name} {}", of.postgres_type()));
                format!("json_to_recordset({parameter}::json) AS r ({columns})")
            }
            Self::Sqlite => {
                let columns = list(|(name, of)| match of {
                    ColumnType::Id => format!("unhex(value ->> '{name}') AS {name}"),
                    _ => format!("value ->> '{name}' AS {name}"),
                });
                format!("(SELECT {columns} FROM jsonb_each({parameter})) AS r")
            }
        }
    }

    /// Returns the condition that a column has one of the values in a parameter, a JSON array.
    ///
    /// PostgreSQL builds an array first. It has no statistics for a parameter, so it might choose a
    /// bad plan for a join.
    pub(in crate::store) fn among(self, column: &str, of: ColumnType, parameter: &str) -> String {
        match self {
            Self::Postgres => {
                let kind = of.postgres_type();
                let elements = format!("json_array_elements_text({parameter}::json)");
                self.one_of(column, &format!("SELECT value::{kind} FROM {elements}"))
            }
            Self::Sqlite => {
                let value = if of == ColumnType::Id { "unhex(value)" } else { "value" };
                self.one_of(column, &format!("SELECT {value} FROM json_each({parameter})"))
            }
        }
    }

    /// Returns the condition that a column has one of the values of a query, which is run first.
    pub(in crate::store) fn one_of(self, column: &str, query: &str) -> String {
        match self {
            Self::Postgres => format!("{column} = ANY (ARRAY ({query}))"),
            Self::Sqlite => format!("{column} IN ({query})"),
        }
    }
}
