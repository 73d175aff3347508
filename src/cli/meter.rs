//! How far a long command is: a bar on a terminal, a line every so often elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::output;
use crate::runtime::Clock;

/// How often a line is written where there is no terminal to draw on.
const LINE_EVERY: Duration = Duration::from_secs(10);
const BAR: &str = "{msg:17} [{bar:40}] {pos}/{len} rows, {eta} left";

/// Shows how far a command is, in rows.
pub(super) enum Meter {
    Bar(ProgressBar),
    Lines { clock: Clock, next: Duration },
}

impl Meter {
    pub(super) fn new(clock: Clock) -> Self {
        if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template(BAR).expect("a template");
            return Self::Bar(ProgressBar::new(0).with_style(style.progress_chars("=> ")));
        }
        let next = clock.monotonic() + LINE_EVERY;
        Self::Lines { clock, next }
    }

    /// `what` is worked on, and `done` of `total` rows are finished.
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
