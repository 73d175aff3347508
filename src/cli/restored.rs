//! `punctual restored`: prepares a restored backup for its first start.

use super::config::load_part_and_warn;
use super::operator::operator;
use super::{CliError, output};
use crate::app::{RestoreResult, UNFINISHED_COUNTED, restored};
use crate::config::Sources;
use crate::runtime::{Clock, Random};

pub(super) async fn run(sources: &Sources) -> Result<(), CliError> {
    let config = load_part_and_warn(sources)?;
    let done = restored(&config, operator(), &Clock::system(), &Random::system()).await;
    let done = done.map_err(CliError::failed)?;
    output::print(&summary(&done))?;
    match done.passed.left {
        0 => Ok(()),
        left => Err(CliError::failed(format!(
            "{left} schedules still have ticks from before the restore, because their rows are \
             locked or cannot be read: run this command again. Schedules that cannot be read do \
             not fire; the log of `punctual serve` names them (\"corrupt row left out\")"
        ))),
    }
}

fn summary(done: &RestoreResult) -> String {
    let RestoreResult { now, passed, unfinished } = done;
    let more = if *unfinished == u64::from(UNFINISHED_COUNTED) { " or more" } else { "" };
    format!(
        "{} ticks of {} schedules were due before {now}: they do not run, and are recorded as \
         skips with the reason `restored`.\n\
         {unfinished}{more} jobs were unfinished in the backup: they continue at the first \
         start.\n",
        passed.ticks, passed.schedules
    )
}
