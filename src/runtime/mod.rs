//! What every long-running part stands on: the clock, randomness, tasks and how they stop.
//!
//! Nobody else asks the time, draws a random number, spawns a task or writes a loop; the lints in
//! `.clippy.toml` see to it. That is why a test can set the time, replay a seed, and know that
//! nothing runs on after a stop.

mod batch_size;
mod clock;
mod drive;
pub mod faults;
mod lapse;
mod measured;
mod random;
mod serve;
mod tasks;

pub use batch_size::BatchSize;
pub use clock::{Clock, Moment};
pub use drive::{Pause, RunError, Worker, drive};
pub(crate) use measured::measured;
pub use measured::{CallError, Measured, measure};
pub use random::Random;
pub use serve::{ServeLimits, serve};
pub use tasks::{OnPanic, StopAt, TaskKind, Tasks};
