//! Shared parts of the benchmarks: the real binary as a process, a target that responds at once, a
//! load generator, and statistics.
#![allow(dead_code, reason = "each bench uses a part of it")]

pub mod account;
pub mod cluster;
pub mod dashboard;
pub mod database;
pub mod history;
pub mod http;
pub mod link;
pub mod load;
pub mod minute;
pub mod numbers;
pub mod peers;
pub mod profile;
pub mod receiver;
pub mod rounds;
pub mod service;
pub mod target;
