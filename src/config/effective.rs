//! A checked configuration, and its printed form.

use super::document::{DocumentLine, lines, settings};
use super::reader::{SettingsReader, SourceValue};
use super::{Config, ConfigErrors, plans};

/// A configuration without mistakes.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: Config,
    /// Warnings for the operator about things that are not mistakes.
    pub warnings: Vec<String>,
    commented: String,
}

impl LoadedConfig {
    pub(super) fn check(config: Config, reader: SettingsReader) -> Result<Self, ConfigErrors> {
        let commented = commented(&reader);
        let gathered = reader.finish();
        if gathered.errors.is_empty() {
            Ok(Self { config, warnings: gathered.warnings, commented })
        } else {
            Err(ConfigErrors(gathered.errors))
        }
    }

    /// Returns the file of defaults with the values in force. Each value that is not the default is
    /// followed by its source. The text is a valid configuration file, except that passwords are
    /// hidden.
    pub fn commented(&self) -> &str {
        &self.commented
    }
}

fn commented(reader: &SettingsReader) -> String {
    let mut text = String::new();
    for line in lines() {
        match line {
            DocumentLine::Text(line) => text.push_str(line),
            DocumentLine::Setting(position) => {
                let setting = &settings()[*position];
                let value = shown(reader, setting.key);
                text.push_str(&format!("{} = {value}", setting.name()));
                if let Some(origin) = reader.origin(setting.key) {
                    text.push_str(&format!("  # from {origin}"));
                }
            }
        }
        text.push('\n');
    }
    text.push_str(&plans::shown(reader));
    text
}

/// Converts the value to the type of its default, because an environment variable gives numbers and
/// lists as text.
fn shown(reader: &SettingsReader, key: &str) -> SourceValue {
    let (given, default) = (reader.shown(key), reader.default(key));
    let SourceValue::Text(text) = &given else { return given };
    match default {
        SourceValue::Number(_) => text.parse().map_or(given, SourceValue::Number),
        SourceValue::Flag(_) => text.parse().map_or(given, SourceValue::Flag),
        SourceValue::List(_) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            let item = |item: &str| {
                item.parse().map_or_else(|_| SourceValue::Text(item.into()), SourceValue::Number)
            };
            SourceValue::List(items.map(item).collect())
        }
        _ => given,
    }
}
