//! All integration tests in one binary, against real sockets and test servers.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "the tests stand outside of the service: their own tasks, real time, printed figures"
)]

mod accounts;
mod alerts;
mod api;
mod cli;
mod cluster;
mod conformance;
mod crash;
mod dashboard;
mod flow;
mod harness;
mod observed;
mod outbound;
mod serve;
mod server;
