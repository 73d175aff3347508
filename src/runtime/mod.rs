//! The base of every long-running part: the clock, randomness, tasks and their shutdown.
//!
//! No other module reads the time, draws a random number or spawns a task; the lints in
//! `.clippy.toml` enforce this. So a test can set the time and replay a seed, and nothing keeps
//! running after a stop.

mod batch_size;
mod client_address;
mod clock;
mod count_down;
mod drive;
pub mod faults;
mod lapse;
mod measured;
mod mutex;
mod random;
mod serve;
mod tasks;

pub use batch_size::BatchSize;
pub use client_address::ClientAddress;
pub use clock::{Clock, ClockMoment};
pub use count_down::count_down;
pub use drive::{LoopPause, RunError, Worker, drive};
pub(crate) use measured::measured;
pub use measured::{CallError, Measured, measure};
pub use mutex::Mutex;
pub use random::Random;
pub use serve::{ServeLimits, serve};
pub use tasks::{OnPanic, StopAt, TaskKind, Tasks};
