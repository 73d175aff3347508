//! Connections to the file: opened, shared among the stages, checked and migrated.

pub(super) mod access;
pub(super) mod bisect;
pub(super) mod checkup;
pub(super) mod lock;
mod open;
pub(super) mod readers;
pub(super) mod values;
mod version;
mod writer;
