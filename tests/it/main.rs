//! The integration tests: one binary, one module per part of the service.

mod api;
mod conformance;
mod server;
