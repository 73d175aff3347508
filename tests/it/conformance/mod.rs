//! The contracts as suites. Each suite runs on all adapters, without and with faults.

mod cluster;
pub mod faults;
mod queue;
pub mod store;
