//! Checks that the files and the items of modules that documents and comments name exist.

use std::collections::BTreeSet;

use crate::tree::{File, Finding, Tree};

/// The folders of the repository. A word that begins with one of them is read as a path.
const FOLDERS: [&str; 7] =
    ["src/", "tests/", "benches/", "docs/", "migrations/", "charts/", ".ci/"];

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let modules = Items::of(tree);
    for file in &tree.files {
        for (line, text) in file.lines() {
            let Some(prose) = prose(file, text) else { continue };
            for path in paths(prose).filter(|path| !tree.has(path)) {
                findings.push(Finding::at(file, line, format!("there is no {path}")));
            }
            for item in code_spans(prose).filter(|item| modules.lacks(item)) {
                findings.push(Finding::at(file, line, format!("there is no `{item}`")));
            }
        }
    }
    findings
}

/// Returns the part of a line that is prose: the whole line in Markdown, the comment elsewhere.
fn prose<'a>(file: &File, line: &'a str) -> Option<&'a str> {
    let after = |mark: &str| line.split_once(mark).map(|(_, comment)| comment);
    let script = file.path.rsplit('/').next().is_some_and(|name| !name.contains('.'));
    match file.path.rsplit('.').next() {
        Some("md") => Some(line),
        Some("rs") => after("// ").or_else(|| after("/// ")).or_else(|| after("//! ")),
        Some("sql") => after("--"),
        Some("toml" | "yml" | "yaml") => after("#"),
        _ if script => after("#"),
        _ => None,
    }
}

/// Returns the words of a line that are paths of the repository.
fn paths(prose: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || "./_-*<>".contains(c);
    let words = prose.split(move |c: char| !is_part(c));
    words
        .filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)))
        .filter(|word| !word.contains(['*', '<']))
        .map(|word| word.trim_end_matches(['.', '-']))
}

/// Returns the texts between backticks.
pub fn code_spans(prose: &str) -> impl Iterator<Item = &str> {
    prose.split('`').skip(1).step_by(2)
}

/// The top-level modules of the crate, each with the words of its code and of its file names.
struct Items(Vec<(String, BTreeSet<String>)>);

impl Items {
    fn of(tree: &Tree) -> Self {
        let mut all: Vec<(String, BTreeSet<String>)> = Vec::new();
        for file in tree.rust("src/") {
            let Some((module, rest)) = file.path["src/".len()..].split_once('/') else { continue };
            if all.last().is_none_or(|(last, _)| last != module) {
                all.push((module.to_owned(), BTreeSet::new()));
            }
            let Some((_, items)) = all.last_mut() else { continue };
            let code = file.lines().map(|(_, line)| line.split("//").next().unwrap_or(line));
            let words =
                code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
            items.extend(words.map(str::to_owned));
            items.extend(rest.trim_end_matches(".rs").split('/').map(str::to_owned));
        }
        Self(all)
    }

    /// Returns `true` if a code span names an item that its module does not contain.
    fn lacks(&self, span: &str) -> bool {
        let plain = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let mut words = span.trim_start_matches("crate::").split("::");
        let module = words.next().unwrap_or_default();
        let Some((_, items)) = self.0.iter().find(|(name, _)| name == module) else { return false };
        span.chars().all(plain) && words.any(|word| !items.contains(word))
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
    fn finds_dead_paths() {
        let dead = concat!("src", "/gone.rs");
        let readme = format!("See {dead} and `src/a/mod.rs`.\n\n    src/a/  all of it\n");
        let comments = format!("//! As in {dead}.\nlet a = \"{dead}\";");
        let sql = format!("-- {dead}\n");
        let files =
            [("README.md", readme.as_str()), ("src/a/mod.rs", &comments), ("tests/a.sql", &sql)];
        let expected = ["README.md:1: there", "mod.rs:1: there is no", "a.sql:1: there"];
        assert_finds(&check(&Tree::of(&files)), &expected);
    }

    #[test]
    fn finds_dead_items() {
        let text =
            concat!("//! Not `run", "time::Watch` but `runtime::Clock`, `std::time::Instant`.\n");
        let tree = Tree::of(&[
            ("src/a/mod.rs", text),
            ("src/runtime/clock.rs", "pub struct Clock; // Watch"),
        ]);
        assert_finds(&check(&tree), &["src/a/mod.rs:1: there is no `runtime::Watch`"]);
    }
}
