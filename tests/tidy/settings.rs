//! The README's table of settings is the commented file of defaults, row by row.

use crate::tree::{Finding, Tree};

/// The file with every setting, its default and its meaning.
pub const DEFAULTS: &str = "src/config/default.toml";

/// A setting, as the README shows it.
pub struct Setting {
    pub variable: String,
    default: String,
    meaning: String,
}

impl Setting {
    fn row(&self) -> String {
        let default = match self.default.as_str() {
            "" => String::new(),
            value => format!("`{value}`"),
        };
        format!("| `{}` | {default} | {} |", self.variable, self.meaning)
    }
}

/// All settings, in the order of the file.
pub fn settings(tree: &Tree) -> Vec<Setting> {
    let (mut section, mut comment) = (String::new(), Vec::new());
    let mut all = Vec::new();
    for line in tree.get(DEFAULTS).map_or("", |file| &file.text).lines() {
        if let Some(text) = line.strip_prefix("# ") {
            comment.push(text);
        } else if let Some(name) = line.strip_prefix('[') {
            section = format!("{}_", name.trim_end_matches(']'));
        } else if let Some((key, value)) = line.split_once(" = ") {
            let variable = format!("PUNCTUAL_{section}{key}").to_uppercase();
            let default = value.trim_matches(['[', ']']).replace('"', "");
            all.push(Setting { variable, default, meaning: comment.join(" ") });
        }
        if !line.starts_with('#') {
            comment.clear();
        }
    }
    all
}

fn check(tree: &Tree) -> Vec<Finding> {
    let expected: Vec<String> = settings(tree).iter().map(Setting::row).collect();
    let readme = tree.get("README.md").map_or("", |file| &file.text);
    let table: Vec<&str> = readme.lines().filter(|line| line.starts_with("| `PUNCTUAL_")).collect();
    let mut findings = Vec::new();
    for row in expected.iter().filter(|row| !table.contains(&row.as_str())) {
        findings.push(Finding::new("README.md", format!("lacks the row {row}")));
    }
    for row in table.iter().filter(|row| !expected.iter().any(|known| known == *row)) {
        findings.push(Finding::new("README.md", format!("{DEFAULTS} says otherwise: {row}")));
    }
    if findings.is_empty() && table != expected {
        findings.push(Finding::new("README.md", format!("rows not in the order of {DEFAULTS}")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{assert_finds, assert_tidy};

    const FILE: &str = "# All settings.\n\n# Who.\nroles = [\"api\", \"executor\"]\n\n[http]\n\
                        # Where. Any\n# port.\nlisten = \"a:1\"\n# Prefix.\nbase_path = \"\"\n";
    const ROLES: &str = "| `PUNCTUAL_ROLES` | `api, executor` | Who. |\n";
    const LISTEN: &str = "| `PUNCTUAL_HTTP_LISTEN` | `a:1` | Where. Any port. |\n";
    const PREFIX: &str = "| `PUNCTUAL_HTTP_BASE_PATH` |  | Prefix. |\n";

    fn findings(rows: &[&str]) -> Vec<Finding> {
        check(&Tree::of(&[(DEFAULTS, FILE), ("README.md", &rows.concat())]))
    }

    #[test]
    fn repository() {
        assert_tidy(&check(&Tree::repository()));
    }

    #[test]
    fn accepts_the_table_of_the_file() {
        assert_finds(&findings(&[ROLES, LISTEN, PREFIX]), &[]);
    }

    #[test]
    fn finds_rows_that_are_missing_changed_or_moved() {
        assert_finds(&findings(&[ROLES, LISTEN]), &["lacks the row | `PUNCTUAL_HTTP_BASE"]);
        let changed = ROLES.replace("Who", "What");
        let expected = ["lacks the row | `PUNCTUAL_ROLES", "otherwise: | `PUNCTUAL_ROLES"];
        assert_finds(&findings(&[&changed, LISTEN, PREFIX]), &expected);
        assert_finds(&findings(&[LISTEN, ROLES, PREFIX]), &["not in the order"]);
    }
}
