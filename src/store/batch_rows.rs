//! Batches of rows as one parameter: a JSON text that the statement takes apart. How it does so differs
//! between the databases; see `batch_rows` of each adapter.

use serde::Serialize;

use super::hex::Hex;

/// The type of a column of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Of {
    /// An id.
    Id,
    /// A small number.
    Small,
    /// A number.
    Number,
    /// An instant, or another large number.
    Large,
    /// A text.
    Text,
    /// Yes or no.
    Flag,
}

/// The rows of a batch as the parameter of their statement.
pub(in crate::store) fn json<T: Serialize>(rows: &[T]) -> String {
    serde_json::to_string(rows).expect("numbers, texts and arrays always have a JSON form")
}

/// Ids as the parameter of their statement.
pub(in crate::store) fn json_ids(ids: impl IntoIterator<Item = [u8; 16]>) -> String {
    json(&ids.into_iter().map(Hex).collect::<Vec<_>>())
}
