//! Bar charts, drawn as SVG on the server. A chart has a label for screen readers, each bar has a
//! tooltip, and a table beside the chart has the same values.

use maud::{Markup, html};

/// The distance between two bars, the gap between them, and the height of a chart.
const STEP: usize = 16;
const GAP: usize = 4;
const HEIGHT: u64 = 120;
/// The height of the longest bar and of the shortest.
const MAX_BAR: u64 = 116;
const MIN_BAR: u64 = 2;

/// A bar of a chart.
pub(super) struct ChartBar {
    /// The class, which gives the colour.
    pub(super) class: &'static str,
    /// The number of bars to the left of this one, drawn or not.
    pub(super) position: usize,
    pub(super) value: u64,
    /// The tooltip.
    pub(super) title: String,
}

/// Renders bars in proportion to the largest value. `room` is the number of bars that fit.
pub(super) fn bars(label: &str, room: usize, bars: &[ChartBar]) -> Markup {
    let most = bars.iter().map(|bar| bar.value).max().unwrap_or(0);
    let content = html! {
        @for ChartBar { class, position, value, title } in bars {
            @let height = height(*value, most);
            rect class=(class) x=(position * STEP) y=(HEIGHT - height) width=(STEP - GAP)
                height=(height) {
                title { (title) }
            }
        }
    };
    frame(label, room, &content)
}

/// A bar that consists of parts.
pub(super) struct StackedBar {
    /// The number of bars to the left of this one, drawn or not.
    pub(super) position: usize,
    /// The parts from the bottom to the top: their classes, which give the colours, and values.
    pub(super) parts: Vec<(&'static str, u64)>,
    /// The value of a bar of the full height.
    pub(super) full: u64,
    /// The tooltip.
    pub(super) title: String,
}

/// Renders bars that consist of parts. `room` is the number of bars that fit.
pub(super) fn stacks(label: &str, room: usize, stacks: &[StackedBar]) -> Markup {
    let content = html! {
        @for stack in stacks {
            g {
                title { (stack.title) }
                @for (class, top, height) in heights(stack) {
                    rect class=(class) x=(stack.position * STEP) y=(top) width=(STEP - GAP)
                        height=(height) {}
                }
            }
        }
    };
    frame(label, room, &content)
}

/// Renders the drawing around bars, with the line on which they stand.
fn frame(label: &str, room: usize, bars: &Markup) -> Markup {
    let width = STEP * room;
    html! {
        svg.chart viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" role="img"
            aria-label=(label) {
            (bars)
            line.line x1="0" y1=(HEIGHT) x2=(width) y2=(HEIGHT) {}
        }
    }
}

/// Returns the class, the top and the height of each part that has a value.
fn heights(stack: &StackedBar) -> Vec<(&'static str, u64, u64)> {
    let parts = stack.parts.iter().filter(|(_, value)| *value > 0);
    let room = MAX_BAR - MIN_BAR * parts.clone().count() as u64;
    let mut top = HEIGHT;
    let part = |(class, value): &(&'static str, u64)| {
        let height = MIN_BAR + value.saturating_mul(room) / stack.full.max(1);
        top = top.saturating_sub(height);
        (*class, top, height)
    };
    parts.map(part).collect()
}

/// Renders the key of the colours of parts: classes and names, from the bottom to the top.
pub(super) fn key<'a>(parts: impl IntoIterator<Item = (&'static str, &'a str)>) -> Markup {
    html! {
        ul.key {
            @for (class, name) in parts {
                li { i class=(class) aria-hidden="true" {} (name) }
            }
        }
    }
}

/// Renders the values of a chart as a table that opens on demand.
pub(super) fn values(summary: &str, table: &Markup) -> Markup {
    html! { details { summary { (summary) } (table) } }
}

fn height(value: u64, most: u64) -> u64 {
    (value.saturating_mul(MAX_BAR) / most.max(1)).max(MIN_BAR)
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
    fn parts_stand_on_each_other_and_fit() {
        let stack = |parts: &[(&'static str, u64)], full| {
            let stack =
                StackedBar { position: 2, parts: parts.to_vec(), full, title: "a < b".to_owned() };
            (heights(&stack), stacks("Jobs", 10, &[stack]).into_string())
        };
        let (parts, chart) = stack(&[("success", 50), ("failed", 0), ("cancelled", 50)], 100);
        assert_eq!(parts, [("success", 62, 58), ("cancelled", 4, 58)]);
        assert!(chart.contains("<title>a &lt; b</title>"), "{chart}");
        assert!(chart.contains(r#"x="32" y="62" width="12" height="58""#), "{chart}");
        let (uneven, _) =
            stack(&[("success", 1_000_000), ("failed", 1), ("cancelled", 1)], 1_000_002);
        assert!(uneven.iter().all(|(_, top, height)| *top >= 4 && *height >= 2), "{uneven:?}");
        assert_eq!(stack(&[("success", 0)], 0).0, []);
    }

    #[test]
    fn a_bar_stands_at_its_place_and_has_its_title() {
        let bar = ChartBar { class: "load", position: 3, value: 7, title: "7 < 8".to_owned() };
        let chart = bars("Load", 10, &[bar]).into_string();
        assert!(chart.contains(r#"viewBox="0 0 160 120""#), "{chart}");
        assert!(chart.contains(r#"x="48" y="4" width="12" height="116""#), "{chart}");
        assert!(chart.contains("<title>7 &lt; 8</title>"), "{chart}");
    }
}
