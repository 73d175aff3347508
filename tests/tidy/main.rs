//! The repository reads itself: who imports whom, how long files and functions are, what was left
//! behind, whether the documents name things that exist.
//!
//! Each module is one kind of check: a function from a [`tree::Tree`] to findings, held against
//! this repository, and against small bad examples that it has to find, so that no check can rot
//! into one that never fails.

mod alerts;
mod attributes;
mod caches;
mod dependencies;
mod documents;
mod imports;
mod layout;
mod leftovers;
mod migrations;
mod names;
mod readme;
mod roots;
mod rust;
mod settings;
mod sizes;
mod sql;
mod tree;
mod unit;
