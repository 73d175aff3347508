//! Statements that run on both databases.
//!
//! The parameters are `$1`, `$2` and so on, bound in that order. A query can be cloned to repeat
//! the work; the clones share the values.

use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe, Encode, FromRow, Postgres, SqlSafeStr, SqlStr, Sqlite, Type};

use super::Connection;
use crate::domain::Timestamp;
use crate::store::StoreErrorKind;
use crate::store::sql::encoding::batch_rows::{BatchRow, json};
use crate::store::sql::error::{SqlError, SqlResult};

/// A value that both databases can store.
pub(in crate::store) trait Value: Send + Sync + 'static {
    fn add_to_postgres(&self, arguments: &mut PgArguments) -> Result<(), BoxDynError>;
    fn add_to_sqlite(&self, arguments: &mut SqliteArguments) -> Result<(), BoxDynError>;
}

impl<T> Value for T
where
    T: Type<Postgres> + Type<Sqlite> + Send + Sync + 'static,
    for<'q> T: Encode<'q, Postgres> + Encode<'q, Sqlite>,
{
    fn add_to_postgres(&self, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
        arguments.add(self)
    }

    fn add_to_sqlite(&self, arguments: &mut SqliteArguments) -> Result<(), BoxDynError> {
        Arguments::add(arguments, self)
    }
}

/// A row type that both databases can fill.
pub(in crate::store) trait ReadRow:
    for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin + 'static
{
}

impl<T> ReadRow for T where
    T: for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin + 'static
{
}

/// A statement and its parameters, without the type of its rows. The compiler translates its code
/// once, and not for each type.
#[derive(Clone)]
struct Statement {
    sql: SqlStr,
    values: Vec<Arc<dyn Value>>,
    /// `true` if the connection keeps the prepared statement.
    is_kept: bool,
}

/// A row of one of the two databases.
enum FetchedRow {
    Postgres(PgRow),
    Sqlite(SqliteRow),
}

impl FetchedRow {
    fn read<T: ReadRow>(&self) -> sqlx::Result<T> {
        match self {
            Self::Postgres(row) => T::from_row(row),
            Self::Sqlite(row) => T::from_row(row),
        }
    }
}

impl Statement {
    fn for_postgres(self) -> SqlResult<sqlx::query::Query<'static, Postgres, PgArguments>> {
        let mut arguments = PgArguments::default();
        for value in &self.values {
            value.add_to_postgres(&mut arguments).map_err(unencodable)?;
        }
        Ok(sqlx::query_with(self.sql, arguments).persistent(self.is_kept))
    }

    fn for_sqlite(self) -> SqlResult<sqlx::query::Query<'static, Sqlite, SqliteArguments>> {
        let mut arguments = SqliteArguments::default();
        for value in &self.values {
            value.add_to_sqlite(&mut arguments).map_err(unencodable)?;
        }
        Ok(sqlx::query_with(self.sql, arguments).persistent(self.is_kept))
    }

    /// Runs the statement and returns the number of rows that it changed.
    async fn execute(self, connection: &mut Connection<'_>) -> SqlResult<u64> {
        Ok(match connection {
            Connection::Postgres(connection) => {
                self.for_postgres()?.execute(&mut **connection).await?.rows_affected()
            }
            Connection::Sqlite(connection) => {
                self.for_sqlite()?.execute(&mut **connection).await?.rows_affected()
            }
        })
    }

    /// Returns the rows one by one, as they arrive.
    fn fetch<'e>(
        self,
        connection: &'e mut Connection<'_>,
    ) -> SqlResult<BoxStream<'e, sqlx::Result<FetchedRow>>> {
        Ok(match connection {
            Connection::Postgres(connection) => {
                let rows = self.for_postgres()?.fetch(&mut **connection);
                rows.map_ok(FetchedRow::Postgres).boxed()
            }
            Connection::Sqlite(connection) => {
                let rows = self.for_sqlite()?.fetch(&mut **connection);
                rows.map_ok(FetchedRow::Sqlite).boxed()
            }
        })
    }

    /// Calls `read` with each row.
    async fn fetch_each(
        self,
        connection: &mut Connection<'_>,
        read: &mut (dyn FnMut(&FetchedRow) -> sqlx::Result<()> + Send),
    ) -> SqlResult<()> {
        let mut rows = self.fetch(connection)?;
        while let Some(row) = rows.try_next().await? {
            read(&row)?;
        }
        Ok(())
    }

    /// Returns the first row, if there is one.
    async fn fetch_first(self, connection: &mut Connection<'_>) -> SqlResult<Option<FetchedRow>> {
        Ok(match connection {
            Connection::Postgres(connection) => {
                let row = self.for_postgres()?.fetch_optional(&mut **connection).await?;
                row.map(FetchedRow::Postgres)
            }
            Connection::Sqlite(connection) => {
                let row = self.for_sqlite()?.fetch_optional(&mut **connection).await?;
                row.map(FetchedRow::Sqlite)
            }
        })
    }
}

