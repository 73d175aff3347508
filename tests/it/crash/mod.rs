//! The binary, killed, stopped, starved and misled, as operators meet it.
//!
//! What is checked after a fault is in `history`: it compares what the API promised, what it shows
//! now, and what the target was sent.

mod attempts;
mod damage;
mod history;
mod kills;
mod minute;
mod restored;
mod shortage;
mod start;
mod stops;
