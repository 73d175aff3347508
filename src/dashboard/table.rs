//! The frame of a table.

use maud::{Markup, html};

/// The head of a column. Numbers are aligned to the right.
#[derive(Clone, Copy)]
pub(super) enum Column<'a> {
    Text(&'a str),
    Number(&'a str),
    /// A column that narrow screens leave out. Its cells have the class `wide`, too.
    WideText(&'a str),
    WideNumber(&'a str),
}

/// Renders a table, which scrolls sideways where it is too wide. Screen readers read the caption
/// aloud; it is empty if a heading above says the same.
pub(super) fn render(caption: &str, columns: &[Column<'_>], rows: &Markup) -> Markup {
    framed("scroll", (caption, columns), rows)
}

/// Renders a table like [`render`] that narrow screens show as a list: each row is a block, in which
/// cells with a `data-label` begin with it.
pub(super) fn render_stacked(caption: &str, columns: &[Column<'_>], rows: &Markup) -> Markup {
    framed("scroll stack", (caption, columns), rows)
}

fn framed(class: &str, (caption, columns): (&str, &[Column<'_>]), rows: &Markup) -> Markup {
    html! {
        div class=(class) tabindex="0" {
            table {
                @if !caption.is_empty() { caption.hidden { (caption) } }
                thead {
                    tr {
                        @for column in columns {
                            @match column {
                                Column::Text(name) => { th scope="col" { (name) } }
                                Column::Number(name) => { th.number scope="col" { (name) } }
                                Column::WideText(name) => { th.wide scope="col" { (name) } }
                                Column::WideNumber(name) => {
                                    th.number.wide scope="col" { (name) }
                                }
                            }
                        }
                    }
                }
                tbody { (rows) }
            }
        }
    }
}
