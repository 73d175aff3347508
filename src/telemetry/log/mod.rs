//! The log: one line per event on standard error, as readable text or as JSON.
//!
//! A separate thread writes the lines from a buffer of bounded size. A reader that stops reading
//! therefore costs lines but never time (`sink`). Values cannot break a line, forge another one or
//! control a terminal: their control characters are escaped.

mod json;
mod sink;
mod text;

use std::io::IsTerminal;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use json::JsonLines;
pub use sink::LogSink;
use text::TextLines;

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line, for machines.
    Json,
}

/// The settings of the log.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// Log levels by module, separated by commas, such as `info,punctual::scheduler=debug`.
    /// Validated by [`check_filter`].
    pub filter: String,
    /// The format of the lines.
    pub format: LogFormat,
    /// Allows colours in text lines that go to a terminal.
    pub color: bool,
}

/// Checks the syntax of a filter.
///
/// # Errors
/// Returns the reason if the filter is not valid.
pub fn check_filter(filter: &str) -> Result<(), String> {
    parse_filter(filter).map(drop)
}

/// Parses levels that are separated by commas. A level alone is for all modules, `module=level` for
/// one. An empty filter is the level error.
fn parse_filter(filter: &str) -> Result<Targets, String> {
    let mut words = filter.split(',').map(str::trim).filter(|word| !word.is_empty()).peekable();
    let start = match words.peek() {
        Some(_) => Targets::new(),
        None => Targets::new().with_default(LevelFilter::ERROR),
    };
    words.try_fold(start, |targets, word| {
        Ok(match word.split_once('=') {
            Some((module, level)) => {
                targets.with_target(parse_module(module)?, parse_level(level)?)
            }
            None => targets.with_default(parse_level(word)?),
        })
    })
}

fn parse_module(word: &str) -> Result<String, String> {
    let module = word.trim();
    let is_path = !module.is_empty()
        && module.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-:.".contains(letter));
    if is_path { Ok(module.to_owned()) } else { Err(format!("\"{module}\" is not a module")) }
}

fn parse_level(word: &str) -> Result<LevelFilter, String> {
    let level = word.trim();
    let parsed = level.parse().ok().filter(|_| !level.is_empty());
    parsed.ok_or_else(|| format!("\"{level}\" is not one of off, error, warn, info, debug, trace"))
}

/// Starts logging to standard error. A second call leaves the first configuration in force.
///
/// The returned sink writes the remaining lines when it is dropped. Keep it until the process ends.
pub fn init(settings: &LogSettings) -> LogSink {
    let stderr = std::io::stderr();
    let on_terminal = stderr.is_terminal();
    let sink = LogSink::start(stderr);
    let filter = parse_filter(&settings.filter).expect("check_filter has accepted it");
    let lines = tracing_subscriber::fmt::layer().with_writer(sink.writer());
    let registry = tracing_subscriber::registry().with(filter);
    let installed = match settings.format {
        LogFormat::Text => {
            let text = TextLines { color: settings.color && on_terminal, brief: on_terminal };
            registry.with(lines.event_format(text)).try_init()
        }
        LogFormat::Json => registry.with(lines.json().event_format(JsonLines::new())).try_init(),
    };
    if installed.is_ok() {
        std::panic::set_hook(Box::new(log_panic));
    }
    sink
}

/// Returns `true` for a character that could end the line, control a terminal or change the text
/// direction.
fn steers(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Logs a panic in one line. The default hook writes several lines directly to standard error.
fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let error = panic.payload_as_str().unwrap_or("the payload is not text");
    tracing::error!(location, error, "panicked");
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use serde_json::Value;
    use tracing_subscriber::fmt::Layer;
    use tracing_subscriber::fmt::format::{DefaultFields, Format};
    use tracing_subscriber::registry::Registry;

    use super::sink::LineSender;
    use super::*;

    pub(super) const HOSTILE: &str =
        "a\r\nERROR forged\u{1b}[31m \u{9b}2J\u{202e}\u{2028}\0 \"x\" level=error";

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    type Lines = Layer<Registry, DefaultFields, Format, LineSender>;

    /// Returns the output that `log` produces with this format of lines.
    pub(super) fn written<L>(format: impl FnOnce(Lines) -> L, log: impl FnOnce()) -> String
    where
        L: tracing_subscriber::Layer<Registry> + Send + Sync + 'static,
    {
        let captured = Captured::default();
        let sink = LogSink::start(captured.clone());
        let lines = tracing_subscriber::fmt::layer().with_writer(sink.writer());
        let registry = tracing_subscriber::registry().with(format(lines));
        tracing::subscriber::with_default(registry, log);
        drop(sink);
        String::from_utf8(captured.0.lock().expect("not poisoned").clone()).expect("text")
    }

    #[test]
    fn hostile_values_stay_within_their_line_of_json() {
        let text = written(
            |lines| lines.json().event_format(JsonLines::new()),
            || {
                let error = std::io::Error::other(HOSTILE);
                let span = tracing::info_span!("call", path = HOSTILE);
                let _entered = span.enter();
                tracing::info!(name = HOSTILE, debug = ?HOSTILE, shown = %HOSTILE, %error, "{HOSTILE}");
                tracing::info!("next");
            },
        );
        assert!(!text.trim_end().replace('\n', "").contains(steers), "{text:?}");
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let [hostile, next] = &lines[..] else { panic!("{text}") };
        for name in ["message", "name", "shown", "error"] {
            assert_eq!(hostile[name], HOSTILE, "{name}");
        }
        assert_eq!(hostile["debug"], format!("{HOSTILE:?}"));
        assert_eq!((&hostile["level"], &next["message"]), (&"INFO".into(), &"next".into()));
    }

    #[test]
    fn filters_are_checked() {
        for good in ["info", "", "warn,punctual=debug", "off", "punctual::store=trace,hyper=off"] {
            assert_eq!(check_filter(good), Ok(()), "{good}");
        }
        for bad in ["loud", "punctual=shout", "info,[=", "a=b=c", "a=", "=info", "a[{b}]=info"] {
            assert!(check_filter(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_filter_has_a_level_for_all_modules_and_levels_for_some() {
        let passes = |filter: &str, module: &str, level: tracing::Level| {
            parse_filter(filter).expect("valid").would_enable(module, &level)
        };
        let levels = "warn, punctual::store = debug,hyper=off";
        assert!(passes(levels, "punctual::store::sql", tracing::Level::DEBUG));
        assert!(!passes(levels, "punctual::store::sql", tracing::Level::TRACE));
        assert!(passes(levels, "punctual::api", tracing::Level::WARN));
        assert!(!passes(levels, "punctual::api", tracing::Level::INFO));
        assert!(!passes(levels, "hyper::server", tracing::Level::ERROR));
        assert!(passes("", "punctual", tracing::Level::ERROR));
        assert!(!passes("", "punctual", tracing::Level::WARN));
    }
}
