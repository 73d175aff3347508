//! Checks that the README and the other documents name things that exist: commands and options of
//! the binary, benches, words of `tests/run`, environment variables, metrics, and targets of links.

use std::collections::BTreeSet;
use std::process::Command;

use crate::settings::settings;
use crate::tree::{File, Finding, Tree};

/// The prefix of the names of all metrics, and the file that defines them.
const METRIC: &str = "punctual_";
const METRICS: &str = "src/telemetry/metrics/mod.rs";
/// The document with the map of the code.
const MAP: &str = "docs/architecture.md";
/// The document that says what each alert means.
const RUNBOOK: &str = "docs/operations.md";
/// The allowed length of the README, in lines. Longer texts have pages of their own.
const README_LINES: std::ops::RangeInclusive<usize> = 120..=180;

fn check(tree: &Tree) -> Vec<Finding> {
    if tree.get("README.md").is_none() {
        return vec![Finding::new("README.md", "is missing")];
    }
    let mut findings = Vec::new();
    for document in documents(tree) {
        for (line, text) in document.lines() {
            let complaints = [
                bench(tree, text),
                test_word(tree, text),
                variable(tree, text),
                metric(tree, text),
                link(tree, document, text),
            ];
            findings.extend(
                complaints.into_iter().flatten().map(|what| Finding::at(document, line, what)),
            );
        }
    }
    let map = tree.get(MAP).map_or("", |file| &file.text);
    findings.extend(unmapped(tree, map));
    findings.extend(alerts_without_a_section(tree));
    findings
}

/// Returns the documents for users and operators.
pub fn documents(tree: &Tree) -> impl Iterator<Item = &File> {
    let is_document = |file: &&File| {
        file.path == "README.md" || (file.path.starts_with("docs/") && file.path.ends_with(".md"))
    };
    tree.files.iter().filter(is_document)
}

/// Finds folders of the source that the map does not name.
fn unmapped(tree: &Tree, map: &str) -> Vec<Finding> {
    let inner = tree.files.iter().filter_map(|file| file.path.strip_prefix("src/"));
    let folders: BTreeSet<&str> = inner.filter_map(|path| Some(path.split_once('/')?.0)).collect();
    let lacks = |folder: &&str| !map.contains(&format!("`src/{folder}/`"));
    let complaint = |folder| Finding::new(MAP, format!("the map lacks src/{folder}/"));
    folders.into_iter().filter(lacks).map(complaint).collect()
}

/// Finds alerts that link to a missing section of the runbook.
fn alerts_without_a_section(tree: &Tree) -> Vec<Finding> {
    let sections: BTreeSet<String> = tree.get(RUNBOOK).into_iter().flat_map(headings).collect();
    let mut findings = Vec::new();
    for rules in tree.files.iter().filter(|file| file.path.starts_with("charts/")) {
        for (line, text) in rules.lines() {
            let Some((_, section)) = text.split_once(&format!("{RUNBOOK}#")) else { continue };
            let section = first_word(section);
            if !section.is_empty() && !sections.contains(section) {
                let what = format!("{RUNBOOK} has no section {section}");
                findings.push(Finding::at(rules, line, what));
            }
        }
    }
    findings
}

/// Finds a README that is too short, or too long to be read to its end.
fn length(tree: &Tree) -> Option<Finding> {
    let readme = tree.get("README.md")?;
    let lines = readme.text.lines().count();
    let (least, most) = (README_LINES.start(), README_LINES.end());
    let complaint = || Finding::new("README.md", format!("{lines} lines, not {least} to {most}"));
    (!README_LINES.contains(&lines)).then(complaint)
}

/// Complains about a bench that the manifest does not declare.
fn bench(tree: &Tree, line: &str) -> Option<String> {
    let (_, name) = line.split_once("cargo bench --bench ")?;
    let name = first_word(name);
    let declared = format!("name = \"{name}\"");
    let known = tree.get("Cargo.toml").is_some_and(|manifest| manifest.text.contains(&declared));
    (!known).then(|| format!("there is no bench {name}"))
}

