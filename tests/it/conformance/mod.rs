//! What the contracts mean: one suite each, run on every adapter.

mod store;
