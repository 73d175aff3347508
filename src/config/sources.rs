//! The sources of settings, and their order of precedence.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use figment::providers::{Format, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use super::document::{DEFAULTS, DEV, PLANS, settings};
use super::errors::ConfigError;

/// The environment variable that names the configuration file.
const FILE_VARIABLE: &str = "PUNCTUAL_CONFIG";
/// The prefix of all environment variables of the service.
const PREFIX: &str = "PUNCTUAL_";

/// The sources that settings are read from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Applies the defaults of `dev` on top of the general defaults.
    pub dev: bool,
    /// The configuration file given on the command line.
    pub file: Option<PathBuf>,
    /// The environment variables whose name starts with `PUNCTUAL_`.
    pub environment: Vec<(OsString, OsString)>,
    /// The command-line options: the key of a setting and its value.
    pub options: Vec<(&'static str, String)>,
}

impl Sources {
    /// Creates sources with the environment of this process and no options.
    #[expect(clippy::disallowed_methods, reason = "this is where settings come from")]
    pub fn from_environment(dev: bool, file: Option<PathBuf>) -> Self {
        let ours = |(name, _): &(OsString, OsString)| name.to_string_lossy().starts_with(PREFIX);
        let environment = std::env::vars_os().filter(ours).collect();
        Self { dev, file, environment, options: Vec::new() }
    }
}

/// Returns `true` if the environment asks for output without colours (<https://no-color.org>).
#[expect(clippy::disallowed_methods, reason = "this is where settings come from")]
pub fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// The kind of source that a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceKind {
    Default,
    Dev,
    File,
    Environment,
    Option,
}

impl SourceKind {
    const ALL: [Self; 5] = [Self::Default, Self::Dev, Self::File, Self::Environment, Self::Option];

    const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Dev => "dev",
            Self::File => "file",
            Self::Environment => "environment",
            Self::Option => "option",
        }
    }

    pub(super) fn of(metadata: Option<&Metadata>) -> Self {
        let named = |origin: &Self| metadata.is_some_and(|known| known.name == origin.name());
        Self::ALL.into_iter().find(named).unwrap_or(Self::Default)
    }
}

/// The values of one source.
struct SourceLayer {
    origin: SourceKind,
    values: Dict,
}

impl Provider for SourceLayer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.name())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.values.clone())]))
    }
}

/// The merged values of all sources.
pub(super) struct MergedValues {
    /// The merged values.
    pub figment: Figment,
    /// The path of the configuration file, if there is one.
    pub file: Option<PathBuf>,
    /// The mistakes in the sources. Invalid values are added later, when they are read.
    pub errors: Vec<ConfigError>,
    /// Warnings for the operator about things that are not mistakes.
    pub warnings: Vec<String>,
}

/// Returns the defaults without any other source.
pub(super) fn defaults() -> Figment {
    Figment::from(embedded(SourceKind::Default, DEFAULTS))
}

fn embedded(origin: SourceKind, text: &str) -> SourceLayer {
    SourceLayer { origin, values: read_toml(text).expect("part of the binary, and tested") }
}

