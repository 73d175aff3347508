//! `punctual doctor`: whether the configuration works with its servers.

use clap::Args;
use serde::Serialize;

use super::config::load_and_warn;
use super::settings::{All, SettingArgs};
use super::{CliError, output};
use crate::app::{Diagnosis, diagnose};
use crate::domain::finding::Grade;
use crate::runtime::Clock;

/// What to check, and for how many.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// How many replicas there will be, for PostgreSQL's max_connections [default: those that are
    /// alive, or one]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    replicas: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingArgs<All>,
}

pub(super) async fn run(args: &DoctorArgs) -> Result<(), CliError> {
    let config = load_and_warn(&args.settings.sources())?;
    let found = Box::pin(diagnose(&config, args.replicas, &Clock::system())).await;
    let lines: Vec<_> = found.iter().map(Line::new).collect();
    if args.json {
        let json = serde_json::to_string_pretty(&lines).map_err(CliError::failed)?;
        output::print(&format!("{json}\n"))?;
    } else {
        output::print(&text(&lines))?;
    }
    let failed = found.iter().filter(|one| one.finding.grade == Grade::Failure);
    let mut settings: Vec<_> = failed.map(|one| one.setting).collect();
    let count = settings.len();
    settings.dedup();
    match count {
        0 => Ok(()),
        1 => Err(CliError::failed(format!("a check failed: look at {}", settings[0]))),
        _ => {
            Err(CliError::failed(format!("{count} checks failed: look at {}", settings.join(", "))))
        }
    }
}

/// What was found, as it is printed.
#[derive(Serialize)]
struct Line<'a> {
    result: &'static str,
    setting: &'static str,
    text: &'a str,
}

impl<'a> Line<'a> {
    fn new(diagnosis: &'a Diagnosis) -> Self {
        let result = match diagnosis.finding.grade {
            Grade::Good => "ok",
            Grade::Warning => "warning",
            Grade::Failure => "failure",
        };
        Self { result, setting: diagnosis.setting, text: &diagnosis.finding.text }
    }
}

fn text(lines: &[Line<'_>]) -> String {
    // A server's words may be of several lines.
    let row = |line: &Line<'_>| {
        let text = line.text.split_whitespace().collect::<Vec<_>>().join(" ");
        [line.result.to_owned(), line.setting.to_owned(), text]
    };
    let rows: Vec<_> = lines.iter().map(row).collect();
    output::table(["RESULT", "SETTING", ""], &rows)
}
