//! The file of defaults, read as the list of all settings: `default.toml` beside this file is
//! where their names, defaults and descriptions are, for the command line and for readers alike.

use std::sync::LazyLock;

/// The text of the file.
pub(super) const DEFAULTS: &str = include_str!("default.toml");

/// What `dev` sets other than `serve`: the targets of a developer are on the same machine, and
/// there are few enough jobs to tell how each went.
pub(super) const DEV: &str = "\
log = \"info,punctual::executor=debug\"
[outbound]
allow = [\"127.0.0.0/8\", \"::1/128\"]
";

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its place in the TOML file, such as `http.listen`.
    pub key: &'static str,
    /// What it does, in one or two sentences.
    pub help: &'static str,
    /// Its default, in the form of TOML.
    pub default: &'static str,
    /// The environment variable that sets it.
    pub variable: String,
    /// The option that sets it, without the dashes before it.
    pub option: String,
}

/// A line of the file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line {
    /// A comment, a section or nothing: to be shown as it is.
    Text(&'static str),
    /// The setting at this place of [`settings`].
    Setting(usize),
}

struct Document {
    settings: Vec<Setting>,
    lines: Vec<Line>,
}

static DOCUMENT: LazyLock<Document> = LazyLock::new(|| parse(DEFAULTS));

/// All settings, in the order of the file.
pub fn settings() -> &'static [Setting] {
    &DOCUMENT.settings
}

/// The lines of the file.
pub(super) fn lines() -> &'static [Line] {
    &DOCUMENT.lines
}

/// The setting that has this key.
pub(super) fn setting(key: &str) -> Option<&'static Setting> {
    settings().iter().find(|setting| setting.key == key)
}

/// Reads the file, in which each setting has one line with one line of comment above it.
fn parse(text: &'static str) -> Document {
    let (mut settings, mut lines) = (Vec::new(), Vec::new());
    let (mut section, mut comment) = ("", "");
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        } else if let Some(text) = line.strip_prefix("# ") {
            comment = text;
        } else if let Some((name, default)) = line.split_once(" = ") {
            lines.push(Line::Setting(settings.len()));
            settings.push(Setting::new(section, name, default, comment));
            continue;
        }
        lines.push(Line::Text(line));
    }
    Document { settings, lines }
}

impl Setting {
    fn new(section: &str, name: &str, default: &'static str, help: &'static str) -> Self {
        let path: Vec<&str> = [section, name].into_iter().filter(|part| !part.is_empty()).collect();
        // The keys live as long as the process: the file is part of the binary.
        let key: &'static str = path.join(".").leak();
        let variable = format!("PUNCTUAL_{}", key.replace('.', "_").to_uppercase());
        let option = key.replace(['.', '_'], "-");
        Self { key, help, default, variable, option }
    }

    /// Whether the value is not to be shown to anybody.
    pub(super) fn is_secret(&self) -> bool {
        self.key == "secrets.keys"
    }

    /// The name within its section.
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
