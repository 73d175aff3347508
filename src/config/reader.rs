//! Reads settings one by one, and goes on after a mistake, so that all of them are found.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use figment::Figment;
use figment::value::Value;

use super::document::{Setting, setting};
use super::mistakes::{Mistake, without_password};
use super::sources::{Gathered, Origin, defaults};

/// A value as a source gives it. Variables and options give only texts.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Raw {
    Text(String),
    Number(i128),
    Flag(bool),
    List(Vec<Self>),
    /// Something no setting takes, such as a table or a fraction.
    Other,
}

impl From<&Value> for Raw {
    fn from(value: &Value) -> Self {
        match value {
            Value::String(_, text) => Self::Text(text.clone()),
            Value::Bool(_, flag) => Self::Flag(*flag),
            Value::Array(_, items) => Self::List(items.iter().map(Self::from).collect()),
            number => number.to_i128().map_or(Self::Other, Self::Number),
        }
    }
}

/// In the form of TOML, without passwords.
impl Display for Raw {
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

/// What reading a value says when it cannot: what it must be.
pub(super) type Parsed<T> = Result<T, String>;

/// Reads settings and notes mistakes.
pub(super) struct Reader {
    gathered: Gathered,
    defaults: Figment,
}

impl Reader {
    pub(super) fn new(gathered: Gathered) -> Self {
        Self { gathered, defaults: defaults() }
    }

    /// The value of `key`. If there is a mistake in it, that is noted and the default is taken.
    pub(super) fn read<T>(&mut self, key: &'static str, parse: impl Fn(&Raw) -> Parsed<T>) -> T {
        let (given, default) = (self.raw(key), self.default(key));
        parse(&given).unwrap_or_else(|allowed| {
            self.mistake(key, &allowed);
            parse(&default).expect("defaults are valid")
        })
    }

    /// Notes that the value of `key` is wrong, and why.
    pub(super) fn mistake(&mut self, key: &'static str, why: &str) {
        let shown = self.shown(key);
        let origin = match self.origin(key) {
            Some(origin) => format!(" ({origin})"),
            None => String::new(),
        };
        self.gathered.mistakes.push(Mistake::new(&format!("{key} = {shown}{origin}"), why));
    }

    /// Notes what the operator should know of the value of `key`.
    pub(super) fn warn(&mut self, key: &'static str, what: &str) {
        let shown = self.shown(key);
        self.gathered.warnings.push(format!("{key} = {shown} {what}"));
    }

    /// Notes that what is called `name`, which is no setting of the list, is wrong, and why.
    pub(super) fn wrong(&mut self, name: &str, why: &str) {
        self.gathered.mistakes.push(Mistake::new(name, why));
    }

    /// What is in a section whose names are the operator's, by name.
    pub(super) fn tables(&self, section: &str) -> Vec<(String, Value)> {
        match self.gathered.figment.find_value(section) {
            Ok(Value::Dict(_, tables)) => tables.into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// How many mistakes have been noted so far.
    pub(super) fn mistakes(&self) -> usize {
        self.gathered.mistakes.len()
    }

    /// The value of `key` as it was given.
    pub(super) fn raw(&self, key: &str) -> Raw {
        self.gathered.figment.find_value(key).as_ref().map_or(Raw::Other, Raw::from)
    }

    /// The value of `key` as it was given, unless it is a secret.
    pub(super) fn shown(&self, key: &str) -> Raw {
        match self.raw(key) {
            Raw::Text(text) if text.is_empty() => Raw::Text(text),
            _ if setting(key).is_some_and(Setting::is_secret) => Raw::Text("***".to_owned()),
            shown => shown,
        }
    }

    /// The value that `key` has if nobody gives one.
    pub(super) fn default(&self, key: &str) -> Raw {
        // A name that is not in the file would be a fault of the program, which every test finds.
        Raw::from(&self.defaults.find_value(key).expect("every setting has a default"))
    }

    /// Where the value of `key` was set, unless it is the default.
    pub(super) fn origin(&self, key: &str) -> Option<String> {
        let setting = setting(key)?;
        match Origin::of(self.gathered.figment.find_metadata(key)) {
            Origin::Default => None,
            Origin::Dev => Some("dev".to_owned()),
            Origin::File => self.gathered.file.as_ref().map(|file| file.display().to_string()),
            Origin::Environment => Some(setting.variable.clone()),
            Origin::Option => Some(format!("--{}", setting.option)),
        }
    }

    /// What was gathered, with all mistakes noted so far.
    pub(super) fn finish(self) -> Gathered {
        self.gathered
    }
}

/// Any text.
pub(super) fn text(raw: &Raw) -> Parsed<String> {
    match raw {
        Raw::Text(text) => Ok(text.clone()),
        _ => Err("must be a text".to_owned()),
    }
}

/// `true` or `false`.
pub(super) fn flag(raw: &Raw) -> Parsed<bool> {
    match raw {
        Raw::Flag(flag) => Ok(*flag),
        Raw::Text(text) => text.parse().map_err(|_| "must be true or false".to_owned()),
        _ => Err("must be true or false".to_owned()),
    }
}

/// A whole number within `range`.
pub(super) fn number<T>(range: RangeInclusive<T>) -> impl Fn(&Raw) -> Parsed<T>
where
    T: TryFrom<i128> + PartialOrd + Display,
{
    move |raw| {
        let number = match raw {
            Raw::Number(number) => Some(*number),
            Raw::Text(text) => text.parse().ok(),
            _ => None,
        };
        let number = number.and_then(|number| T::try_from(number).ok());
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            format!("must be a whole number from {} to {}", range.start(), range.end())
        })
    }
}

/// A whole number of seconds within `range`, as a span.
pub(super) fn seconds(range: RangeInclusive<u64>) -> impl Fn(&Raw) -> Parsed<Duration> {
    let number = number(range);
    move |raw| number(raw).map(Duration::from_secs)
}

/// An IP address and a port.
pub(super) fn address(raw: &Raw) -> Parsed<SocketAddr> {
    let allowed = || "must be an IP address and a port, such as 127.0.0.1:8080".to_owned();
    text(raw).ok().and_then(|text| text.parse().ok()).ok_or_else(allowed)
}

/// A list; as a text, its items are separated by commas.
pub(super) fn list<T>(item: impl Fn(&Raw) -> Parsed<T>) -> impl Fn(&Raw) -> Parsed<Vec<T>> {
    move |raw| match raw {
        Raw::List(items) => items.iter().map(&item).collect(),
        Raw::Text(text) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            items.map(|text| item(&Raw::Text(text.to_owned()))).collect()
        }
        _ => Err("must be a list".to_owned()),
    }
}
