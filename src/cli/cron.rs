//! `punctual cron`: explains a cron expression.

use clap::Args;

use super::{CliError, output};
use crate::domain::Timestamp;
use crate::domain::cron::{InvalidRecurrence, Recurrence, describe, preview, warnings};
use crate::runtime::Clock;

/// The expression to explain.
#[derive(Args, Debug)]
pub struct CronArgs {
    /// Five fields: minute, hour, day of month, month, day of week
    #[arg(value_name = "EXPR")]
    expression: String,
    /// The timezone of the expression, such as Europe/Berlin
    #[arg(long, visible_alias = "timezone", value_name = "ZONE", default_value = "UTC")]
    tz: String,
    /// The number of runs to list
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 10,
          value_parser = clap::value_parser!(u16).range(1..=1_000))]
    count: u16,
    /// List the runs after this instant, such as 2030-01-31T09:00:00Z, instead of now
    #[arg(long, value_name = "INSTANT")]
    from: Option<Timestamp>,
}

pub(super) fn run(args: &CronArgs) -> Result<(), CliError> {
    let recurrence =
        Recurrence::parse(&args.expression, &args.tz).map_err(|error| explain(args, error))?;
    let from = args.from.unwrap_or_else(|| Clock::system().now());
    output::print(&text(&recurrence, from, usize::from(args.count)))
}

fn explain(args: &CronArgs, error: InvalidRecurrence) -> CliError {
    CliError::usage(match error {
        InvalidRecurrence::Cron(error) => {
            let CronArgs { expression, .. } = args;
            let reason = error.reason(expression);
            format!("{error} {expression:?}: {reason}; an example is \"*/15 9-17 * * MON-FRI\"")
        }
        InvalidRecurrence::Timezone(error) => {
            format!("{error} {:?}: take an IANA name, such as Europe/Berlin", args.tz)
        }
    })
}

fn text(recurrence: &Recurrence, from: Timestamp, count: usize) -> String {
    let zone = recurrence.timezone().name();
    let mut text = format!("{} ({zone})\n\n", describe(recurrence.cron()));
    let rows: Vec<[String; 3]> = preview(recurrence, from, count)
        .into_iter()
        .map(|run| [run.utc.to_string(), run.local, run.note.unwrap_or_default()])
        .collect();
    if rows.is_empty() {
        text.push_str("It has no more runs before the year 2101.\n");
    } else {
        text.push_str(&output::table(["UTC", zone, ""], &rows));
    }
    for (position, warning) in warnings(recurrence, from).into_iter().enumerate() {
        text.push_str(if position == 0 { "\nNote: " } else { "Note: " });
        text.push_str(&warning);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_notes_and_warnings() {
        let recurrence = Recurrence::parse("30 2 * * *", "Europe/Berlin").expect("valid");
        let from: Timestamp = "2026-03-28T00:00:00Z".parse().expect("an instant");
        let text = text(&recurrence, from, 2);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "At 02:30 (Europe/Berlin)");
        assert!(lines[2].starts_with("UTC                       Europe/Berlin"), "{text}");
        assert!(
            lines[3].starts_with("2026-03-28T01:30:00.000Z  2026-03-28T02:30:00+01:00"),
            "{text}"
        );
        assert!(
            lines[4].starts_with("2026-03-29T01:00:00.000Z  2026-03-29T03:00:00+02:00  "),
            "the wall time is skipped, the end of the gap is taken, and a note says so: {text}"
        );
        assert!(lines[4].len() > 60, "{text}");
        assert!(lines.iter().any(|line| line.starts_with("Note: ")), "{text}");
    }
}
