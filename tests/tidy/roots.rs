//! The root file of every folder states the purpose of the folder.

use crate::tree::{Finding, Tree};

fn check(tree: &Tree) -> Vec<Finding> {
    let roots = tree.files.iter().filter(|file| {
        let name = file.path.rsplit('/').next();
        file.is_rust() && matches!(name, Some("mod.rs" | "lib.rs" | "main.rs"))
    });
    roots
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| {
            Finding::at(file, 1, "the root file of a folder must begin with its purpose (//!)")
        })
        .collect()
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
    fn finds_a_root_without_a_word() {
        let tree = Tree::of(&[
            ("src/a/mod.rs", "mod b;"),
            ("src/a/b.rs", "fn c() {}"),
            ("src/d/mod.rs", "//! For d."),
        ]);
        assert_finds(&check(&tree), &["src/a/mod.rs:1"]);
    }
}
