//! Some crates are built without certain optional dependencies.

use crate::tree::{Finding, Tree};

/// A crate, a crate that it must not depend on, and the reason.
const WITHOUT: [(&str, &str, &str); 1] = [("lettre", "tracing", "it would log whole mails")];

/// `Cargo.lock` lists an optional dependency of a crate only if a feature enables it.
fn check(tree: &Tree) -> Vec<Finding> {
    let Some(lock) = tree.get("Cargo.lock") else { return Vec::new() };
    let packages: Vec<&str> = lock.text.split("[[package]]").collect();
    let mut findings = Vec::new();
    for (name, other, why) in WITHOUT {
        let is_it =
            |package: &&&str| package.lines().any(|line| line == format!("name = \"{name}\""));
        let own: Vec<_> = packages.iter().filter(is_it).collect();
        let is_other =
            |line: &str| line.trim().trim_matches([',', '"']).split(' ').next() == Some(other);
        if own.is_empty() {
            findings.push(Finding::new(&lock.path, format!("{name} is not there any more")));
        }
        if own.iter().any(|package| package.lines().any(is_other)) {
            let what = format!("{name} is built with {other}: {why}");
            findings.push(Finding::new(&lock.path, what));
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
        assert_tidy(&check(&Tree::repository()));
    }

    #[test]
    fn finds_a_feature_that_is_on() {
        let of = |others: &str| {
            let lock = format!(
                "[[package]]\nname = \"lettre\"\nversion = \"1\"\ndependencies = [\n{others}]\n\n\
                 [[package]]\nname = \"tokio\"\ndependencies = [\n \"tracing\",\n]\n"
            );
            check(&Tree::of(&[("Cargo.lock", &lock)]))
        };
        assert_finds(&of(" \"tracing-core\",\n \"url\",\n"), &[]);
        assert_finds(&of(" \"tracing\",\n"), &["lettre is built with tracing"]);
        assert_finds(&of(" \"tracing 0.1.41\",\n"), &["lettre is built with tracing"]);
        let none = check(&Tree::of(&[("Cargo.lock", "[[package]]\nname = \"url\"\n")]));
        assert_finds(&none, &["not there any more"]);
    }
}
