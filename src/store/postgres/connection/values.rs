//! The parameters of PostgreSQL's batches: one array for each column. The statement unpacks them
//! with `unnest`, so that its text does not depend on the number of rows.

/// Returns one column of rows as an array.
pub(in crate::store::postgres) fn column<'a, R, T>(
    rows: &'a [R],
    of: impl Fn(&'a R) -> T,
) -> Vec<T> {
    rows.iter().map(of).collect()
}
