//! Parses a Rust file into a flat list of tokens with their line and a mark for test code.
//!
//! Tokens leave out comments and strings, unlike text, and include the contents of macros, unlike a
//! syntax tree.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::tree::{File, Tree};

/// The kind of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name or keyword.
    Word(String),
    Sign(char),
    /// `(`, `[` or `{`. An invisible delimiter is a space.
    Open(char),
    Close(char),
    Literal,
}

/// A token.
#[derive(Clone, Debug)]
pub struct Token {
    pub kind: Kind,
    pub line: usize,
    /// `true` under `cfg(test)`.
    pub in_test: bool,
}

impl Token {
    pub fn is_word(&self, word: &str) -> bool {
        matches!(&self.kind, Kind::Word(own) if own == word)
    }

    pub fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    pub fn is_sign(&self, sign: char) -> bool {
        self.kind == Kind::Sign(sign)
    }
}

/// Returns the tokens of a file in order.
///
/// # Panics
/// If the file is not valid Rust.
pub fn tokens(file: &File) -> Vec<Token> {
    let stream: TokenStream = match file.text.parse() {
        Ok(stream) => stream,
        Err(error) => panic!("{} is not Rust: {error}", file.path),
    };
    let mut tokens = Vec::new();
    flatten(stream, false, &mut tokens);
    tokens
}

fn flatten(stream: TokenStream, in_test: bool, out: &mut Vec<Token>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut rest_in_test = in_test;
    let mut item_in_test = false;
    for (at, tree) in trees.iter().enumerate() {
        if is_test_attribute(&trees[at..], 1) {
            item_in_test = true;
        }
        if is_test_attribute(&trees[at..], 2) {
            rest_in_test = true;
        }
        let in_test = rest_in_test || item_in_test;
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = delimiters(group.delimiter());
                out.push(Token { kind: Kind::Open(open), line, in_test });
                flatten(group.stream(), in_test, out);
                let line = group.span_close().end().line;
                out.push(Token { kind: Kind::Close(close), line, in_test });
                // An item ends with its braces or with a semicolon.
                item_in_test &= group.delimiter() != Delimiter::Brace;
            }
            TokenTree::Ident(ident) => {
                out.push(Token { kind: Kind::Word(ident.to_string()), line, in_test });
            }
            TokenTree::Punct(punct) => {
                out.push(Token { kind: Kind::Sign(punct.as_char()), line, in_test });
                item_in_test &= punct.as_char() != ';';
            }
            TokenTree::Literal(_) => out.push(Token { kind: Kind::Literal, line, in_test }),
        }
    }
}

/// Returns `true` if the trees begin with `#[cfg(test)]` (`signs` 1) or `#![cfg(test)]` (`signs`
/// 2).
fn is_test_attribute(trees: &[TokenTree], signs: usize) -> bool {
    let marks = trees.iter().zip(['#', '!']).take(signs);
    let marked = marks.into_iter().all(|(tree, sign)| match tree {
        TokenTree::Punct(punct) => punct.as_char() == sign,
        _ => false,
    });
    let Some(TokenTree::Group(group)) = trees.get(signs) else { return false };
    let mut inner = group.stream().into_iter();
    let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(condition))) =
        (inner.next(), inner.next())
    else {
        return false;
    };
    marked && name == "cfg" && asks_for_test(condition.stream())
}

/// Returns `true` if a condition holds only in tests: it names `test` and does not negate.
fn asks_for_test(condition: TokenStream) -> bool {
    let mut asks = false;
    for tree in condition {
        match tree {
            TokenTree::Ident(word) if word == "not" => return false,
            TokenTree::Ident(word) => asks |= word == "test",
            TokenTree::Group(group) => asks |= asks_for_test(group.stream()),
            _ => {}
        }
    }
    asks
}

fn delimiters(delimiter: Delimiter) -> (char, char) {
    match delimiter {
        Delimiter::Parenthesis => ('(', ')'),
        Delimiter::Bracket => ('[', ']'),
        Delimiter::Brace => ('{', '}'),
        Delimiter::None => (' ', ' '),
    }
}

/// Returns the index of the token that closes the one at `open`.
pub fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.kind {
            Kind::Open(_) => depth += 1,
            Kind::Close(_) => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len() - 1
}

/// Returns the files of `#[cfg(test)] mod name;`, which contain only test code. A path that ends
/// with `/` stands for all files of a folder.
pub fn test_files(tree: &Tree) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for file in tree.rust("src/") {
        let stem = file.path.trim_end_matches(".rs");
        let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
        let home = if ["mod", "lib", "main"].contains(&name) { folder } else { stem };
        let tokens = tokens(file);
        for three in tokens.windows(3).filter(|three| three[0].in_test) {
            if let (true, Some(module), true) =
                (three[0].is_word("mod"), three[1].word(), three[2].is_sign(';'))
            {
                paths.insert(format!("{home}/{module}.rs"));
                paths.insert(format!("{home}/{module}/"));
            }
        }
    }
    paths
}

/// Returns `true` if `test_files` contains a path.
pub fn is_test_file(test_files: &BTreeSet<String>, path: &str) -> bool {
    test_files.contains(path)
        || test_files.iter().any(|folder| folder.ends_with('/') && path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_test_code_from_the_rest() {
        let text = "use a::B;\n#[cfg(test)]\nuse c::D;\nfn e() {}\n#[cfg(test)]\nmod f { g!(h) }\n\
                    #[cfg(all(test, unix))] fn i(j: [u8; 2]) {}\nfn k() {}\n\
                    #[cfg(not(test))] fn l() {}";
        let tree = Tree::of(&[("src/x.rs", text)]);
        let words = |in_test| {
            let all = tokens(&tree.files[0]);
            let kept = all.into_iter().filter(|token| token.in_test == in_test);
            kept.filter_map(|token| token.word().map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!(words(false).join(" "), "use a B fn e fn k cfg not test fn l");
        assert!(words(true).join(" ").contains("mod f g h"));
    }

    #[test]
    fn knows_the_files_that_are_tests_as_a_whole() {
        let declares = "#[cfg(test)]\nmod tests;\nmod other;";
        let tree = Tree::of(&[("src/a/mod.rs", declares), ("src/b.rs", declares)]);
        let files = test_files(&tree);
        assert!(is_test_file(&files, "src/a/tests.rs"));
        assert!(is_test_file(&files, "src/b/tests/deep.rs"));
        assert!(!is_test_file(&files, "src/a/other.rs"));
    }
}
