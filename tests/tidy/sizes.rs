//! The maximum lengths of files and functions.

use std::collections::BTreeSet;

use crate::rust::{Kind, Token, closing, is_test_file, test_files, tokens};
use crate::tree::{File, Finding, Tree};

/// Lines of a source file, without its tests.
const FILE_LINES: usize = 400;
/// Lines of a function between its braces.
const FUNCTION_LINES: usize = 70;
/// Lines of the median source file, with its tests.
const MEDIAN_FILE_LINES: usize = 150;

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let tests = test_files(tree);
    let mut lengths = Vec::new();
    for file in tree.rust("src/") {
        lengths.push(file.lines().count());
        findings.extend(long_file(file, &tests));
    }
    for file in tree.rust("") {
        long_functions(file, &mut findings);
    }
    lengths.sort_unstable();
    if let Some(&median) = lengths.get(lengths.len() / 2)
        && median > MEDIAN_FILE_LINES
    {
        let what = format!("the median file has {median} lines, at most {MEDIAN_FILE_LINES}");
        findings.push(Finding::new("src", what));
    }
    findings
}

fn long_file(file: &File, tests: &BTreeSet<String>) -> Option<Finding> {
    if is_test_file(tests, &file.path) {
        return None;
    }
    let tokens = tokens(file);
    let test_lines: usize = tokens.chunk_by(|a, b| a.in_test == b.in_test).map(test_span).sum();
    let lines = file.lines().count() - test_lines;
    let what = format!("{lines} lines without its tests, at most {FILE_LINES}: split it");
    (lines > FILE_LINES).then(|| Finding::at(file, 1, what))
}

/// Returns the number of lines of a run of tokens if it is test code, and 0 otherwise.
fn test_span(run: &[Token]) -> usize {
    match run {
        [first, .., last] if first.in_test => last.line - first.line + 1,
        _ => 0,
    }
}

fn long_functions(file: &File, findings: &mut Vec<Finding>) {
    let tokens = tokens(file);
    for (at, two) in tokens.windows(2).enumerate() {
        let (true, Some(name)) = (two[0].is_word("fn"), two[1].word()) else { continue };
        let Some(body) = body(&tokens, at) else { continue };
        let end = closing(&tokens, body);
        let lines = (tokens[end].line - tokens[body].line).saturating_sub(1);
        if lines > FUNCTION_LINES {
            let what = format!("`{name}` has {lines} lines, at most {FUNCTION_LINES}: split it");
            findings.push(Finding::at(file, two[0].line, what));
        }
    }
}

/// Returns the index of the opening brace of the function at `start`, if it has a body.
fn body(tokens: &[Token], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        match &tokens.get(at)?.kind {
            Kind::Open('{') => return Some(at),
            Kind::Open(_) => at = closing(tokens, at),
            Kind::Sign(';') | Kind::Close(_) => return None,
            _ => {}
        }
        at += 1;
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
    fn finds_long_functions() {
        let body = |lines: usize| "    step();\n".repeat(lines);
        let (fine, long) = (body(FUNCTION_LINES), body(FUNCTION_LINES + 1));
        let text = format!("fn fine() -> [u8; 1] {{\n{fine}}}\nfn long() {{\n{long}}}\n");
        let text = format!("{text}\ntrait T {{ fn none(); }}\nlazy! {{ fn inner() {{\n{long}}} }}");
        let tree = Tree::of(&[("tests/a.rs", &text)]);
        assert_finds(&check(&tree), &["`long` has 71 lines", "`inner` has 71 lines"]);
    }

    #[test]
    fn finds_long_files_and_does_not_count_tests() {
        let consts = "const A: u8 = 1;\n".repeat(FILE_LINES);
        let tested = format!("{consts}#[cfg(test)]\nmod tests {{\n{consts}}}\n");
        let all = |long: &str| {
            let files = [("src/a.rs", ""), ("src/b.rs", ""), ("src/c.rs", tested.as_str())];
            check(&Tree::of(&[&files[..], &[("src/d.rs", ""), ("src/e.rs", long)]].concat()))
        };
        assert_finds(&all(""), &[]);
        assert_finds(&all(&format!("{consts}const B: u8 = 1;\n")), &["src/e.rs:1: 401 lines"]);
    }

    #[test]
    fn finds_a_median_that_grew() {
        let text = "const A: u8 = 1;\n".repeat(MEDIAN_FILE_LINES + 1);
        let tree = Tree::of(&[("src/a.rs", &text), ("src/b.rs", &text), ("src/c.rs", "")]);
        assert_finds(&check(&tree), &["median file has 151"]);
    }
}
