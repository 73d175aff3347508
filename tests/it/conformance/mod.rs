//! The meaning of the contracts: each suite runs over all adapters, once as they are and once with
//! faults.

mod cluster;
pub mod faults;
mod queue;
pub mod store;
