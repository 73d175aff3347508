//! Checks that the documents define the ids that are cited, and that they cite paths, tests,
//! settings and defaults that exist. Ids are those of faults, controls and invariants. The module
//! `readme` checks commands, variables, metrics and links.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::names::code_spans;
use crate::readme::documents;
use crate::settings::{Setting, settings};
use crate::tree::{File, Finding, Tree};

/// The documents whose tables define the ids, in the first cell of each row.
const DEFINING: [&str; 3] = ["docs/architecture.md", "docs/faults.md", "docs/security.md"];
/// The documents whose rows end with the tests that prove their statements.
const SHOWN: [&str; 2] = ["docs/faults.md", "docs/security.md"];
/// The text of such a row if there is no test.
const NOT_TESTED: &str = "Not tested";
/// The files and folders in which ids are cited.
const CITING: [&str; 6] = ["README.md", "benches/", "charts/", "docs/", "src/", "tests/"];
/// The folder in which the checks of recorded runs are cited, such as I4. Elsewhere such a word can
/// mean something else.
const RECORDED: &str = "tests/it/cluster/";
/// The prefixes of the ids of invariants.
const FAMILIES: [&str; 10] =
    ["ALERT", "JOB", "KEY", "LEAD", "QUEUE", "RATE", "RETRY", "STOP", "TENANT", "TICK"];
/// The folders of code.
const ROOTS: [&str; 3] = ["benches/", "src/", "tests/"];
/// The texts between the names of one list.
const JOINED: [&str; 3] = [", ", " and ", " or "];
/// File names in the documents that look like keys of settings.
const FILES: [&str; 2] = ["cluster.yaml", "secrets.key"];

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in DEFINING.iter().filter(|path| tree.get(path).is_none()) {
        findings.push(Finding::new(path, "is missing"));
    }
    let defined = defined(tree, &mut findings);
    findings.extend(undefined(tree, &defined));
    findings.extend(not_shown(tree));
    let settings = settings(tree);
    for document in documents(tree) {
        findings.extend(dead_names(tree, &settings, document));
        findings.extend(misplaced_names(tree, document));
        findings.extend(wrong_defaults(&settings, document));
    }
    findings.extend(not_linked(tree));
    findings
}

/// Returns the cells of a row of a table, and `None` for other lines and for the line below the
/// head.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    (!inner.starts_with('-')).then(|| inner.split('|').map(str::trim).collect())
}

/// Returns `true` if a word is the id of a fault, a control or an invariant or, with `of_records`,
/// of a check of recorded runs.
fn is_id(word: &str, of_records: bool) -> bool {
    let is_number = |text: &str, lengths: RangeInclusive<usize>| {
        lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if let Some((family, number)) = word.split_once('-') {
        return FAMILIES.contains(&family) && is_number(number, 1..=3);
    }
    match word.split_at_checked(1) {
        Some(("F", number)) => is_number(number, 2..=3),
        Some(("S", number)) => is_number(number, 2..=2),
        Some(("I", number)) => of_records && is_number(number, 1..=2),
        _ => false,
    }
}

/// Returns the ids that the documents define, and finds those that are defined twice.
fn defined(tree: &Tree, findings: &mut Vec<Finding>) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for document in DEFINING.iter().filter_map(|path| tree.get(path)) {
        for (line, text) in document.lines() {
            let first = cells(text).and_then(|cells| cells.first().copied());
            let Some(id) = first.filter(|word| is_id(word, true)) else { continue };
            if !ids.insert(id.to_owned()) {
                findings.push(Finding::at(document, line, format!("{id} is defined twice")));
            }
        }
    }
    ids
}

/// Finds cited ids that no document defines.
fn undefined(tree: &Tree, defined: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if !CITING.iter().any(|part| file.path.starts_with(part)) {
            continue;
        }
        let of_records = file.path.starts_with(RECORDED);
        for (line, text) in file.lines() {
            for id in words(text).filter(|word| is_id(word, of_records) && !defined.contains(*word))
            {
                findings.push(Finding::at(file, line, format!("no document defines {id}")));
            }
        }
    }
    findings
}

/// Returns the words of a text. A word with hyphens is followed by its parts.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let whole = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-');
    whole.flat_map(|word| {
        let parts = word.split('-').filter(move |part| part.len() < word.len());
        std::iter::once(word).chain(parts)
    })
}

/// Finds rows about faults and controls that cite missing tests, or that cite none and do not say
/// that they are not tested.
fn not_shown(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for document in SHOWN.iter().filter_map(|path| tree.get(path)) {
        for (line, text) in document.lines() {
            let Some(cells) = cells(text) else { continue };
            let [id, .., shown] = cells[..] else { continue };
            if !is_id(id, false) {
                continue;
            }
            if code_spans(shown).next().is_none() && !shown.contains(NOT_TESTED) {
                let what = format!("{id} cites no test and does not say {NOT_TESTED:?}");
                findings.push(Finding::at(document, line, what));
            }
            let missing = missing_tests(tree, shown).into_iter();
            findings.extend(missing.map(|what| Finding::at(document, line, what)));
        }
    }
    findings
}

