//! The parts that both adapters share: statements, rows, and the contracts that need only these.
//!
//! Place in the flow: an adapter implements [`Database`](connection::access::Database), which hands
//! a unit of work to a connection. In return it gets the contracts of this folder. Code that is hot or
//! depends on how the database locks (firing, claiming, committing, pruning) is in the adapters.
//!
//! The dialects differ in few words: see [`Dialect`](connection::Dialect).

pub(in crate::store) mod account_lock;
pub(in crate::store) mod accounts;
pub(in crate::store) mod audit;
pub(in crate::store) mod connection;
mod deletion;
pub(in crate::store) mod encoding;
pub(in crate::store) mod error;
pub(in crate::store) mod firing;
pub(in crate::store) mod history;
pub(in crate::store) mod hours;
pub(in crate::store) mod idempotency;
pub(in crate::store) mod jobs;
mod leadership;
pub(in crate::store) mod months;
pub(in crate::store) mod notifications;
mod paging;
pub(in crate::store) mod quotas;
pub(in crate::store) mod schedules;
pub(in crate::store) mod secrets;
pub(in crate::store) mod signing;
pub(in crate::store) mod upkeep;
pub(in crate::store) mod users;

pub(in crate::store) use connection::query::{Query, ScalarQuery, query, query_as, query_scalar};
