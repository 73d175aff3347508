//! How the columns of a row are written while it is copied.

/// How a column is written in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Form {
    /// Numbers and texts as they are.
    Plain,
    /// An id, as 32 hexadecimal digits.
    Id,
    /// Other bytes, hexadecimal too, after a mark.
    Bytes,
}
