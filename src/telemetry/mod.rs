//! What the process tells about itself: log lines, metrics and traces.
//!
//! Everybody emits and nobody reads: nothing here decides anything. Emitting never waits and
//! never fails: a metric is an addition to a number, a log line goes into a bounded buffer and is
//! dropped, and counted, when whoever reads the log is slower than the process writes, and so is a span.

pub mod log;
pub mod metrics;
pub mod traces;
