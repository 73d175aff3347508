//! The integration tests: one binary, one module per part of the service.

mod cli;
mod conformance;
mod server;
