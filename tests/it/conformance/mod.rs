//! The meaning of the contracts: each suite runs over all adapters.

mod cluster;
mod queue;
pub mod store;
