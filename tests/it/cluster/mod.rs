//! Three replicas with real servers, under a steady load and under faults.
//!
//! A test creates a [`world`], lets it run, injects faults, ends them, and has its [`history`]
//! checked by the [`oracles`], which alone define correct behaviour. A replica process can be
//! killed or stopped at an exact point ([`punctual::runtime::faults`]), and the connections between
//! replicas and servers can be cut. The calendar runs faster than the machine's clock, so a short
//! test covers many ticks.

mod audit;
mod defects;
mod etcd;
mod history;
pub mod lapse;
mod load;
mod modes;
mod mutations;
mod oracles;
mod partitions;
mod postgres;
mod processes;
mod read;
mod realtime;
mod redis;
mod replica;
mod settle;
mod start;
mod stores;
mod time;
mod unpushed;
mod users;
mod workers;
mod world;
