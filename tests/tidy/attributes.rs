//! A disabled lint needs a reason, a test is never ignored, and a test never sleeps.

use crate::rust::{Kind, Token, closing, is_test_file, test_files, tokens};
use crate::tree::{File, Finding, Tree};

/// The files where tests may sleep: slow servers, and waits for a condition with a timeout.
const MAY_SLEEP: [&str; 3] = ["tests/it/harness/", "tests/sim/target.rs", "tests/sim/world.rs"];

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let test_files = test_files(tree);
    for file in tree.rust("") {
        let tokens = tokens(file);
        attributes(file, &tokens, &mut findings);
        let all_test = file.path.starts_with("tests/") || is_test_file(&test_files, &file.path);
        if !MAY_SLEEP.iter().any(|path| file.path.starts_with(path)) {
            waits(file, &tokens, all_test, &mut findings);
        }
    }
    findings
}

fn attributes(file: &File, tokens: &[Token], findings: &mut Vec<Finding>) {
    for (at, token) in tokens.iter().enumerate() {
        let open = match tokens.get(at + 1) {
            Some(next) if token.is_sign('#') && next.is_sign('!') => at + 2,
            Some(_) if token.is_sign('#') => at + 1,
            _ => continue,
        };
        if tokens.get(open).is_none_or(|token| token.kind != Kind::Open('[')) {
            continue;
        }
        let inner = &tokens[open + 1..closing(tokens, open)];
        let has = |word: &str| inner.iter().any(|token| token.is_word(word));
        if (has("allow") || has("expect")) && !has("reason") {
            findings.push(Finding::at(file, token.line, "a lint is switched off without a reason"));
        }
        if inner.first().is_some_and(|token| token.is_word("ignore")) {
            findings.push(Finding::at(file, token.line, "a test is switched off"));
        }
    }
}

fn waits(file: &File, tokens: &[Token], all_test: bool, findings: &mut Vec<Finding>) {
    for (at, two) in tokens.windows(2).enumerate() {
        // The method `sleep_until` belongs to the clock, which tests set. The function belongs to
        // tokio.
        let is_function = at > 0 && tokens[at - 1].is_sign(':');
        let sleeps = two[0].is_word("sleep") || (is_function && two[0].is_word("sleep_until"));
        if sleeps && two[1].kind == Kind::Open('(') && (all_test || two[0].in_test) {
            let what = "a test sleeps: wait for a condition with a bound instead";
            findings.push(Finding::at(file, two[0].line, what));
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
    fn finds_lints_and_tests_that_are_switched_off() {
        let text = "#![allow(dead_code)]\n#[expect(unused)]\nfn a() {}\n\
                    #[expect(unused, reason = \"why\")]\nfn b() {}\n\
                    proptest! { #[test]\n#[ignore]\nfn c() {} }\n\
                    #[ignore = \"slow\"]\nfn d() {}\n";
        let expected = ["src/a.rs:1: a lint", "src/a.rs:2: a lint", "a.rs:7: a test", "a.rs:9: a"];
        assert_finds(&check(&Tree::of(&[("src/a.rs", text)])), &expected);
    }

    #[test]
    fn finds_tests_that_sleep() {
        let code = "async fn wait() { clock.sleep(span).await }\n\
                    #[cfg(test)]\nmod tests { fn a() { clock.sleep(span); clock.sleep_until(now) } }";
        let test = "fn a() { std::thread::sleep(SECOND); }\nfn b() { time::sleep_until(x) }";
        let allowed = ("tests/it/harness/slow.rs", test);
        let tree = Tree::of(&[("src/a.rs", code), ("tests/it/a.rs", test), allowed]);
        assert_finds(
            &check(&tree),
            &["src/a.rs:3: a test sleeps", "tests/it/a.rs:1: a", "tests/it/a.rs:2: a"],
        );
    }
}
