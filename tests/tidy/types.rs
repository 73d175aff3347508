//! Names of types: each is unique in the crate, so that it says which type it is without its path.

use std::collections::BTreeMap;

use crate::rust::{Kind, is_test_file, test_files, tokens};
use crate::tree::{File, Finding, Tree};

/// Words that may not be the whole name of a type, because they say nothing about it.
const VAGUE: [&str; 143] = [
    "Aborts",
    "Addresses",
    "All",
    "Allowed",
    "Answer",
    "Answered",
    "Answers",
    "Attempted",
    "Attempts",
    "Away",
    "Batch",
    "Beat",
    "Block",
    "Body",
    "Bound",
    "Builder",
    "Busy",
    "Change",
    "Changed",
    "Changes",
    "Claimable",
    "Claiming",
    "Comparison",
    "Configured",
    "Context",
    "Copied",
    "Count",
    "Created",
    "Data",
    "Deleted",
    "Delivering",
    "Discovered",
    "Done",
    "Drop",
    "Due",
    "End",
    "Ended",
    "Ending",
    "Ends",
    "Entered",
    "Erased",
    "Exception",
    "Expected",
    "Eyes",
    "Fate",
    "Flow",
    "Gathered",
    "Granted",
    "Grants",
    "Heard",
    "Highest",
    "Holds",
    "How",
    "Index",
    "Inspected",
    "Joined",
    "Joins",
    "Judge",
    "Kept",
    "Known",
    "Layer",
    "Learnt",
    "Lent",
    "Limit",
    "Line",
    "Listening",
    "Loaded",
    "Locked",
    "Made",
    "Manner",
    "Messenger",
    "Moment",
    "Narrow",
    "New",
    "Next",
    "Of",
    "Open",
    "Order",
    "Owner",
    "Parsed",
    "Pause",
    "Pending",
    "Place",
    "Placed",
    "Point",
    "Presented",
    "Proven",
    "Published",
    "Raised",
    "Range",
    "Ranges",
    "Raw",
    "Read",
    "Readable",
    "Ready",
    "Relayed",
    "Relaying",
    "Resting",
    "Restored",
    "Retried",
    "Rotated",
    "Rotation",
    "Rows",
    "Rules",
    "Runner",
    "Runs",
    "Said",
    "Sample",
    "Seat",
    "Selection",
    "Sent",
    "Served",
    "Serving",
    "Settled",
    "Setup",
    "Share",
    "Shown",
    "Stack",
    "Started",
    "Starter",
    "Step",
    "Stopped",
    "Stores",
    "Taken",
    "Tally",
    "Targets",
    "Texts",
    "Triggered",
    "Unread",
    "Upkeep",
    "Upkept",
    "Usage",
    "Values",
    "View",
    "Waiting",
    "Wanted",
    "Watcher",
    "Windows",
    "Wish",
    "Within",
    "Wording",
    "Worked",
    "Working",
];

/// An alias that modules have by convention, as `std::io` does.
const ALIAS: &str = "Result";

fn check(tree: &Tree) -> Vec<Finding> {
    let tests = test_files(tree);
    let mut findings = Vec::new();
    let mut first: BTreeMap<String, &File> = BTreeMap::new();
    for file in tree.rust("src/").filter(|file| !is_test_file(&tests, &file.path)) {
        for (line, name) in types(file).into_iter().filter(|(_, name)| name != ALIAS) {
            if VAGUE.contains(&name.as_str()) {
                let what = format!("{name} does not say which type it is");
                findings.push(Finding::at(file, line, what));
            }
            // A file may declare a type twice, each time under another condition.
            let other = *first.entry(name.clone()).or_insert(file);
            if other.path != file.path {
                let what = format!("{} declares a type {name}, too", other.path);
                findings.push(Finding::at(file, line, what));
            }
        }
    }
    findings
}

/// Returns the types that a file declares outside of its tests, with their lines.
fn types(file: &File) -> Vec<(usize, String)> {
    let (mut found, mut depth) = (Vec::new(), 0_usize);
    let tokens = tokens(file);
    for pair in tokens.windows(2) {
        match pair[0].kind {
            Kind::Open(_) => depth += 1,
            Kind::Close(_) => depth -= 1,
            _ => {}
        }
        let is_item = ["struct", "enum", "trait"].iter().any(|word| pair[0].is_word(word));
        // Further in, `type` declares an associated type.
        let is_alias = depth == 0 && pair[0].is_word("type");
        if let Some(name) = pair[1].word()
            && (is_item || is_alias)
            && !pair[0].in_test
        {
            found.push((pair[0].line, name.to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{assert_finds, assert_tidy};

    #[test]
    fn repository() {
        let tree = Tree::repository();
        assert_tidy(&check(&tree));
        assert!(tree.rust("src/").flat_map(types).count() > 500, "types are found");
    }

    #[test]
    fn finds_a_name_that_is_taken() {
        let declares = |code| {
            let tree = [("src/a.rs", "pub struct Settings;"), ("src/b/c.rs", code)];
            check(&Tree::of(&tree))
        };
        for code in ["enum Settings { A }", "pub trait Settings {}", "type Settings = u8;"] {
            assert_finds(&declares(code), &["src/b/c.rs:1: src/a.rs declares a type Settings"]);
        }
        for code in [
            "struct OtherSettings;",
            "impl A for B { type Settings = u8; }",
            "#[cfg(test)] mod tests { struct Settings; }",
            "pub type Result<T> = std::result::Result<T, E>;",
        ] {
            assert_finds(&declares(code), &[]);
        }
    }

    #[test]
    fn finds_vague_names() {
        let findings = check(&Tree::of(&[("src/a.rs", "struct Batch;\nstruct FiringBatch;")]));
        assert_finds(&findings, &["src/a.rs:1: Batch does not say"]);
    }
}
