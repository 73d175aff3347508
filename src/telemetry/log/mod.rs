//! The log: one line per event on standard error, as readable text or as JSON.
//!
//! A thread of its own writes the lines, from a buffer of bounded size, so that a reader that
//! stops reading costs lines and never time (`sink`). Values cannot break a line, forge another or
//! steer a terminal: control characters in them are written as escapes.

mod sink;
mod text;

use std::io::IsTerminal;

use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::time::ChronoUtc;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub use sink::Sink;
use text::TextLines;

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON object per line.
    Json,
}

/// What is logged and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Levels by module, in the syntax of `tracing_subscriber::EnvFilter`, such as
    /// `info,punctual::scheduler=debug`. Checked by [`check_filter`].
    pub filter: String,
    /// How lines look.
    pub format: LogFormat,
    /// Whether text may be coloured where it goes to a terminal.
    pub color: bool,
}

/// Says what is wrong with a filter.
///
/// # Errors
/// If [`init`] would not understand it.
pub fn check_filter(filter: &str) -> Result<(), String> {
    // A word alone would be taken for a module: a typo in a level would silence everything.
    let mut words = filter.split(',').map(str::trim).filter(|word| !word.is_empty());
    if let Some(word) = words.find(|word| {
        !word.contains(['=', '[']) && word.parse::<tracing::level_filters::LevelFilter>().is_err()
    }) {
        return Err(format!("\"{word}\" is no level; say off, error, warn, info, debug or trace"));
    }
    EnvFilter::builder().parse(filter).map(drop).map_err(|error| error.to_string())
}

/// Begins logging to standard error. A second call leaves the first in force.
///
/// The sink that comes back writes what is left when it is dropped; keep it to the end.
pub fn init(settings: &Settings) -> Sink {
    let stderr = std::io::stderr();
    let on_terminal = stderr.is_terminal();
    let sink = Sink::start(stderr);
    let filter = EnvFilter::builder().parse_lossy(&settings.filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(sink.writer());
    let registry = tracing_subscriber::registry().with(filter);
    let installed = match settings.format {
        LogFormat::Text => {
            let text = TextLines { color: settings.color && on_terminal, brief: on_terminal };
            registry.with(lines.event_format(text)).try_init()
        }
        LogFormat::Json => {
            let time = ChronoUtc::new("%Y-%m-%dT%H:%M:%S%.3fZ".to_owned());
            let json = lines.json().flatten_event(true).with_timer(time);
            registry.with(json.with_current_span(false).with_span_list(false)).try_init()
        }
    };
    if installed.is_ok() {
        std::panic::set_hook(Box::new(log_panic));
    }
    sink
}

/// The default hook writes several lines, past the log.
fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let reason = panic.payload_as_str().unwrap_or("not a text");
    tracing::error!(place, reason, "panicked");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_checked() {
        for good in ["info", "", "warn,punctual=debug", "off", "punctual::store=trace,hyper=off"] {
            assert_eq!(check_filter(good), Ok(()), "{good}");
        }
        for bad in ["loud", "punctual=shout", "info,[=", "a=b=c"] {
            assert!(check_filter(bad).is_err(), "{bad}");
        }
    }
}