/// Complains about cited paths that do not exist, and about cited functions that are not in the
/// file or folder cited before them.
fn missing_tests(tree: &Tree, cell: &str) -> Vec<String> {
    let mut path = "";
    let mut missing = Vec::new();
    for span in code_spans(cell) {
        if span.contains('/') {
            path = span;
            if !tree.has(path) {
                missing.push(format!("there is no {path}"));
            }
        } else if path.is_empty() || !has_function(tree, path, span) {
            missing.push(format!("there is no test {span} in {path:?}"));
        }
    }
    missing
}

fn has_function(tree: &Tree, path: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    tree.rust(path).any(|file| file.text.contains(&head))
}

/// Finds code spans in a document that name missing paths or settings.
fn dead_names(tree: &Tree, settings: &[Setting], document: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in document.lines() {
        for span in code_spans(text) {
            if is_dead_path(tree, span) {
                findings.push(Finding::at(document, line, format!("there is no file {span}")));
            }
            if is_dead_setting(settings, span) {
                findings.push(Finding::at(document, line, format!("there is no setting {span}")));
            }
        }
    }
    findings
}

/// Finds names that a document places "in" a path whose files do not have them, such as a function
/// that was moved.
fn misplaced_names(tree: &Tree, document: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in document.lines() {
        // The odd pieces are code spans, the even ones are between them.
        let pieces: Vec<&str> = text.split('`').collect();
        let (mut names, mut before) = (Vec::<&str>::new(), "");
        for pair in pieces.get(1..).unwrap_or_default().chunks_exact(2) {
            let span = pair[0];
            if before == " in " && ROOTS.iter().any(|root| span.starts_with(root)) {
                let misplaced = names.iter().filter(|name| !has_word(tree, span, name));
                let complain = |name: &&str| format!("there is no {name} in {span}");
                findings.extend(misplaced.map(|name| Finding::at(document, line, complain(name))));
            }
            if !JOINED.contains(&before) {
                names.clear();
            }
            if is_name(span) {
                names.push(span);
            }
            before = pair[1];
        }
    }
    findings
}

