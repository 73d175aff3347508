//! `punctual doctor`: checks that the configuration works with its servers.

use std::collections::BTreeSet;

use clap::Args;
use serde::Serialize;

use super::config::load_and_warn;
use super::settings::{AllSettings, SettingArgs};
use super::{CliError, output};
use crate::app::{Diagnosis, diagnose};
use crate::domain::finding::Grade;
use crate::runtime::Clock;

/// The options of `punctual doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// The number of replicas to expect, for PostgreSQL's max_connections [default: the live
    /// replicas, or one]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    replicas: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingArgs<AllSettings>,
}

pub(super) async fn run(args: &DoctorArgs) -> Result<(), CliError> {
    let config = load_and_warn(&args.settings.sources())?;
    let found = Box::pin(diagnose(&config, args.replicas, &Clock::system())).await;
    let lines: Vec<_> = found.iter().map(ReportLine::new).collect();
    if args.json {
        let json = serde_json::to_string_pretty(&lines).map_err(CliError::failed)?;
        output::print(&format!("{json}\n"))?;
    } else {
        output::print(&text(&lines))?;
    }
    let failed = found.iter().filter(|one| one.finding.grade == Grade::Failure);
    match complaint(&failed.map(|one| one.setting).collect::<Vec<_>>()) {
        Some(complaint) => Err(CliError::failed(complaint)),
        None => Ok(()),
    }
}

/// Returns the error message for the settings of failed checks, without duplicates, or `None` if no
/// check failed.
fn complaint(failed: &[&str]) -> Option<String> {
    let settings: BTreeSet<&str> = failed.iter().copied().collect();
    let count = match settings.len() {
        0 => return None,
        1 => "1 setting".to_owned(),
        several => format!("{several} settings"),
    };
    let settings = settings.into_iter().collect::<Vec<_>>().join(", ");
    Some(format!("checks failed for {count}: {settings}"))
}

/// A finding, as it is printed.
#[derive(Serialize)]
struct ReportLine<'a> {
    result: &'static str,
    setting: &'static str,
    text: &'a str,
}

impl<'a> ReportLine<'a> {
    fn new(diagnosis: &'a Diagnosis) -> Self {
        let result = match diagnosis.finding.grade {
            Grade::Good => "ok",
            Grade::Warning => "warning",
            Grade::Failure => "failure",
        };
        Self { result, setting: diagnosis.setting, text: &diagnosis.finding.text }
    }
}

fn text(lines: &[ReportLine<'_>]) -> String {
    // The message of a server may have several lines.
    let row = |line: &ReportLine<'_>| {
        let text = line.text.split_whitespace().collect::<Vec<_>>().join(" ");
        [line.result.to_owned(), line.setting.to_owned(), text]
    };
    let rows: Vec<_> = lines.iter().map(row).collect();
    output::table(["RESULT", "SETTING", ""], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_named_once() {
        assert_eq!(complaint(&[]), None);
        let one = "checks failed for 1 setting: store.url";
        assert_eq!(complaint(&["store.url"]).as_deref(), Some(one));
        let several = complaint(&["store.url", "queue.url", "store.url"]);
        let named = "checks failed for 2 settings: queue.url, store.url";
        assert_eq!(several.as_deref(), Some(named));
    }
}
