//! The progress of a long command: a bar on a terminal, and a line every 10 seconds elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::output;
use crate::runtime::Clock;

/// The interval between lines if standard error is not a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
const BAR: &str = "{msg:17} [{bar:40}] {pos}/{len} rows, {eta} left";

/// Shows the progress of a command, in rows.
pub(super) enum ProgressDisplay {
    Bar(ProgressBar),
    Lines { clock: Clock, next: Duration },
}

impl ProgressDisplay {
    pub(super) fn new(clock: Clock) -> Self {
        if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template(BAR).expect("a template");
            return Self::Bar(ProgressBar::new(0).with_style(style.progress_chars("=> ")));
        }
        let next = clock.monotonic() + LINE_EVERY;
        Self::Lines { clock, next }
    }

    /// Shows that `done` of `total` rows are finished and that `what` is in progress.
    pub(super) fn show(&mut self, what: &'static str, done: u64, total: u64) {
        match self {
            Self::Bar(bar) => {
                bar.set_length(total);
                bar.set_message(what);
                bar.set_position(done);
            }
            Self::Lines { clock, next } if clock.monotonic() >= *next => {
                *next = clock.monotonic() + LINE_EVERY;
                output::complain(&format!("{what}: {done} of {total} rows"));
            }
            Self::Lines { .. } => {}
        }
    }

    pub(super) fn clear(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
