//! Three replicas with real servers, under a steady load and under faults.
//!
//! A test makes a [`world`], lets it run, hurts it, heals it, and has its [`history`] judged by the
//! [`oracles`]: what is right is decided there and nowhere else. A replica's process can be hit at
//! exactly the place that matters ([`punctual::runtime::faults`]), and the lines between replicas
//! and servers can be cut. The calendar runs faster than the machine's clock, so that a short test
//! sees many ticks.

mod audit;
mod defects;
mod etcd;
mod history;
pub mod lapse;
mod load;
mod modes;
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
