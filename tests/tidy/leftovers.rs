//! Leftovers: notes to self, stubs, debug output.

use crate::rust::tokens;
use crate::tree::{File, Finding, Tree};

/// Notes to self, in two halves, so that this file does not contain them.
const NOTES: [(&str, &str); 4] = [("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("HA", "CK")];

/// Macros for missing code or for debugging.
const STUBS: [&str; 3] = ["todo", "unimplemented", "dbg"];

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path != "Cargo.lock") {
        notes(file, &mut findings);
        if file.is_rust() {
            stubs(file, &mut findings);
        }
    }
    findings
}

fn notes(file: &File, findings: &mut Vec<Finding>) {
    for (line, text) in file.lines() {
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        if let Some(word) = words.find(|word| {
            NOTES.iter().any(|(a, b)| word.strip_prefix(a).is_some_and(|rest| rest == *b))
        }) {
            findings.push(Finding::at(file, line, format!("{word}: do it or drop it")));
        }
    }
}

fn stubs(file: &File, findings: &mut Vec<Finding>) {
    for two in tokens(file).windows(2) {
        if let Some(word) = two[0].word()
            && STUBS.contains(&word)
            && two[1].is_sign('!')
        {
            findings.push(Finding::at(file, two[0].line, format!("{word}! was left behind")));
        }
    }
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
    fn finds_notes_and_stubs() {
        let note = concat!("// TO", "DO: later\n");
        let sql = concat!("-- FIX", "ME");
        let stub = "fn a() { dbg!(1) }\nfn b() { todo!() }\n";
        let tree =
            Tree::of(&[("src/a.rs", note), ("migrations/sqlite/1.sql", sql), ("src/b.rs", stub)]);
        let expected = ["src/a.rs:1", "1.sql:1", "src/b.rs:1: dbg!", "src/b.rs:2: todo!"];
        assert_finds(&check(&tree), &expected);
    }

    #[test]
    fn leaves_look_alikes_alone() {
        let text = "// a mastodon, METHOD_HACKERS\nfn todo() { println(\"dbg!(1)\") }";
        assert_finds(&check(&Tree::of(&[("src/a.rs", text)])), &[]);
    }
}
