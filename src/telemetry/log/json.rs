//! Formats log lines for machines: one JSON object each.

use std::fmt;

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{Format, FormatEvent, FormatFields, Json, Writer};
use tracing_subscriber::fmt::time::ChronoUtc;
use tracing_subscriber::registry::LookupSpan;

use super::steers;

/// Formats events as JSON that cannot control a terminal either.
pub(super) struct JsonLines(Format<Json, ChronoUtc>);

impl JsonLines {
    pub(super) fn new() -> Self {
        let time = ChronoUtc::new("%Y-%m-%dT%H:%M:%S%.3fZ".to_owned());
        let format = Format::default().json().flatten_event(true).with_timer(time);
        Self(format.with_current_span(false).with_span_list(false))
    }
}

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        // The JSON formatter escapes only the control characters below U+0020. The remaining ones
        // can occur only inside strings, where `\u` escapes are valid.
        for letter in line.trim_end().chars() {
            if steers(letter) {
                write!(writer, "\\u{:04x}", u32::from(letter))?;
            } else {
                writer.write_char(letter)?;
            }
        }
        writeln!(writer)
    }
}