/// Complains about a word that `tests/run` has no case for.
fn test_word(tree: &Tree, line: &str) -> Option<String> {
    let (_, word) = line.split_once("tests/run ")?;
    let word = first_word(word);
    let script = tree.get("tests/run").map_or("", |file| &file.text);
    let mut cases = script.lines().filter_map(|line| line.trim().split_once(')'));
    let known =
        word.is_empty() || cases.any(|(cases, _)| cases.split('|').any(|c| c.trim() == word));
    (!known).then(|| format!("tests/run knows no {word}"))
}

/// Complains about a variable that is not a setting and that no Rust file names.
fn variable(tree: &Tree, line: &str) -> Option<String> {
    let names = line.split(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_');
    let mut names = names.filter(|name| name.starts_with("PUNCTUAL_"));
    let settings = settings(tree);
    let known = |name: &str| {
        settings.iter().any(|setting| setting.variable == name)
            || tree.rust("").any(|file| file.text.contains(name))
    };
    names.find(|name| !known(name)).map(|name| format!("nothing reads {name}"))
}

/// Complains about a metric that is not defined.
fn metric(tree: &Tree, line: &str) -> Option<String> {
    let names = line.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '_');
    let mut names = names.filter(|name| name.len() > METRIC.len() && name.starts_with(METRIC));
    let table = tree.get(METRICS).map_or("", |file| &file.text);
    let known = |name: &str| table.contains(&format!("\"{name}\""));
    names.find(|name| !known(name)).map(|name| format!("there is no metric {name}"))
}

/// Complains about a link within the repository whose file or heading does not exist.
fn link(tree: &Tree, document: &File, line: &str) -> Option<String> {
    let links = line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    let mut local = links.filter(|link| !link.contains("://"));
    let folder = document.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let leads = |link: &str| {
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        let path = match path.strip_prefix("../") {
            _ if path.is_empty() => document.path.clone(),
            Some(path) => path.to_owned(),
            None if folder.is_empty() => path.to_owned(),
            None => format!("{folder}/{path}"),
        };
        let Some(file) = tree.get(&path) else { return false };
        heading.is_empty() || headings(file).any(|one| one == heading)
    };
    local.find(|link| !leads(link)).map(|link| format!("leads nowhere: {link}"))
}

/// Returns the anchors of the headings of a document, as links name them.
fn headings(file: &File) -> impl Iterator<Item = String> {
    let headings = file.text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let text = line.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

fn first_word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').next().unwrap_or_default()
}

/// Returns the calls of the binary in a document: the line, the words before the first one that is
/// not a plain word, and all options. In prose a call is in backticks; in a block of code it can be
/// anywhere.
fn calls(text: &str) -> Vec<(usize, Vec<&str>, Vec<&str>)> {
    let (mut in_block, mut found) = (false, Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        in_block ^= line.starts_with("```");
        for mark in ["punctual ", "cargo run --release -- "] {
            for (at, _) in line.match_indices(mark) {
                let before = line[..at].chars().next_back();
                let starts = match before {
                    None | Some(' ' | '/') => in_block,
                    before => before == Some('`'),
                };
                let (commands, options) = words(&line[at + mark.len()..]);
                if starts && !commands.is_empty() {
                    found.push((number, commands, options));
                }
            }
        }
    }
    found
}

/// Splits a call into its commands and its options.
fn words(call: &str) -> (Vec<&str>, Vec<&str>) {
    let call = call.split(['`', '|', ';', '#', '>']).next().unwrap_or(call);
    let is_plain = |c: char| c.is_ascii_lowercase() || c == '-';
    let is_command = |word: &&str| !word.starts_with('-') && word.chars().all(is_plain);
    let commands = call.split_whitespace().take_while(is_command).collect();
    (commands, call.split_whitespace().filter(|word| word.starts_with('-')).collect())
}

