//! How a statement takes apart the JSON text that holds a batch.

use crate::store::batch_rows::Of;

/// The rows of the batch in a parameter, as a table `r`.
pub(super) fn rows(parameter: &str, columns: &[(&str, Of)]) -> String {
    let column = |(name, of): &(&str, Of)| match of {
        Of::Id => format!("unhex(value ->> '{name}') AS {name}"),
        _ => format!("value ->> '{name}' AS {name}"),
    };
    let columns = columns.iter().map(column).collect::<Vec<_>>().join(", ");
    format!("(SELECT {columns} FROM json_each({parameter})) AS r")
}

/// The condition that a column holds one of the values in a parameter.
pub(super) fn among(column: &str, of: Of, parameter: &str) -> String {
    let value = if of == Of::Id { "unhex(value)" } else { "value" };
    format!("{column} IN (SELECT {value} FROM json_each({parameter}))")
}