/// Returns the error of a parameter that cannot be encoded.
#[expect(clippy::needless_pass_by_value, reason = "it maps the errors of results")]
fn unencodable(error: BoxDynError) -> SqlError {
    SqlError::new(StoreErrorKind::Internal, format!("a parameter cannot be encoded: {error}"))
}

/// A statement and its parameters. `T` is the type of its rows; `()` if it returns none.
pub(in crate::store) struct Query<T = ()> {
    statement: Statement,
    rows: PhantomData<fn() -> T>,
}

/// Returns a statement that returns no rows.
pub(in crate::store) fn query(sql: impl SqlSafeStr) -> Query {
    query_as(sql)
}

/// Returns a statement that returns rows of type `T`.
pub(in crate::store) fn query_as<T>(sql: impl SqlSafeStr) -> Query<T> {
    let sql = sql.into_sql_str();
    Query { statement: Statement { sql, values: Vec::new(), is_kept: true }, rows: PhantomData }
}

/// Returns a statement whose rows have one column, of type `T`.
pub(in crate::store) fn query_scalar<T>(sql: impl SqlSafeStr) -> ScalarQuery<T> {
    ScalarQuery(query_as(sql))
}

impl<T> Clone for Query<T> {
    fn clone(&self) -> Self {
        Self { statement: self.statement.clone(), rows: PhantomData }
    }
}

impl<T> Query<T> {
    /// Binds the next parameter.
    pub(in crate::store) fn bind(mut self, value: impl Value) -> Self {
        self.statement.values.push(Arc::new(value));
        self
    }
}

impl Query {
    /// Runs the statement.
    pub(in crate::store) async fn run(self, connection: &mut Connection<'_>) -> SqlResult<()> {
        self.execute(connection).await.map(drop)
    }

    /// Runs the statement and returns the number of rows that it changed.
    pub(in crate::store) async fn execute(self, connection: &mut Connection<'_>) -> SqlResult<u64> {
        self.statement.execute(connection).await
    }
}

/// Runs statements one after the other.
pub(in crate::store) async fn execute_all<const N: usize>(
    connection: &mut Connection<'_>,
    statements: [Query; N],
) -> SqlResult<()> {
    for statement in statements {
        statement.run(connection).await?;
    }
    Ok(())
}

/// Runs a statement on the rows of a batch, unless there are none. `statement` returns its text for
/// the table `r` of the rows. Its parameters are the rows and, if it is given, `now`.
pub(in crate::store) async fn write_rows<R: BatchRow>(
    connection: &mut Connection<'_>,
    rows: &[R],
    now: Option<Timestamp>,
    statement: impl FnOnce(&str) -> String,
) -> SqlResult<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let text = statement(&connection.dialect().rows::<R>("$1"));
    let query = query(AssertSqlSafe(text)).bind(json(rows));
    let query = match now {
        Some(now) => query.bind(now),
        None => query,
    };
    query.run(connection).await
}

