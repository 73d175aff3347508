//! Printing of results, messages and tables.

use std::io::{ErrorKind, Write};

use super::CliError;

/// Prints a result to standard output. A closed pipe is not a failure.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CliError::failed(format!("cannot write the result: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a line to standard error. A failure is ignored, because it cannot be reported.
pub(super) fn complain(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Formats rows as aligned columns.
pub(super) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let head = head.map(str::to_owned);
    let rows: Vec<&[String; N]> = std::iter::once(&head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_letters() {
        let rows = [["é".into(), "1".into()], ["long".into(), String::new()]];
        assert_eq!(table(["A", "B"], &rows), "A     B\né     1\nlong\n");
    }
}
