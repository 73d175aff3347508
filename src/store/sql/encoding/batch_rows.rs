//! Batches of rows as one parameter: a JSON text that the statement takes apart with
//! [`Dialect::rows`](crate::store::sql::connection::Dialect::rows).

use serde::Serialize;

use super::hex::Hex;

/// The type of a column of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum ColumnType {
    /// An id of 16 bytes.
    Id,
    /// An integer of 16 bits.
    Small,
    /// An integer of 32 bits.
    Number,
    /// An integer of 64 bits, such as an instant in milliseconds.
    Large,
    /// A text.
    Text,
    /// A boolean.
    Flag,
}

impl ColumnType {
    /// The name of the type in PostgreSQL.
    pub(in crate::store) fn postgres_type(self) -> &'static str {
        match self {
            Self::Id => "uuid",
            Self::Small => "smallint",
            Self::Number => "integer",
            Self::Large => "bigint",
            Self::Text => "text",
            Self::Flag => "boolean",
        }
    }
}

/// A field of a row of a batch.
pub(in crate::store) trait BatchField {
    /// The type of its column, which may be null.
    const OF: ColumnType;
}

impl<T: BatchField> BatchField for Option<T> {
    const OF: ColumnType = T::OF;
}

macro_rules! batch_fields {
    ($($type:ty: $of:ident),*) => {
        $(impl BatchField for $type {
            const OF: ColumnType = ColumnType::$of;
        })*
    };
}

batch_fields!(Hex: Id, u8: Small, u16: Number, u32: Number, i64: Large, bool: Flag);
batch_fields!(&str: Text, String: Text);

/// A row of a batch.
pub(in crate::store) trait BatchRow: Serialize {
    /// The columns: names and types.
    const COLUMNS: &'static [(&'static str, ColumnType)];
}

/// Declares the struct of a row of a batch. Each field is a column of the same name.
///
/// ```ignore
/// batch_row! {
///     /// A schedule of an incident.
///     MemberRow { id: Hex, incident_id: Hex, schedule_id: Hex, failing: bool }
/// }
/// let statement = format!("SELECT r.id FROM {}", dialect.rows::<MemberRow>("$1"));
/// ```
macro_rules! batch_row {
    ($(#[$doc:meta])* $name:ident $(<$life:lifetime>)? { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(serde::Serialize)]
        struct $name $(<$life>)? { $($field: $type),* }

        impl $(<$life>)? $crate::store::sql::encoding::batch_rows::BatchRow for $name $(<$life>)? {
            const COLUMNS: &'static [(&'static str, $crate::store::sql::encoding::batch_rows::ColumnType)] =
                &[$((stringify!($field), <$type as $crate::store::sql::encoding::batch_rows::BatchField>::OF)),*];
        }
    };
}
pub(in crate::store) use batch_row;

/// The rows of a batch as the parameter of their statement.
pub(in crate::store) fn json<T: Serialize>(rows: &[T]) -> String {
    serde_json::to_string(rows).expect("numbers, texts and arrays always have a JSON form")
}

/// Ids as the parameter of their statement.
pub(in crate::store) fn json_ids(ids: impl IntoIterator<Item = [u8; 16]>) -> String {
    json(&ids.into_iter().map(Hex).collect::<Vec<_>>())
}