impl<T: ReadRow> Query<T> {
    /// Returns the rows one by one, as they arrive.
    pub(in crate::store) fn fetch<'e>(
        self,
        connection: &'e mut Connection<'_>,
    ) -> SqlResult<BoxStream<'e, sqlx::Result<T>>> {
        let rows = self.statement.fetch(connection)?;
        Ok(rows.map(|row| row?.read()).boxed())
    }

    /// Returns all rows.
    pub(in crate::store) async fn fetch_all(
        self,
        connection: &mut Connection<'_>,
    ) -> SqlResult<Vec<T>> {
        let mut rows = Vec::new();
        let mut read = |row: &FetchedRow| row.read().map(|row| rows.push(row));
        self.statement.fetch_each(connection, &mut read).await?;
        Ok(rows)
    }

    /// Returns the first row, if there is one.
    pub(in crate::store) async fn fetch_optional(
        self,
        connection: &mut Connection<'_>,
    ) -> SqlResult<Option<T>> {
        let row = self.statement.fetch_first(connection).await?;
        Ok(row.map(|row| row.read()).transpose()?)
    }

    /// Returns the row of a statement that always returns one.
    pub(in crate::store) async fn fetch_one(self, connection: &mut Connection<'_>) -> SqlResult<T> {
        let row = self.fetch_optional(connection).await?;
        row.ok_or_else(|| SqlError::new(StoreErrorKind::Internal, "a statement returned no row"))
    }
}

/// A statement whose rows have one column.
pub(in crate::store) struct ScalarQuery<T>(Query<(T,)>);

impl<T> Clone for ScalarQuery<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> ScalarQuery<T> {
    /// Binds the next parameter.
    pub(in crate::store) fn bind(self, value: impl Value) -> Self {
        Self(self.0.bind(value))
    }

    /// Lets the database plan the statement for its parameters at each use. A statement that the
    /// connection keeps gets one plan for all parameters in PostgreSQL, after some uses.
    pub(in crate::store) fn planned_each_time(self) -> Self {
        let statement = Statement { is_kept: false, ..self.0.statement };
        Self(Query { statement, rows: PhantomData })
    }
}

impl<T> ScalarQuery<T>
where
    (T,): ReadRow,
{
    /// Returns the values of all rows.
    pub(in crate::store) async fn fetch_all(
        self,
        connection: &mut Connection<'_>,
    ) -> SqlResult<Vec<T>> {
        let rows = self.0.fetch_all(connection).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }

    /// Returns the value of the first row, if there is one.
    pub(in crate::store) async fn fetch_optional(
        self,
        connection: &mut Connection<'_>,
    ) -> SqlResult<Option<T>> {
        Ok(self.0.fetch_optional(connection).await?.map(|(value,)| value))
    }

    /// Returns the value of a statement that always returns a row.
    pub(in crate::store) async fn fetch_one(self, connection: &mut Connection<'_>) -> SqlResult<T> {
        let (value,) = self.0.fetch_one(connection).await?;
        Ok(value)
    }
}

/// Builds a statement from parts and their parameters.
pub(in crate::store) struct QueryBuilder {
    sql: String,
    values: Vec<Arc<dyn Value>>,
}

impl QueryBuilder {
    pub(in crate::store) fn new(start: &str) -> Self {
        Self { sql: start.to_owned(), values: Vec::new() }
    }

    /// Appends a part of the statement's text.
    pub(in crate::store) fn push(&mut self, part: &str) -> &mut Self {
        self.sql.push_str(part);
        self
    }

    /// Appends the next parameter.
    pub(in crate::store) fn bind(&mut self, value: impl Value) -> &mut Self {
        self.values.push(Arc::new(value));
        let parameter = format!("${}", self.values.len());
        self.push(&parameter)
    }

    /// Returns the text that was built so far.
    #[cfg(test)]
    pub(in crate::store) fn text(&self) -> &str {
        &self.sql
    }

    /// Returns a statement whose rows have one column.
    pub(in crate::store) fn scalar<T>(self) -> ScalarQuery<T> {
        let sql = AssertSqlSafe(self.sql).into_sql_str();
        let statement = Statement { sql, values: self.values, is_kept: true };
        ScalarQuery(Query { statement, rows: PhantomData })
    }
}
