//! Telemetry of the process: log lines, metrics and traces.
//!
//! Place in the flow: every module emits telemetry, and nothing here influences the behaviour of
//! the service. Emitting never waits and never fails. A metric is one atomic update. Log lines and
//! spans go into bounded buffers. When a reader is slower than the process, they are dropped and
//! counted.

pub mod log;
pub mod metrics;
pub mod traces;
