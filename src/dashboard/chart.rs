//! Bar charts, drawn as SVG on the server. A chart has a label for screen readers, each bar has a
//! tooltip, and a table beside the chart has the same values.

use maud::{Markup, html};

/// The distance between two bars, the gap between them, and the height of a chart.
const STEP: usize = 16;
const GAP: usize = 4;
const HEIGHT: u64 = 120;
/// The height of the longest bar and of the shortest.
const LONGEST: u64 = 116;
const SHORTEST: u64 = 2;

/// A bar of a chart.
pub(super) struct Bar {
    /// The class, which gives the colour.
    pub(super) class: &'static str,
    /// The number of bars to the left of this one, drawn or not.
    pub(super) place: usize,
    pub(super) value: u64,
    /// The tooltip.
    pub(super) title: String,
}

/// Renders bars in proportion to the largest value. `room` is the number of bars that fit.
pub(super) fn bars(label: &str, room: usize, bars: &[Bar]) -> Markup {
    let most = bars.iter().map(|bar| bar.value).max().unwrap_or(0);
    let width = STEP * room;
    html! {
        svg.chart viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" role="img"
            aria-label=(label) {
            @for Bar { class, place, value, title } in bars {
                @let height = height(*value, most);
                rect class=(class) x=(place * STEP) y=(HEIGHT - height) width=(STEP - GAP)
                    height=(height) {
                    title { (title) }
                }
            }
            line.line x1="0" y1=(HEIGHT) x2=(width) y2=(HEIGHT) {}
        }
    }
}

/// Renders the values of a chart as a table that opens on demand.
pub(super) fn values(summary: &str, table: &Markup) -> Markup {
    html! { details { summary { (summary) } (table) } }
}

fn height(value: u64, most: u64) -> u64 {
    (value.saturating_mul(LONGEST) / most.max(1)).max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion_and_never_invisible() {
        assert_eq!([0, 1, 50, 100].map(|value| height(value, 100)), [2, 2, 58, 116]);
        assert_eq!(height(0, 0), 2);
    }

    #[test]
    fn a_bar_stands_at_its_place_and_has_its_title() {
        let bar = Bar { class: "load", place: 3, value: 7, title: "7 < 8".to_owned() };
        let chart = bars("Load", 10, &[bar]).into_string();
        assert!(chart.contains(r#"viewBox="0 0 160 120""#), "{chart}");
        assert!(chart.contains(r#"x="48" y="4" width="12" height="116""#), "{chart}");
        assert!(chart.contains("<title>7 &lt; 8</title>"), "{chart}");
    }
}
