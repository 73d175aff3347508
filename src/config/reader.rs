//! Reads settings one by one and continues after a mistake, so that all mistakes are found.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use figment::Figment;
use figment::value::Value;

use super::document::{Setting, setting};
use super::errors::{ConfigError, without_password};
use super::sources::{MergedValues, SourceKind, defaults};

/// A value as the source gives it. Environment variables and options only give texts.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SourceValue {
    Text(String),
    Number(i128),
    Flag(bool),
    List(Vec<Self>),
    /// A value that no setting accepts, such as a table or a fraction.
    Other,
}

impl From<&Value> for SourceValue {
    fn from(value: &Value) -> Self {
        match value {
            Value::String(_, text) => Self::Text(text.clone()),
            Value::Bool(_, flag) => Self::Flag(*flag),
            Value::Array(_, items) => Self::List(items.iter().map(Self::from).collect()),
            number => number.to_i128().map_or(Self::Other, Self::Number),
        }
    }
}

/// Formats the value as TOML, without passwords.
impl Display for SourceValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{:?}", without_password(text)),
            Self::Number(number) => number.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Self::Other => f.write_str("(not a plain value)"),
        }
    }
}

/// The result of parsing a value. The error says what the value must be.
pub(super) type ParseResult<T> = Result<T, String>;

/// Reads settings and records mistakes.
pub(super) struct SettingsReader {
    gathered: MergedValues,
    defaults: Figment,
}

impl SettingsReader {
    pub(super) fn new(gathered: MergedValues) -> Self {
        Self { gathered, defaults: defaults() }
    }

    /// Returns the parsed value of `key`. If it is invalid, records a mistake and returns the
    /// default.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&SourceValue) -> ParseResult<T>,
    ) -> T {
        let (given, default) = (self.raw(key), self.default(key));
        parse(&given).unwrap_or_else(|allowed| {
            self.mistake(key, &allowed);
            parse(&default).expect("defaults are valid")
        })
    }

    /// Records that the value of `key` is wrong, and why.
    pub(super) fn mistake(&mut self, key: &'static str, why: &str) {
        let shown = self.shown(key);
        let origin = match self.origin(key) {
            Some(origin) => format!(" ({origin})"),
            None => String::new(),
        };
        self.gathered.errors.push(ConfigError::new(&format!("{key} = {shown}{origin}"), why));
    }

    /// Records a warning about the value of `key`.
    pub(super) fn warn(&mut self, key: &'static str, what: &str) {
        let shown = self.shown(key);
        self.gathered.warnings.push(format!("{key} = {shown} {what}"));
    }

    /// Records a mistake about `name`, which is not in the list of settings.
    pub(super) fn wrong(&mut self, name: &str, why: &str) {
        self.gathered.errors.push(ConfigError::new(name, why));
    }

    /// Returns the tables of a section whose table names the operator chooses, with their names.
    pub(super) fn tables(&self, section: &str) -> Vec<(String, Value)> {
        match self.gathered.figment.find_value(section) {
            Ok(Value::Dict(_, tables)) => tables.into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the number of mistakes recorded so far.
    pub(super) fn error_count(&self) -> usize {
        self.gathered.errors.len()
    }

    /// Returns the value of `key` as it was given.
    pub(super) fn raw(&self, key: &str) -> SourceValue {
        self.gathered.figment.find_value(key).as_ref().map_or(SourceValue::Other, SourceValue::from)
    }

    /// Returns the value of `key` as it was given, or `***` if it is a secret.
    pub(super) fn shown(&self, key: &str) -> SourceValue {
        match self.raw(key) {
            SourceValue::Text(text) if text.is_empty() => SourceValue::Text(text),
            _ if setting(key).is_some_and(Setting::is_secret) => {
                SourceValue::Text("***".to_owned())
            }
            shown => shown,
        }
    }

    /// Returns the default of `key`.
    pub(super) fn default(&self, key: &str) -> SourceValue {
        // A missing default is a bug of the program, which every test would reveal.
        SourceValue::from(&self.defaults.find_value(key).expect("every setting has a default"))
    }

    /// Returns the source that set `key`, or `None` if the default is in force.
    pub(super) fn origin(&self, key: &str) -> Option<String> {
        let setting = setting(key)?;
        match SourceKind::of(self.gathered.figment.find_metadata(key)) {
            SourceKind::Default => None,
            SourceKind::Dev => Some("dev".to_owned()),
            SourceKind::File => self.gathered.file.as_ref().map(|file| file.display().to_string()),
            SourceKind::Environment => Some(setting.variable.clone()),
            SourceKind::Option => Some(format!("--{}", setting.option)),
        }
    }

    /// Returns the gathered sources, with all mistakes recorded so far.
    pub(super) fn finish(self) -> MergedValues {
        self.gathered
    }
}

/// Parses any text.
pub(super) fn text(raw: &SourceValue) -> ParseResult<String> {
    match raw {
        SourceValue::Text(text) => Ok(text.clone()),
        _ => Err("must be a text".to_owned()),
    }
}

/// Parses `true` or `false`.
pub(super) fn flag(raw: &SourceValue) -> ParseResult<bool> {
    match raw {
        SourceValue::Flag(flag) => Ok(*flag),
        SourceValue::Text(text) => text.parse().map_err(|_| "must be true or false".to_owned()),
        _ => Err("must be true or false".to_owned()),
    }
}

/// Parses a whole number within `range`.
pub(super) fn number<T>(range: RangeInclusive<T>) -> impl Fn(&SourceValue) -> ParseResult<T>
where
    T: TryFrom<i128> + PartialOrd + Display,
{
    move |raw| {
        let number = match raw {
            SourceValue::Number(number) => Some(*number),
            SourceValue::Text(text) => text.parse().ok(),
            _ => None,
        };
        let number = number.and_then(|number| T::try_from(number).ok());
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            format!("must be a whole number from {} to {}", range.start(), range.end())
        })
    }
}

/// Parses a whole number of seconds within `range` as a duration.
pub(super) fn seconds(
    range: RangeInclusive<u64>,
) -> impl Fn(&SourceValue) -> ParseResult<Duration> {
    let number = number(range);
    move |raw| number(raw).map(Duration::from_secs)
}

/// Parses an IP address and a port.
pub(super) fn address(raw: &SourceValue) -> ParseResult<SocketAddr> {
    let allowed = || "must be an IP address and a port, such as 127.0.0.1:8080".to_owned();
    text(raw).ok().and_then(|text| text.parse().ok()).ok_or_else(allowed)
}

/// Parses a list. In a text, the items are separated by commas.
pub(super) fn list<T>(
    item: impl Fn(&SourceValue) -> ParseResult<T>,
) -> impl Fn(&SourceValue) -> ParseResult<Vec<T>> {
    move |raw| match raw {
        SourceValue::List(items) => items.iter().map(&item).collect(),
        SourceValue::Text(text) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            items.map(|text| item(&SourceValue::Text(text.to_owned()))).collect()
        }
        _ => Err("must be a list".to_owned()),
    }
}
