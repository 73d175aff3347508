//! The frame of a table.

use maud::{Markup, html};

/// The head of a column. Numbers are aligned to the right.
#[derive(Clone, Copy)]
pub(super) enum Column<'a> {
    Text(&'a str),
    Number(&'a str),
}

/// Renders a table, which scrolls sideways where it is too wide. Screen readers tell the caption; it
/// is empty if a heading above says the same.
pub(super) fn render(caption: &str, columns: &[Column<'_>], rows: &Markup) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table {
                @if !caption.is_empty() { caption.hidden { (caption) } }
                thead {
                    tr {
                        @for column in columns {
                            @match column {
                                Column::Text(name) => { th scope="col" { (name) } }
                                Column::Number(name) => { th.number scope="col" { (name) } }
                            }
                        }
                    }
                }
                tbody { (rows) }
            }
        }
    }
}
