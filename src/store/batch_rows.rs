//! Batches of rows as one parameter: a JSON text that the statement takes apart with
//! [`Dialect::rows`](super::sql::connection::Dialect::rows).

use serde::Serialize;

use super::hex::Hex;

/// The rows of a batch as the parameter of their statement.
pub(in crate::store) fn json<T: Serialize>(rows: &[T]) -> String {
    serde_json::to_string(rows).expect("numbers, texts and arrays always have a JSON form")
}

/// Ids as the parameter of their statement.
pub(in crate::store) fn json_ids(ids: impl IntoIterator<Item = [u8; 16]>) -> String {
    json(&ids.into_iter().map(Hex).collect::<Vec<_>>())
}