/// Merges the sources. Later ones override earlier ones: defaults, file, environment, options.
pub(super) fn gather(sources: &Sources) -> MergedValues {
    let mut gathered = MergedValues {
        figment: defaults(),
        file: sources.file.clone(),
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    if sources.dev {
        gathered.merge(embedded(SourceKind::Dev, DEV));
    }
    let environment = gathered.read_environment(&sources.environment);
    if let Some(path) = gathered.file.clone() {
        match read_file(&path) {
            Ok(values) => {
                gathered.find_unknown_keys(&values);
                gathered.merge(SourceLayer { origin: SourceKind::File, values });
            }
            Err(mistake) => gathered.errors.push(mistake),
        }
    }
    gathered.merge(SourceLayer { origin: SourceKind::Environment, values: nested(environment) });
    let options = sources.options.iter().map(|(key, value)| (*key, value.clone()));
    gathered.merge(SourceLayer { origin: SourceKind::Option, values: nested(options) });
    gathered
}

impl MergedValues {
    fn merge(&mut self, layer: SourceLayer) {
        self.figment = std::mem::take(&mut self.figment).merge(layer);
    }

    /// Returns the settings among the environment variables. Takes the path of the file from them
    /// unless the command line gave one.
    fn read_environment(
        &mut self,
        variables: &[(OsString, OsString)],
    ) -> BTreeMap<&'static str, String> {
        let mut found = BTreeMap::new();
        for (name, value) in variables {
            let name = name.to_string_lossy();
            if name == FILE_VARIABLE {
                let given = Some(PathBuf::from(value)).filter(|path| !path.as_os_str().is_empty());
                self.file = self.file.take().or(given);
            } else if let Some(setting) = settings().iter().find(|known| known.variable == name) {
                match value.to_str() {
                    Some(value) => drop(found.insert(setting.key, value.to_owned())),
                    None => self.errors.push(ConfigError::new(&name, "must be text in UTF-8")),
                }
            } else {
                let known = settings().iter().map(|known| known.variable.as_str());
                let hint = similar(&name, known);
                self.warnings.push(format!("{name} is not a setting and is ignored{hint}"));
            }
        }
        found
    }

    fn find_unknown_keys(&mut self, values: &Dict) {
        let mut keys = Vec::new();
        flatten(values, "", &mut keys);
        let is_plan = |key: &str| key.split('.').next() == Some(PLANS) && key.contains('.');
        for key in keys.into_iter().filter(|key| !is_plan(key)) {
            let known = settings().iter().map(|setting| setting.key);
            if !known.clone().any(|known| known == key) {
                let hint = similar(&key, known);
                self.errors.push(ConfigError::new(&key, &format!("is not a setting{hint}")));
            }
        }
    }
}

fn read_file(path: &Path) -> Result<Dict, ConfigError> {
    let wrong = |what: &str| ConfigError::new(&path.display().to_string(), what);
    let text = std::fs::read_to_string(path)
        .map_err(|error| wrong(&format!("the file cannot be read: {error}")))?;
    read_toml(&text).map_err(|error| wrong(&format!("the file is not TOML: {error}")))
}

fn read_toml(text: &str) -> Result<Dict, String> {
    let mut data = Toml::string(text).data().map_err(|error| unquoted(&error.to_string()))?;
    Ok(data.remove(&Profile::Default).unwrap_or_default())
}

/// Removes the quoted lines from an error of the TOML parser, because they may contain a secret.
fn unquoted(error: &str) -> String {
    let quotes = |line: &&str| {
        line.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ' ')
            .starts_with('|')
    };
    error.lines().filter(|line| !quotes(line)).collect::<Vec<_>>().join(": ")
}

/// Converts dotted keys to nested tables: `http.listen` becomes `listen` inside `http`.
fn nested(values: impl IntoIterator<Item = (&'static str, String)>) -> Dict {
    let mut root = Dict::new();
    for (key, value) in values {
        match key.split_once('.') {
            None => drop(root.insert(key.to_owned(), value.into())),
            Some((section, name)) => {
                let section = root.entry(section.to_owned()).or_insert_with(|| Dict::new().into());
                if let Value::Dict(_, entries) = section {
                    entries.insert(name.to_owned(), value.into());
                }
            }
        }
    }
    root
}

/// Collects the keys of all values. A section in the place of a value counts as a key, and so does
/// a value in the place of a section.
fn flatten(values: &Dict, prefix: &str, keys: &mut Vec<String>) {
    for (name, value) in values {
        let key = format!("{prefix}{name}");
        match value {
            Value::Dict(_, section) if !section.is_empty() => {
                flatten(section, &format!("{key}."), keys);
            }
            Value::Dict(..) if settings().iter().any(|s| s.key.starts_with(&format!("{key}."))) => {
            }
            _ => keys.push(key),
        }
    }
}

/// Returns `; did you mean …?` if one of `known` is similar to `given`, else an empty text.
fn similar<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> String {
    let closeness = |known: &str| strsim::jaro_winkler(given, known);
    let best = known.max_by(|a, b| closeness(a).total_cmp(&closeness(b)));
    let close = best.filter(|best| closeness(best) > 0.85);
    close.map_or_else(String::new, |close| format!("; did you mean {close}?"))
}