/// Returns the output of `commands --help`, or `None` if the binary does not know the commands.
fn help(commands: &[&str]) -> Option<String> {
    let mut call = Command::new(env!("CARGO_BIN_EXE_punctual"));
    let output = call.args(commands).arg("--help").output().expect("the binary starts");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn unknown_calls(readme: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, commands, options) in calls(&readme.text) {
        let call = commands.join(" ");
        let Some(help) = help(&commands) else {
            findings.push(Finding::at(readme, line, format!("no command {call}")));
            continue;
        };
        for option in options.iter().filter(|option| !help.contains(*option)) {
            findings.push(Finding::at(readme, line, format!("{call} has no {option}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{assert_finds, assert_tidy};

    #[test]
    fn repository() {
        let tree = Tree::repository();
        assert_tidy(&check(&tree));
        assert_tidy(&Vec::from_iter(length(&tree)));
        for document in documents(&tree) {
            assert_tidy(&unknown_calls(document));
        }
    }

    #[test]
    fn finds_what_nothing_answers_to() {
        let readme = "cargo bench --bench cron\ncargo bench --bench gone\n`tests/run quick`, tests/run.\n\
                      tests/run gone\nPUNCTUAL_STORE_URL\nexport PUNCTUAL_GONE=1\n\
                      `punctual_gone_total`, punctual_jobs_total, `punctual_`\n\
                      [a](docs/a.md#a-heading), [b](#gone)\n";
        let tree = Tree::of(&[
            ("README.md", readme),
            (MAP, "`src/config/`"),
            ("docs/a.md", "## A heading!\n[c](../README.md), [d](gone.md)\nPUNCTUAL_LOST"),
            (METRICS, "\"punctual_jobs_total\""),
            ("Cargo.toml", "[[bench]]\nname = \"cron\""),
            ("tests/run", "case $1 in\n  all | quick) quick ;;\nesac"),
            ("src/config/mod.rs", "PUNCTUAL_STORE_URL"),
            ("src/app/mod.rs", ""),
        ]);
        let expected = [
            "README.md:2: there is no bench gone",
            "README.md:4: tests/run knows no",
            "README.md:6: nothing",
            "README.md:7: there is no metric punctual_gone_total",
            "README.md:8: leads nowhere: #gone",
            "docs/a.md:2: leads nowhere: gone.md",
            "docs/a.md:3: nothing reads PUNCTUAL_LOST",
            "lacks src/app/",
            "lacks src/telemetry/",
        ];
        assert_finds(&check(&tree), &expected);
    }

    #[test]
    fn finds_alerts_without_a_section() {
        let rules = "  runbook_url: docs/operations.md#all-is-well\n\
                     runbook_url: docs/operations.md#gone\n{{ $url }}docs/operations.md#{{ $x }}\n";
        let tree = Tree::of(&[(RUNBOOK, "### All is well\n"), ("charts/a/rules.yaml", rules)]);
        let expected = ["charts/a/rules.yaml:2: docs/operations.md has no section gone"];
        assert_finds(&alerts_without_a_section(&tree), &expected);
    }

    #[test]
    fn finds_a_readme_that_is_too_long_or_too_short() {
        let readme = |lines: usize| Tree::of(&[("README.md", &"a\n".repeat(lines))]);
        assert_finds(&Vec::from_iter(length(&readme(119))), &["119 lines, not 120 to 180"]);
        assert_finds(&Vec::from_iter(length(&readme(180))), &[]);
        assert_finds(&Vec::from_iter(length(&readme(181))), &["181 lines"]);
    }

    #[test]
    fn finds_calls_the_binary_does_not_know() {
        let text = "Run `punctual key create --account NAME`.\n`punctual key shred`\n\
                    the punctual one\n```\n./punctual serve --config F --gone\n\
                    as punctual -- punctual gone\n```\n";
        let tree = Tree::of(&[("README.md", text)]);
        let expected = ["2: no command key shred", "5: serve has no --gone", "6: no command gone"];
        assert_finds(&unknown_calls(&tree.files[0]), &expected);
    }
}
