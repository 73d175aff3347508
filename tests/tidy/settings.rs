//! Checks that `docs/configuration.md` shows the commented file of defaults.

use crate::tree::{Finding, Tree};

/// The file with every setting, its default and its meaning.
pub const DEFAULTS: &str = "src/config/default.toml";
const DOCUMENT: &str = "docs/configuration.md";

/// A setting as the page shows it.
pub struct Setting {
    pub variable: String,
    /// The table of the file that contains it; empty at the top level.
    section: String,
    default: String,
    meaning: String,
}

impl Setting {
    /// Returns the value that applies if the setting is not set.
    pub fn default(&self) -> &str {
        &self.default
    }

    /// Returns the table of the file that contains the setting; empty at the top level.
    pub fn section(&self) -> &str {
        &self.section
    }

    fn row(&self) -> String {
        let default = match self.default.as_str() {
            "" => String::new(),
            value => format!("`{value}`"),
        };
        format!("| `{}` | {default} | {} |\n", self.variable, self.meaning)
    }
}

/// Returns all settings, in the order of the file.
pub fn settings(tree: &Tree) -> Vec<Setting> {
    let (mut section, mut comment) = ("", Vec::new());
    let mut all = Vec::new();
    for line in text(tree).lines() {
        if let Some(text) = line.strip_prefix("# ") {
            comment.push(text);
        } else if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((key, value)) = line.split_once(" = ") {
            let path = if section.is_empty() { key.to_owned() } else { format!("{section}_{key}") };
            let variable = format!("PUNCTUAL_{path}").to_uppercase();
            let default = value.trim_matches(['[', ']']).replace('"', "");
            let (section, meaning) = (section.to_owned(), comment.join(" "));
            all.push(Setting { variable, section, default, meaning });
        }
        if !line.starts_with('#') {
            comment.clear();
        }
    }
    all
}

fn text(tree: &Tree) -> &str {
    tree.get(DEFAULTS).map_or("", |file| &file.text)
}

/// Returns the page for the file of defaults.
fn page(tree: &Tree) -> String {
    let text = text(tree);
    let (head, _) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut page = format!(
        "# Configuration\n\n<!-- Made from {DEFAULTS} by a test of tests/tidy/settings.rs; edit that file. \
         -->\n\n{}\nAll mistakes are reported at once, before a port is bound. `punctual config` prints \
         the settings in force, in the form of that file, with the source of each value.\n",
        prose(head),
    );
    let mut last = None;
    for setting in settings(tree) {
        if last.as_ref() != Some(&setting.section) {
            let heading = if setting.section.is_empty() { "General" } else { &setting.section };
            page += &format!("\n## {heading}\n\n| Variable | Default | Meaning |\n|---|---|---|\n");
        }
        page += &setting.row();
        last = Some(setting.section);
    }
    let last_setting =
        text.lines().rev().skip_while(|line| line.starts_with('#') || line.is_empty());
    let tail: Vec<&str> = text.lines().skip(last_setting.count()).collect();
    page + "\n## plans\n\n" + &prose(&tail.join("\n"))
}

/// Converts comments to Markdown. Indented lines become code.
fn prose(comments: &str) -> String {
    let (mut text, mut code) = (String::new(), false);
    for line in comments.trim().lines() {
        let line = line.trim_start_matches('#').strip_prefix(' ').unwrap_or_default();
        let is_code = line.starts_with("  ") || (code && line.is_empty());
        if is_code != code {
            text += if is_code { "```toml\n" } else { "```\n" };
        }
        code = is_code;
        text += line.strip_prefix("  ").unwrap_or(line);
        text.push('\n');
    }
    if code { text + "```\n" } else { text }
}

fn check(tree: &Tree) -> Vec<Finding> {
    let expected = page(tree);
    let document = tree.get(DOCUMENT).map_or("", |file| &file.text);
    if document == expected {
        return Vec::new();
    }
    let mut pairs = (1..).zip(expected.lines().zip(document.lines()));
    let differing = pairs.find(|(_, (expected, found))| expected != found);
    let ends = expected.lines().count().min(document.lines().count()) + 1;
    let line = differing.map_or(ends, |(line, _)| line);
    let what = format!(
        "not what {DEFAULTS} says, from line {line} on; run\n\
         PUNCTUAL_REFRESH_CONFIGURATION=1 cargo test --test tidy settings::"
    );
    vec![Finding::new(DOCUMENT, what)]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::tree::{assert_finds, assert_tidy};

    const FILE: &str = "# All settings.\n#\n# Each can be set.\n\n# Who.\nroles = [\"api\", \"executor\"]\n\n\
                        [http]\n# Where. Any\n# port.\nlisten = \"a:1\"\n# Prefix.\nbase_path = \"\"\n\n\
                        # Plans limit. Such as:\n#\n#   [plans.free]\n#   schedules = 5\n";
    const ROLES: &str = "## General\n\n| Variable | Default | Meaning |\n|---|---|---|\n\
                         | `PUNCTUAL_ROLES` | `api, executor` | Who. |\n";
    const HTTP: &str = "## http\n\n| Variable | Default | Meaning |\n|---|---|---|\n\
                        | `PUNCTUAL_HTTP_LISTEN` | `a:1` | Where. Any port. |\n\
                        | `PUNCTUAL_HTTP_BASE_PATH` |  | Prefix. |\n";
    const PLANS: &str =
        "## plans\n\nPlans limit. Such as:\n\n```toml\n[plans.free]\nschedules = 5\n```\n";

    fn findings(document: &str) -> Vec<Finding> {
        check(&Tree::of(&[(DEFAULTS, FILE), (DOCUMENT, document)]))
    }

    #[test]
    fn repository() {
        let tree = Tree::repository();
        if option_env!("PUNCTUAL_REFRESH_CONFIGURATION").is_some() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(DOCUMENT);
            std::fs::write(path, page(&tree)).expect("the page can be written");
        }
        assert_tidy(&check(&Tree::repository()));
    }

    #[test]
    fn the_page_shows_the_whole_file() {
        let page = page(&Tree::of(&[(DEFAULTS, FILE)]));
        let parts = page.split_once("\n## General").expect("parts").0;
        assert!(parts.contains("All settings.\n\nEach can be set.\n"), "{page}");
        assert!(page.ends_with(&format!("\n{ROLES}\n{HTTP}\n{PLANS}")), "{page}");
        assert_finds(&findings(&page), &[]);
    }

    #[test]
    fn finds_a_page_that_is_missing_changed_or_cut() {
        assert_finds(&check(&Tree::of(&[(DEFAULTS, FILE)])), &["from line 1 on"]);
        let page = page(&Tree::of(&[(DEFAULTS, FILE)]));
        let lines = page.lines().count();
        assert_finds(&findings(&page.replace("Who.", "What.")), &["not what"]);
        let cut = page.strip_suffix("```\n").expect("code at the end");
        assert_finds(&findings(cut), &[&format!("from line {lines} on")]);
    }
}
