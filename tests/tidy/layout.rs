//! The allowed entries of the top folder, and the maximum size of a file.

use std::collections::BTreeSet;

use crate::tree::{Finding, Tree};

/// The allowed entries of the top folder, in addition to dot-files.
const TOP: [&str; 12] = [
    "Cargo.lock",
    "Cargo.toml",
    "Dockerfile",
    "LICENSE",
    "README.md",
    "benches",
    "charts",
    "deny.toml",
    "docs",
    "migrations",
    "src",
    "tests",
];

const FILE_BYTES: usize = 1_000_000;

fn check(tree: &Tree) -> Vec<Finding> {
    let tops: BTreeSet<&str> =
        tree.files.iter().filter_map(|file| file.path.split('/').next()).collect();
    let strange = tops.into_iter().filter(|top| !top.starts_with('.') && !TOP.contains(top));
    let mut findings: Vec<Finding> =
        strange.map(|top| Finding::new(top, "does not belong in the top folder")).collect();
    for file in tree.files.iter().filter(|file| file.bytes > FILE_BYTES) {
        let what = format!("{} bytes, at most {FILE_BYTES}", file.bytes);
        findings.push(Finding::new(&file.path, what));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{assert_finds, assert_tidy};

    #[test]
    fn repository() {
        assert_tidy(&check(&Tree::repository()));
    }

    #[test]
    fn finds_strangers_and_giants() {
        let giant = "x".repeat(FILE_BYTES + 1);
        let tree =
            Tree::of(&[("notes/a.md", ""), (".ci/run", ""), ("src/a.rs", ""), ("src/b", &giant)]);
        assert_finds(&check(&tree), &["notes: does not belong", "src/b: 1000001 bytes"]);
    }
}
