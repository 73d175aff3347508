//! The last jobs of a schedule as figures: outcomes as a strip, durations as bars, rates.

use maud::{Markup, html};

use crate::dashboard::chart::{self, ChartBar};
use crate::dashboard::table;
use crate::dashboard::table::Column::{Number, Text};
use crate::dashboard::time::ShownZone;
use crate::dashboard::{time, widgets};
use crate::domain::job::{Job, JobStatus};

/// The number of jobs that figures are made of. The charts have room for as many.
pub(super) const JOBS: u32 = 50;

/// Figures about finished jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Statistics {
    pub(super) finished: usize,
    pub(super) succeeded: usize,
    /// The durations that a half and 95 % of the jobs did not exceed, in milliseconds.
    pub(super) p50: Option<u32>,
    pub(super) p95: Option<u32>,
}

impl Statistics {
    pub(super) fn of(jobs: &[Job]) -> Self {
        let finished = || jobs.iter().filter(|job| job.status.is_final());
        let mut durations: Vec<u32> = finished().filter_map(|job| job.duration_ms).collect();
        durations.sort_unstable();
        Self {
            finished: finished().count(),
            succeeded: finished().filter(|job| job.status == JobStatus::Success).count(),
            p50: percentile(&durations, 50),
            p95: percentile(&durations, 95),
        }
    }

    /// Returns the success rate in whole percent, rounded down; absent without finished jobs.
    pub(super) fn success_percent(&self) -> Option<usize> {
        (self.succeeded * 100).checked_div(self.finished)
    }
}

/// Returns the smallest value that `percent` of the values do not exceed.
fn percentile(sorted: &[u32], percent: usize) -> Option<u32> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

/// Renders the outcomes of jobs, oldest first, and their numbers in words.
pub(super) fn strip(jobs: &[Job], zone: ShownZone) -> Markup {
    let number = |status: JobStatus| jobs.iter().filter(|job| job.status == status).count();
    let (succeeded, failed) = (number(JobStatus::Success), number(JobStatus::Failed));
    let unfinished = jobs.len() - succeeded - failed;
    html! {
        p.outcomes {
            span.strip aria-hidden="true" {
                @for job in jobs.iter().rev() {
                    i class=(widgets::status_class(job.status)) title=(label(job, zone)) {}
                }
            }
            span.soft {
                "Last " @if jobs.len() == 1 { "job" } @else { (jobs.len()) " jobs" } ": "
                (succeeded) " succeeded, " (failed) " failed"
                @if unfinished > 0 { ", " (unfinished) " not finished" }
                "."
            }
        }
    }
}

/// Renders the durations of jobs as bars, oldest first, and as a table for those who cannot see
/// them.
pub(super) fn durations(jobs: &[Job], zone: ShownZone) -> Markup {
    let timed: Vec<&Job> = jobs.iter().rev().filter(|job| job.duration_ms.is_some()).collect();
    let Some(longest) = timed.iter().filter_map(|job| job.duration_ms).max() else {
        return html! {};
    };
    let (number, longest) = (timed.len(), time::millis(longest));
    let about = format!(
        "Durations of the last {number} jobs, up to {longest}. The table below has the values."
    );
    let bars: Vec<ChartBar> =
        timed.iter().enumerate().map(|(position, job)| bar(position, job, zone)).collect();
    html! {
        h2 { "Durations" }
        (chart::bars(&about, JOBS as usize, &bars))
        p.soft { "The longest took " (longest) "." }
        (chart::values("Durations as a table", &table(&timed, zone)))
    }
}

fn bar(position: usize, job: &Job, zone: ShownZone) -> ChartBar {
    let (class, value) = (widgets::status_class(job.status), job.duration_ms.unwrap_or(0).into());
    ChartBar { class, position, value, title: label(job, zone) }
}

fn table(jobs: &[&Job], zone: ShownZone) -> Markup {
    html! {
        (table::render(
            "",
            &[Text("Scheduled"), Text("Status"), Number("Duration")],
            &html! {
                @for job in jobs {
                    tr {
                        td { (time::instant(job.scheduled_run_at, zone)) }
                        td { (widgets::status(job.status)) }
                        td.number { (time::millis(job.duration_ms.unwrap_or(0))) }
                    }
                }
            },
        ))
    }
}

/// Returns the tooltip: the time, the status and the duration.
fn label(job: &Job, zone: ShownZone) -> String {
    let at = zone.text(job.scheduled_run_at);
    let duration = job.duration_ms.map(|ms| format!(", {}", time::millis(ms))).unwrap_or_default();
    format!("{at}: {}{duration}", widgets::status_class(job.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        assert_eq!(percentile(&[], 50), None);
        assert_eq!(percentile(&[7], 95), Some(7));
        let values: Vec<u32> = (1..=20).collect();
        assert_eq!((percentile(&values, 50), percentile(&values, 95)), (Some(10), Some(19)));
    }

    #[test]
    fn no_job_has_no_rate() {
        let none = Statistics::of(&[]);
        assert_eq!((none.finished, none.success_percent(), none.p50), (0, None, None));
    }
}
