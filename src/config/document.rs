//! The list of all settings, parsed from `default.toml` beside this file. The names, defaults and
//! descriptions in that file serve both the command line and its readers.

use std::sync::LazyLock;

/// The content of `default.toml`.
pub(super) const DEFAULTS: &str = include_str!("default.toml");

/// The defaults of `dev` that differ from those of `serve`. A developer's targets are on the same
/// machine, and there are few enough jobs to log the result of each.
pub(super) const DEV: &str = "\
log = \"info,punctual::executor=debug\"
[outbound]
allow = [\"127.0.0.0/8\", \"::1/128\"]
";

/// The section whose tables are plans, and whose keys are therefore not in the list.
pub(super) const PLANS: &str = "plans";

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its key in the TOML file, such as `http.listen`.
    pub key: &'static str,
    /// Its description, in one or two sentences.
    pub help: &'static str,
    /// Its default, as TOML.
    pub default: &'static str,
    /// The environment variable that sets it, such as `PUNCTUAL_HTTP_LISTEN`.
    pub variable: String,
    /// The command-line option that sets it, without the leading dashes.
    pub option: String,
}

/// A line of the file.
#[derive(Clone, Copy, Debug)]
pub(super) enum DocumentLine {
    /// A comment, a section or an empty line, to be shown unchanged.
    Text(&'static str),
    /// The setting at this index of [`settings`].
    Setting(usize),
}

struct SettingsText {
    settings: Vec<Setting>,
    lines: Vec<DocumentLine>,
}

static DOCUMENT: LazyLock<SettingsText> = LazyLock::new(|| parse(DEFAULTS));

/// Returns all settings, in the order of the file.
pub fn settings() -> &'static [Setting] {
    &DOCUMENT.settings
}

/// Returns the lines of the file.
pub(super) fn lines() -> &'static [DocumentLine] {
    &DOCUMENT.lines
}

/// Returns the setting with this key.
pub(super) fn setting(key: &str) -> Option<&'static Setting> {
    settings().iter().find(|setting| setting.key == key)
}

/// Parses the file. Each setting takes one line, with one comment line above it.
fn parse(text: &'static str) -> SettingsText {
    let (mut settings, mut lines) = (Vec::new(), Vec::new());
    let (mut section, mut comment) = ("", "");
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        } else if let Some(text) = line.strip_prefix("# ") {
            comment = text;
        } else if let Some((name, default)) = line.split_once(" = ") {
            lines.push(DocumentLine::Setting(settings.len()));
            settings.push(Setting::new(section, name, default, comment));
            continue;
        }
        lines.push(DocumentLine::Text(line));
    }
    SettingsText { settings, lines }
}

impl Setting {
    fn new(section: &str, name: &str, default: &'static str, help: &'static str) -> Self {
        let path: Vec<&str> = [section, name].into_iter().filter(|part| !part.is_empty()).collect();
        // Leaking is safe: the keys are parsed once, and they live as long as the process.
        let key: &'static str = path.join(".").leak();
        let variable = format!("PUNCTUAL_{}", key.replace('.', "_").to_uppercase());
        let option = key.replace(['.', '_'], "-");
        Self { key, help, default, variable, option }
    }

    /// Returns `true` if the value must not be shown.
    pub(super) fn is_secret(&self) -> bool {
        matches!(self.key, "secrets.keys" | "oidc.client_secret")
    }

    /// Returns the name within its section.
    pub(super) fn name(&self) -> &'static str {
        self.key.rsplit_once('.').map_or(self.key, |(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_its_names_and_a_description() {
        let listen = setting("http.listen").expect("there");
        assert_eq!(listen.variable, "PUNCTUAL_HTTP_LISTEN");
        assert_eq!(listen.option, "http-listen");
        assert_eq!(setting("log_format").expect("there").variable, "PUNCTUAL_LOG_FORMAT");
        for setting in settings() {
            assert!(setting.help.ends_with('.'), "{}: {:?}", setting.key, setting.help);
        }
    }

    #[test]
    fn names_that_others_rely_on() {
        let known: Vec<&str> = settings().iter().map(|s| s.variable.as_str()).collect();
        for name in [
            "STORE_URL",
            "QUEUE_URL",
            "CLUSTER_URL",
            "HTTP_LISTEN",
            "HTTP_BASE_PATH",
            "OPS_LISTEN",
            "OUTBOUND_ALLOW",
            "OUTBOUND_DENY_PORTS",
            "DNS_SERVERS",
            "RETRY_BASE_MS",
            "RETRY_CAP_MS",
            "RATE_PER_MINUTE",
            "RATE_PER_HOUR",
            "SECRETS_KEYS",
            "SECRETS_KEYS_FILE",
            "ROLES",
            "LOG",
            "LOG_FORMAT",
            "DATA_DIR",
        ] {
            assert!(known.contains(&format!("PUNCTUAL_{name}").as_str()), "{name}");
        }
    }
}
