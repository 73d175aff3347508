//! Formats log lines for people: time, level, message, fields.

use std::fmt::{self, Write};

use chrono::{Local, Utc};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

use super::steers;

const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// Formats events as text.
pub(super) struct TextLines {
    /// Uses colours.
    pub color: bool,
    /// Shortens timestamps to the local time of day.
    pub brief: bool,
}

impl<S, N> FormatEvent<S, N> for TextLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = EventFields { color: self.color, ..EventFields::default() };
        event.record(&mut fields);
        let (dim, plain) = if self.color { (DIM, PLAIN) } else { ("", "") };
        let level = event.metadata().level();
        let colour = if self.color { colour(*level) } else { "" };
        write!(writer, "{dim}{}{plain} {colour}{level:<5}{plain} ", self.time())?;
        let target = event.metadata().target();
        if !target.starts_with(env!("CARGO_PKG_NAME")) && target != "log" {
            write!(writer, "{dim}{target}:{plain} ")?;
        }
        writeln!(writer, "{}{}", fields.message, fields.rest)
    }
}

impl TextLines {
    #[expect(clippy::disallowed_methods, reason = "lines carry the machine's time")]
    fn time(&self) -> impl fmt::Display {
        if self.brief {
            Local::now().format("%H:%M:%S%.3f").to_string()
        } else {
            Utc::now().format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
        }
    }
}

fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        _ => "\x1b[34m",
    }
}

/// The fields of an event: the message, and the rest as ` name=value`.
#[derive(Default)]
struct EventFields {
    message: String,
    rest: String,
    color: bool,
}

impl EventFields {
    fn push(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => push_inert(&mut self.message, value, ""),
            // The bridge from the `log` crate adds the source location in these fields.
            name if name.starts_with("log.") => {}
            name => {
                let (dim, plain) = if self.color { (DIM, PLAIN) } else { ("", "") };
                // Writing to a string cannot fail.
                let _ = write!(self.rest, " {dim}{name}={plain}");
                push_value(&mut self.rest, value);
            }
        }
    }
}

impl Visit for EventFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push(field, &format!("{value:?}"));
    }
}

/// Appends a value, in quotes if it could be read as more than one value.
fn push_value(line: &mut String, value: &str) {
    if value.is_empty() || value.contains([' ', '"', '=']) {
        line.push('"');
        push_inert(line, value, "\"\\");
        line.push('"');
    } else {
        push_inert(line, value, "");
    }
}

/// Appends a value and escapes the characters that [`steers`] or `also` names.
fn push_inert(line: &mut String, value: &str, also: &str) {
    for letter in value.chars() {
        if steers(letter) || also.contains(letter) {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::log::tests::{HOSTILE, written};

    fn logged(color: bool, log: impl FnOnce()) -> String {
        let text = TextLines { color, brief: false };
        written(|lines| lines.event_format(text), log)
    }

    #[test]
    fn reads_well() {
        let text = logged(false, || {
            let error = std::io::Error::other("no such host");
            tracing::warn!(attempt = 2, url = "http://a/?b=c", %error, "attempt failed");
        });
        let (time, rest) = text.split_at(24);
        assert!(time.ends_with('Z') && time.contains('T'), "{time}");
        assert_eq!(
            rest,
            " WARN  attempt failed attempt=2 url=\"http://a/?b=c\" error=\"no such host\"\n"
        );
    }

    #[test]
    fn hostile_values_stay_within_their_line() {
        for color in [false, true] {
            let text = logged(color, || {
                tracing::info!(name = HOSTILE, debug = ?HOSTILE, shown = %HOSTILE, "{HOSTILE}");
            });
            assert_eq!(text.matches('\n').count(), 1, "{text}");
            for forbidden in ['\r', '\u{9b}', '\u{202e}', '\0'] {
                assert!(!text.contains(forbidden), "{forbidden:?} in {text}");
            }
            assert!(!text.contains("\u{1b}[31m"), "{text}");
            assert_eq!(text.contains('\u{1b}'), color);
            assert!(!text.contains(" level=error") || text.contains("\\\"x\\\" level=error\""));
        }
    }
}