/// Returns `true` if a span is the name of an item of code.
fn is_name(span: &str) -> bool {
    span.len() > 1 && span.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn has_word(tree: &Tree, path: &str, name: &str) -> bool {
    tree.files.iter().filter(|file| file.path.starts_with(path)).any(|file| {
        file.text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
    })
}

/// Returns `true` if a span looks like a path of the repository or like the name of a source file,
/// but does not exist. For a path with a placeholder, the part before the placeholder counts.
fn is_dead_path(tree: &Tree, span: &str) -> bool {
    let word = span.split_whitespace().next().unwrap_or_default();
    let path = word.split(['<', '*']).next().unwrap_or_default().trim_start_matches("./");
    match path.split_once('/') {
        Some(("", _)) => false,
        Some((top, _)) => {
            tree.files.iter().any(|file| {
                let rest = file.path.strip_prefix(top);
                rest.is_some_and(|rest| rest.starts_with('/'))
            }) && !tree.has(path)
        }
        None => {
            let is_it = |file: &File| file.path.rsplit('/').next() == Some(path);
            path.ends_with(".rs") && path != ".rs" && !tree.files.iter().any(is_it)
        }
    }
}

/// Returns `true` if a span looks like a key in a table of the configuration, but the table does
/// not have this key.
fn is_dead_setting(settings: &[Setting], span: &str) -> bool {
    let Some((section, key)) = span.split_once('.') else { return false };
    let is_plain = |c: char| c.is_ascii_lowercase() || c == '_';
    if key.is_empty() || !key.chars().all(is_plain) || FILES.contains(&span) {
        return false;
    }
    let variable = format!("PUNCTUAL_{section}_{key}").to_uppercase();
    settings.iter().any(|setting| setting.section() == section)
        && !settings.iter().any(|setting| setting.variable == variable)
}

/// Finds wrong defaults in tables of settings.
fn wrong_defaults(settings: &[Setting], document: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut shows_defaults = false;
    for (line, text) in document.lines() {
        let Some(cells) = cells(text) else {
            shows_defaults &= text.starts_with('|');
            continue;
        };
        let [names, default, ..] = cells[..] else { continue };
        if default == "Default" {
            shows_defaults = true;
        } else if shows_defaults {
            let shown = if default == "none" { "" } else { default.trim_matches('`') };
            let of_name = |name: &str| settings.iter().find(|setting| setting.variable == name);
            for setting in code_spans(names).filter_map(of_name) {
                if setting.default() != shown {
                    let (name, right) = (&setting.variable, setting.default());
                    let what = format!("the default of {name} is {right:?}, not {shown:?}");
                    findings.push(Finding::at(document, line, what));
                }
            }
        }
    }
    findings
}

/// Finds documents that the README does not link to.
fn not_linked(tree: &Tree) -> Vec<Finding> {
    let readme = tree.get("README.md").map_or("", |file| &file.text);
    let of_docs = documents(tree).filter(|document| document.path.starts_with("docs/"));
    let lacks = |document: &&File| !readme.contains(&format!("]({})", document.path));
    let complaint =
        |document: &File| Finding::new("README.md", format!("does not link to {}", document.path));
    of_docs.filter(lacks).map(complaint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::DEFAULTS;
    use crate::tree::{assert_finds, assert_tidy};

    /// Split in two, so that this file does not cite an undefined id.
    const NO_FAULT: &str = concat!("F", "998");
    const NO_INVARIANT: &str = concat!("TICK", "-98");

    #[test]
    fn repository() {
        assert_tidy(&check(&Tree::repository()));
    }

    #[test]
    fn finds_undefined_ids() {
        let code = format!("// F01, S31–S32: {NO_FAULT}.\n// TICK-1-like, {NO_INVARIANT}, UTF-8\n");
        let faults = "| Id |\n|---|\n| F01 |\n| F01 |\n| I1 |\n";
        let security = "| | |\n| S31 | `tests/a.rs` |\n| S32 | `tests/a.rs` |\n";
        let tree = Tree::of(&[
            ("docs/faults.md", faults),
            ("docs/security.md", security),
            ("docs/architecture.md", "| TICK-1 | one |\n"),
            ("src/a.rs", &code),
            ("tests/it/cluster/a.rs", "// I1\n"),
        ]);
        let mut findings = Vec::new();
        let defined = defined(&tree, &mut findings);
        assert_finds(&findings, &["docs/faults.md:4: F01 is defined twice"]);
        let expected =
            ["src/a.rs:1: no document defines F", "src/a.rs:2: no document defines TICK"];
        assert_finds(&undefined(&tree, &defined), &expected);
    }

    #[test]
    fn finds_documents_that_are_missing() {
        let expected = DEFINING.map(|path| format!("{path}: is missing"));
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        assert_finds(&check(&Tree::of(&[])), &expected);
    }

    #[test]
    fn finds_tests_that_are_not_there() {
        let faults = "| F01 | a | `tests/a.rs` (`one`, `two`) |\n\
                      | F02 | b | Not tested. |\n\
                      | F04 | c | surely |\n\
                      | F05 | d | `tests/b.rs` |\n\
                      | F06 | e | `one` |\n";
        let tree = Tree::of(&[
            ("docs/faults.md", faults),
            ("tests/a.rs", "fn one() {}\nfn two_more() {}"),
        ]);
        let expected = [
            "docs/faults.md:1: there is no test two in \"tests/a.rs\"",
            "docs/faults.md:3: F04 cites no test",
            "docs/faults.md:4: there is no tests/b.rs",
            "docs/faults.md:5: there is no test one in \"\"",
        ];
        assert_finds(&not_shown(&tree), &expected);
    }

    #[test]
    fn finds_names_that_are_elsewhere() {
        let text = "`ONE`, `TWO` and `THREE` in `src/a.rs`. `GONE` stands beside `src/a.rs`.\n\
                    `one` in `src/`, `TW` in `src/a.rs`\n";
        let tree = Tree::of(&[("docs/a.md", text), ("src/a.rs", "const ONE; TWO fn one")]);
        let document = tree.get("docs/a.md").expect("it");
        let expected = [
            "docs/a.md:1: there is no THREE in src/a.rs",
            "docs/a.md:2: there is no TW in src/a.rs",
        ];
        assert_finds(&misplaced_names(&tree, document), &expected);
    }

    #[test]
    fn finds_names_of_nothing() {
        let file = "# The top.\nroles = [\"api\"]\n\n[notify]\n# So many.\nslots = 256\n";
        let text = "`src/a.rs` `src/<a>/` `src/gone/<a>/` `a.rs` `gone.rs` `tests/run quick` `/v1/a`\n\
                    `notify.slots` `notify.gone` `other.gone` `notify.one: 1`\n\n\
                    | Setting | Default | |\n|---|---|---|\n| `PUNCTUAL_NOTIFY_SLOTS` | 8 | |\n\n\
                    | `PUNCTUAL_NOTIFY_SLOTS`, 8 | 8 | |\n";
        let tree = Tree::of(&[
            (DEFAULTS, file),
            ("docs/a.md", text),
            ("src/a.rs", ""),
            ("tests/run", ""),
            ("README.md", "[b](docs/b.md)"),
        ]);
        let (settings, document) = (settings(&tree), tree.get("docs/a.md").expect("it"));
        let expected = [
            "docs/a.md:1: there is no file src/gone/<a>/",
            "docs/a.md:1: there is no file gone.rs",
            "docs/a.md:2: there is no setting notify.gone",
        ];
        assert_finds(&dead_names(&tree, &settings, document), &expected);
        let expected = ["docs/a.md:6: the default of PUNCTUAL_NOTIFY_SLOTS is \"256\", not \"8\""];
        assert_finds(&wrong_defaults(&settings, document), &expected);
        assert_finds(&not_linked(&tree), &["does not link to docs/a.md"]);
    }
}
