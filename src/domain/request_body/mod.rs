//! The JSON bodies of requests.
//!
//! A request is one struct. It derives `Deserialize`, which reads it, and `ToSchema`, which
//! documents it, so both always have the same fields. Each field is a [`Field`].
//!
//! Place in the flow: the API reads a request with [`object`] or [`Json`]. A command checks its
//! fields and collects the errors by name.
//!
//! Invariants:
//! - The whole body is checked before any part of it is used (S23).
//! - A body takes no more memory than its own size, apart from the values of the request's fields.
//!
//! On failure: a body that is no JSON, or no object, is a [`JsonError`]. A value of the wrong type
//! fails nothing; it is kept and becomes an error under the name of its field.

mod field;
mod json;
mod schema;

pub use field::{Field, FromJson};
pub use json::{Json, JsonError, object};
pub use schema::{instant, one_of};
