//! Finds the modules of the crate that a file names, in `use` declarations and in paths.

use std::collections::{BTreeMap, BTreeSet};

use crate::rust::{Kind, Token, closing, tokens};
use crate::tree::{File, Tree};

/// All modules of the crate, as paths from the root.
pub struct Modules(BTreeSet<Vec<String>>);

/// A reference to an item of the crate.
pub struct Reference {
    pub line: usize,
    /// The whole path from the root of the crate.
    pub path: Vec<String>,
    /// The module of the path: its longest prefix that is a module.
    pub module: Vec<String>,
}

/// Returns the module of a file.
pub fn module_of(path: &str) -> Vec<String> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    let inner = inner.strip_suffix("/mod").unwrap_or(inner);
    if inner == "lib" { Vec::new() } else { inner.split('/').map(str::to_owned).collect() }
}

impl Modules {
    pub fn of(tree: &Tree) -> Self {
        let mut all = BTreeSet::new();
        for file in tree.rust("src/") {
            let mut module = module_of(&file.path);
            while !module.is_empty() {
                all.insert(module.clone());
                module.pop();
            }
        }
        Self(all)
    }

    /// Returns the longest prefix of a path that is a module.
    fn module_in(&self, path: &[String]) -> Vec<String> {
        let lengths = (0..=path.len()).rev();
        let known = lengths.map(|length| &path[..length]).find(|part| self.0.contains(*part));
        known.unwrap_or_default().to_vec()
    }
}

/// Returns the references of a file to its crate, without those in its tests.
pub fn references(file: &File, modules: &Modules) -> Vec<Reference> {
    let tokens = tokens(file);
    let mut here = module_of(&file.path);
    // The end of each open inline module.
    let mut inline: Vec<usize> = Vec::new();
    // Modules that a `use` in this file imports.
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if inline.last() == Some(&at) {
            inline.pop();
            here.pop();
        }
        if let [first, second, third, ..] = &tokens[at..]
            && let (true, Some(name), Kind::Open('{')) =
                (first.is_word("mod"), second.word(), &third.kind)
        {
            here.push(name.to_owned());
            inline.push(closing(&tokens, at + 2));
        }
        if token.in_test || continues_a_path(&tokens, at) {
            continue;
        }
        let Some((base, after)) = base(&tokens, at, &here, modules, &names) else { continue };
        let mut paths = Vec::new();
        read_path(&tokens, after, base, &mut paths);
        for Path { path, name } in paths {
            let module = modules.module_in(&path);
            if path == module {
                names.extend(name.map(|name| (name, module.clone())));
            }
            found.push(Reference { line: token.line, path, module });
        }
    }
    found
}

/// Returns `true` if the token is inside a path, or is a field or a method.
fn continues_a_path(tokens: &[Token], at: usize) -> bool {
    at > 0
        && (tokens[at - 1].is_sign(':') || tokens[at - 1].is_sign('.'))
        && !(at > 1 && tokens[at - 1].is_sign(':') && !tokens[at - 2].is_sign(':'))
}

/// Returns the module that the path at a token starts from, and the index after its first `::`.
fn base(
    tokens: &[Token],
    at: usize,
    here: &[String],
    modules: &Modules,
    names: &BTreeMap<String, Vec<String>>,
) -> Option<(Vec<String>, usize)> {
    let mut base = match tokens[at].word()? {
        "crate" => Vec::new(),
        "self" => here.to_vec(),
        "super" => parent(here),
        name if names.contains_key(name) => names[name].clone(),
        name => {
            let child = [here, &[name.to_owned()]].concat();
            modules.0.contains(&child).then_some(child)?
        }
    };
    let mut next = at + 1;
    if !is_path_sign(tokens, next) {
        return None;
    }
    while is_path_sign(tokens, next) && tokens.get(next + 2)?.is_word("super") {
        base = parent(&base);
        next += 3;
    }
    Some((base, next))
}

fn parent(module: &[String]) -> Vec<String> {
    module.split_last().map_or_else(Vec::new, |(_, parent)| parent.to_vec())
}

fn is_path_sign(tokens: &[Token], at: usize) -> bool {
    matches!(tokens.get(at..at + 2), Some([a, b]) if a.is_sign(':') && b.is_sign(':'))
}

/// A path, and its local name if it is imported.
struct Path {
    path: Vec<String>,
    name: Option<String>,
}

/// Reads a path on from a possible `::`, and branches at braces.
fn read_path(tokens: &[Token], at: usize, base: Vec<String>, paths: &mut Vec<Path>) {
    let next = tokens.get(at + 2).filter(|_| is_path_sign(tokens, at));
    match next.map(|token| &token.kind) {
        Some(Kind::Word(word)) => read_path(tokens, at + 3, join(&base, word), paths),
        Some(Kind::Open('{')) => {
            let end = closing(tokens, at + 2);
            let mut item = at + 3;
            while item < end {
                if let Some(word) = tokens[item].word() {
                    read_path(tokens, item + 1, join(&base, word), paths);
                }
                item = after_comma(tokens, item, end);
            }
        }
        _ => {
            let renamed = tokens.get(at).filter(|token| token.is_word("as"));
            let name = renamed.and_then(|_| tokens.get(at + 1)?.word());
            let name = name.map(str::to_owned).or_else(|| base.last().cloned());
            paths.push(Path { path: base, name });
        }
    }
}

fn join(base: &[String], word: &str) -> Vec<String> {
    if word == "self" { base.to_vec() } else { [base, &[word.to_owned()]].concat() }
}

/// Returns the index after the next comma outside of inner braces, or `end`.
fn after_comma(tokens: &[Token], mut at: usize, end: usize) -> usize {
    while at < end {
        match tokens[at].kind {
            Kind::Open(_) => at = closing(tokens, at),
            Kind::Sign(',') => return at + 1,
            _ => {}
        }
        at += 1;
    }
    end
}
