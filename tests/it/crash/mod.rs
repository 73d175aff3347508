//! The binary under faults as operators see them: kills, stops, shortages and wrong configurations.
//!
//! `history` checks the result of a fault: it compares the responses of the API, the current state,
//! and the requests at the target.

mod attempts;
mod damaged_row;
mod history;
mod kills;
mod minute;
mod restored;
mod shortage;
mod start;
mod stops;
