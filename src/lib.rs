//! Punctual runs HTTP requests on cron schedules, for many accounts. Its README follows below.
//!
//! The modules are listed in the order in which data flows. `domain` makes the decisions and does
//! no I/O. The contracts (`store`, `queue`, `cluster`) each have an adapter for one machine and one
//! for a cluster. The stages (`scheduler`, `executor`) read the store, let `domain` decide and
//! write the store. The listeners (`api`, `dashboard`) turn HTTP requests into commands.
//!
#![doc = include_str!("../README.md")]

pub mod domain;
pub mod telemetry;

pub mod runtime;

pub mod cluster;
pub mod queue;
pub mod store;

pub mod local_executor;

pub mod outbound;

pub mod channels;

pub mod accounts;
pub mod inspection;
pub mod notifications;
pub mod schedules;

pub mod executor;
pub mod notify;
pub mod scheduler;

pub mod api;
pub mod dashboard;
pub mod operations;

pub mod config;

pub mod app;

pub mod cli;
