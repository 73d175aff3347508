//! Replicas of a cluster as their operators run them: the binary, on the servers of
//! `tests/servers`. What they share in a test is a database, and a prefix in Redis and etcd.

mod commands;
mod deletion;
mod doctor;
mod exporting;
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
