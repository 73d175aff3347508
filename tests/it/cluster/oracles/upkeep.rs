//! What replicas use: it comes back to what it was.

use super::super::history::{History, Use};
use super::{Violation, violation};

/// I12.
pub fn nothing_leaks(history: &History) -> Vec<Violation> {
    let grown = history.uses.iter().filter(|used| used.after > used.most);
    let what = |used: &Use| format!("{}: {} before, {} after", used.what, used.before, used.after);
    grown.map(|used| violation("I12", what(used))).collect()
}
