//! Connections to the server: opened, shared among the stages, checked and migrated.

pub(super) mod access;
pub(super) mod checkup;
pub(super) mod options;
pub(super) mod others;
pub(super) mod pool;
pub(super) mod values;
mod version;
