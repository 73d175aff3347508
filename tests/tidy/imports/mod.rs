//! Imports between the modules of the crate.
//!
//! The modules have ranks, and data and calls flow in one direction. The table in `ranks` says
//! which modules may import which. In addition, modules of the same parent must not import each
//! other, neither directly nor in a circle.

mod ranks;
mod references;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::rust::{is_test_file, test_files};
use crate::tree::{Finding, Tree};
use ranks::Unit;
use references::{Modules, Reference, module_of, references};

/// The path of a module.
type Module = Vec<String>;
/// An import: the importing module and the imported one.
type Edge = (Module, Module);

fn check(tree: &Tree) -> Vec<Finding> {
    let (modules, tests) = (Modules::of(tree), test_files(tree));
    let mut findings = Vec::new();
    let mut edges: BTreeMap<Edge, String> = BTreeMap::new();
    for file in tree.rust("src/").filter(|file| !is_test_file(&tests, &file.path)) {
        let from = module_of(&file.path);
        if let Some(unranked) = Unit::of(&from).unranked() {
            findings.push(Finding::at(file, 1, unranked));
        }
        for reference in references(file, &modules) {
            if let Some(breach) = breach(&from, &reference) {
                findings.push(Finding::at(file, reference.line, breach));
            }
            if let Some(edge) = edge(&from, &reference.module) {
                edges.entry(edge).or_insert_with(|| format!("{}:{}", file.path, reference.line));
            }
        }
    }
    findings.extend(circles(&edges));
    findings
}

/// Finds the imports by which modules of the same parent depend on themselves. `edges` are the
/// imports between such modules, with their locations. Each import that closes a circle is found
/// once, with the shortest way back.
fn circles(edges: &BTreeMap<Edge, String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut closed = BTreeSet::new();
    for ((from, to), location) in edges {
        let Some(mut circle) = way(edges, to, from) else { continue };
        circle.sort_unstable();
        if closed.insert(circle.clone()) {
            let names: Vec<_> =
                circle.iter().map(|module| format!("`{}`", module.join("::"))).collect();
            let what = format!("{} import each other in a circle", names.join(", "));
            findings.push(Finding::new(location, what));
        }
    }
    findings
}

/// Returns the modules on the shortest way along imports, both ends included.
fn way<'e>(
    edges: &'e BTreeMap<Edge, String>,
    from: &'e Module,
    to: &Module,
) -> Option<Vec<&'e Module>> {
    let mut before = BTreeMap::from([(from, None)]);
    let mut next = VecDeque::from([from]);
    while let Some(module) = next.pop_front() {
        if module == to {
            return Some(std::iter::successors(Some(module), |at| before[at]).collect());
        }
        for (_, target) in edges.keys().filter(|(source, _)| source == module) {
            if !before.contains_key(target) {
                before.insert(target, Some(module));
                next.push_back(target);
            }
        }
    }
    None
}

/// Returns the violation of a reference that the rank of its module forbids.
fn breach(from: &[String], reference: &Reference) -> Option<String> {
    let (own, other) = (Unit::of(from), Unit::of(&reference.module));
    // A reference that only imports a module is checked where an item of the module is named.
    let item = reference.path[reference.module.len()..].last().map(String::as_str);
    (!own.may_import(&other, item)).then(|| {
        let path = reference.path.join("::");
        format!("`{own}` may not import `{other}` (`{path}`); see the ranks in tests/tidy")
    })
}

/// Returns the two sibling modules that a reference connects, if it leaves its own module.
fn edge(from: &[String], to: &[String]) -> Option<(Vec<String>, Vec<String>)> {
    let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let beside = from.len() > common && to.len() > common;
    beside.then(|| (from[..=common].to_vec(), to[..=common].to_vec()))
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
    fn finds_imports_against_the_ranks() {
        let tree = Tree::of(&[
            ("src/domain/mod.rs", "use crate::store::StoreError;"),
            ("src/store/mod.rs", "pub mod sqlite; fn a() { sqlite::open() }"),
            ("src/store/sqlite/mod.rs", "use crate::queue::Queue; use super::Store;"),
            ("src/queue/mod.rs", "pub struct Queue;"),
            ("src/executor/run.rs", "fn a() { crate::store::sqlite::open() }"),
            ("src/api/mod.rs", "use {crate::{domain::Id, schedules, scheduler::Leader}};"),
            ("src/schedules/mod.rs", "use super::accounts::Account;"),
            ("src/accounts/mod.rs", ""),
            ("src/scheduler/mod.rs", "define! { $crate::executor::run }"),
        ]);
        let expected = [
            "src/domain/mod.rs:1: `domain` may not import `store`",
            "src/store/mod.rs:1: `store` may not import `store::sqlite`",
            "src/store/sqlite/mod.rs:1: `store::sqlite` may not import `queue`",
            "src/executor/run.rs:1: `executor` may not import `store::sqlite`",
            "src/api/mod.rs:1: `api` may not import `scheduler` (`scheduler::Leader`)",
            "src/schedules/mod.rs:1: `schedules` may not import `accounts`",
            "src/scheduler/mod.rs:1: `scheduler` may not import `executor`",
        ];
        assert_finds(&check(&tree), &expected);
    }

    #[test]
    fn lets_config_see_settings_only() {
        let tree = Tree::of(&[
            ("src/config/mod.rs", "use crate::executor::{self, ExecutorSettings};"),
            ("src/config/b.rs", "use crate::executor as e; fn a(_: e::Settings, _: e::Executor)"),
            ("src/executor/mod.rs", ""),
            ("src/app/mod.rs", "use crate::{config, store::sqlite};"),
            ("src/store/sqlite/mod.rs", ""),
        ]);
        assert_finds(
            &check(&tree),
            &["b.rs:1: `config` may not import `executor` (`executor::Executor`)"],
        );
    }

    #[test]
    fn finds_modules_that_import_each_other() {
        let tree = Tree::of(&[
            ("src/domain/a.rs", "use super::b::B;"),
            ("src/domain/b.rs", "fn c() -> crate::domain::a::A { loop {} }"),
            ("src/domain/d.rs", "use super::a::A;"),
            ("src/domain/mod.rs", "mod a; mod b; mod d; pub use a::A;"),
        ]);
        assert_finds(&check(&tree), &["`domain::a`, `domain::b` import each other in a circle"]);
    }

    #[test]
    fn finds_circles_of_three_modules() {
        let tree = Tree::of(&[
            ("src/domain/a.rs", "use super::b::B;"),
            ("src/domain/b.rs", "use super::c::C;"),
            ("src/domain/c.rs", "use super::a::A;"),
            ("src/domain/mod.rs", "mod a; mod b; mod c;"),
        ]);
        let expected = "`domain::a`, `domain::b`, `domain::c` import each other in a circle";
        assert_finds(&check(&tree), &[expected]);
    }

    #[test]
    fn finds_a_module_without_a_rank() {
        let tree = Tree::of(&[("src/utils/mod.rs", "")]);
        assert_finds(&check(&tree), &["src/utils/mod.rs:1: `utils` has no rank"]);
    }

    #[test]
    fn leaves_tests_alone() {
        let tree = Tree::of(&[
            ("src/executor/mod.rs", "#[cfg(test)]\nmod tests { use crate::queue::memory::Q; }"),
            ("src/queue/memory.rs", "#[cfg(test)]\nmod tests;"),
            ("src/queue/memory/tests.rs", "use crate::store::Store;"),
            ("src/store/mod.rs", ""),
        ]);
        assert_finds(&check(&tree), &[]);
    }
}
