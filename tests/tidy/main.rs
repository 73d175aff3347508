//! Checks of the repository itself: imports between modules, lengths of files and functions,
//! leftovers, and names in the documents that do not exist.
//!
//! Each module is one kind of check: a function from a [`tree::Tree`] to findings. Tests run it on
//! this repository, and on small bad examples that it must find. A check that no longer finds
//! anything fails on these examples.

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
mod rooms;
mod roots;
mod rust;
mod settings;
mod sizes;
mod sql;
mod tree;
mod types;
mod unit;
