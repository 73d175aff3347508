//! The meaning of the contracts: each suite runs over all adapters.

mod queue;
mod store;
