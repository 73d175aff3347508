//! The parameters of PostgreSQL's batches: one array for each column. The statement unpacks them
//! with `unnest`, so that its text does not depend on the number of rows.

pub(in crate::store) use crate::store::sql::rows::number;
pub(in crate::store) use crate::store::sql::values::{bounds, key_from};

/// Returns one column of rows as an array.
pub(in crate::store::postgres) fn column<'a, R, T>(
    rows: &'a [R],
    of: impl Fn(&'a R) -> T,
) -> Vec<T> {
    rows.iter().map(of).collect()
}
