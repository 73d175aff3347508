//! What the README tells people to type works: the binary knows the commands and options, cargo
//! knows the benches, `tests/run` knows its words, the program knows the variables.

use std::collections::BTreeSet;
use std::process::Command;

use crate::settings::settings;
use crate::tree::{File, Finding, Tree};

fn check(tree: &Tree) -> Vec<Finding> {
    let Some(readme) = tree.get("README.md") else {
        return vec![Finding::new("README.md", "is missing")];
    };
    let mut findings = Vec::new();
    for (line, text) in readme.lines() {
        for complaint in [bench(tree, text), test_word(tree, text), variable(tree, text)] {
            findings.extend(complaint.map(|what| Finding::at(readme, line, what)));
        }
    }
    findings.extend(unmapped(tree, readme));
    findings
}

/// The map names each folder of the source.
fn unmapped(tree: &Tree, readme: &File) -> Vec<Finding> {
    let inner = tree.files.iter().filter_map(|file| file.path.strip_prefix("src/"));
    let folders: BTreeSet<&str> = inner.filter_map(|path| Some(path.split_once('/')?.0)).collect();
    let lacks = |folder: &&str| !readme.text.contains(&format!("`src/{folder}/`"));
    let complaint = |folder| Finding::new("README.md", format!("the map lacks src/{folder}/"));
    folders.into_iter().filter(lacks).map(complaint).collect()
}

/// Benches are declared.
fn bench(tree: &Tree, line: &str) -> Option<String> {
    let (_, name) = line.split_once("cargo bench --bench ")?;
    let name = first_word(name);
    let declared = format!("name = \"{name}\"");
    let known = tree.get("Cargo.toml").is_some_and(|manifest| manifest.text.contains(&declared));
    (!known).then(|| format!("there is no bench {name}"))
}

/// `tests/run` has a case for each word it is called with.
fn test_word(tree: &Tree, line: &str) -> Option<String> {
    let (_, word) = line.split_once("tests/run ")?;
    let word = first_word(word);
    let script = tree.get("tests/run").map_or("", |file| &file.text);
    let mut cases = script.lines().filter_map(|line| line.trim().split_once(')'));
    let known =
        word.is_empty() || cases.any(|(cases, _)| cases.split('|').any(|c| c.trim() == word));
    (!known).then(|| format!("tests/run knows no {word}"))
}

/// There is a setting for the variable, or the source names it.
fn variable(tree: &Tree, line: &str) -> Option<String> {
    let names = line.split(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_');
    let mut names = names.filter(|name| name.starts_with("PUNCTUAL_"));
    let settings = settings(tree);
    let known = |name: &str| {
        settings.iter().any(|setting| setting.variable == name)
            || tree.rust("src/").any(|file| file.text.contains(name))
    };
    names.find(|name| !known(name)).map(|name| format!("nothing reads {name}"))
}

fn first_word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').next().unwrap_or_default()
}

/// What a line has the binary do: its words up to the first that is no plain word, and all options.
fn invocation(line: &str) -> Option<(Vec<&str>, Vec<&str>)> {
    let marks = ["punctual ", "cargo run --release -- "];
    let (_, call) = marks.iter().find_map(|mark| {
        line.split_once(mark)
            .filter(|(before, _)| before.ends_with(['`', '/', ' ', '$', '(']) || before.is_empty())
    })?;
    let call = call.split(['`', '|', ';', '#', ')']).next().unwrap_or(call);
    let words: Vec<&str> = call.split_whitespace().collect();
    let is_command = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase());
    let commands: Vec<&str> = words.iter().take_while(is_command).copied().collect();
    let options = words.into_iter().filter(|word| word.starts_with('-')).collect();
    (!commands.is_empty()).then_some((commands, options))
}

/// What the binary says to `commands --help`, if it knows them.
fn help(commands: &[&str]) -> Option<String> {
    let mut call = Command::new(env!("CARGO_BIN_EXE_punctual"));
    let output = call.args(commands).arg("--help").output().expect("the binary starts");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn unknown_calls(readme: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in readme.lines() {
        let Some((commands, options)) = invocation(text) else { continue };
        let Some(help) = help(&commands) else {
            findings.push(Finding::at(readme, line, format!("no command {}", commands.join(" "))));
            continue;
        };
        for option in options.iter().filter(|option| !help.contains(*option)) {
            findings.push(Finding::at(
                readme,
                line,
                format!("{} has no {option}", commands.join(" ")),
            ));
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
        assert_tidy(&unknown_calls(tree.get("README.md").expect("a README")));
    }

    #[test]
    fn finds_what_nothing_answers_to() {
        let readme = "cargo bench --bench cron\ncargo bench --bench gone\n`tests/run quick`, tests/run.\n\
                      tests/run gone\nPUNCTUAL_STORE_URL\nexport PUNCTUAL_GONE=1\n\
                      `src/config/`\n";
        let tree = Tree::of(&[
            ("README.md", readme),
            ("Cargo.toml", "[[bench]]\nname = \"cron\""),
            ("tests/run", "case $1 in\n  all | quick) quick ;;\nesac"),
            ("src/config/mod.rs", "PUNCTUAL_STORE_URL"),
            ("src/app/mod.rs", ""),
        ]);
        let expected = [
            "README.md:2: there is no bench gone",
            "README.md:4: tests/run knows no",
            "README.md:6: nothing",
            "lacks src/app/",
        ];
        assert_finds(&check(&tree), &expected);
    }

    #[test]
    fn finds_calls_the_binary_does_not_know() {
        let text = "Run `punctual key create --account NAME`.\n`punctual key shred`\n\
                    ./punctual serve --config F --gone\nthe punctual one\n";
        let tree = Tree::of(&[("README.md", text)]);
        let expected = ["README.md:2: no command key shred", "README.md:3: serve has no --gone"];
        assert_finds(&unknown_calls(&tree.files[0]), &expected);
    }
}
