//! Resources of replicas: their usage returns to the initial level.

use super::super::history::{History, ResourceUsage};
use super::{Violation, violation};

/// I12: no resource leaks.
pub fn nothing_leaks(history: &History) -> Vec<Violation> {
    let grown = history.resource_usage.iter().filter(|used| used.after > used.most);
    let what = |used: &ResourceUsage| {
        format!("{}: {} before, {} after", used.what, used.before, used.after)
    };
    grown.map(|used| violation("I12", what(used))).collect()
}
