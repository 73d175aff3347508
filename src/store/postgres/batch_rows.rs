//! How a statement takes apart the JSON text that holds a batch.

use crate::store::batch_rows::Of;

fn type_of(of: Of) -> &'static str {
    match of {
        Of::Id => "uuid",
        Of::Small => "smallint",
        Of::Number => "integer",
        Of::Large => "bigint",
        Of::Text => "text",
        Of::Flag => "boolean",
    }
}

/// The rows of the batch in a parameter, as a table `r`.
pub(super) fn rows(parameter: &str, columns: &[(&str, Of)]) -> String {
    let columns = columns.iter().map(|(name, of)| format!("{name} {}", type_of(*of)));
    let columns = columns.collect::<Vec<_>>().join(", ");
    format!("json_to_recordset({parameter}::json) AS r ({columns})")
}

/// The condition that a column holds one of the values in a parameter. An array is built first: a join
/// would be left to statistics, of which there are none for a parameter.
pub(super) fn among(column: &str, of: Of, parameter: &str) -> String {
    let kind = type_of(of);
    format!(
        "{column} = ANY (ARRAY (SELECT value::{kind} FROM json_array_elements_text({parameter}::json)))"
    )
}
