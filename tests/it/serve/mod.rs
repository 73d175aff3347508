//! Replicas of a cluster as operators run them: the binary, with the servers of `tests/servers`.
//! The replicas of one test share a database, and a prefix in Redis and etcd.

mod commands;
mod deletion;
mod doctor;
mod exporting;
mod hanging;
mod idempotency;
mod leaks;
mod mending;
mod moving;
mod overview;
mod refusals;
mod relay;
mod restoring;
mod roles;
mod scraping;
mod starting;
mod stopping;
mod traces;
mod unit;
mod versions;
mod watched;
mod world;
