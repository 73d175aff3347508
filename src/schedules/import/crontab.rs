//! The lines of a crontab.

use serde_json::{Map, Value};

use super::command_words::{OptionReader, words};
use super::refused_line::{MAX_LINE, RefusedLine};
use super::{ReadEntry, ReadText, curl, wget};

/// The words that stand for five fields.
const MACROS: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// The maximum length of the name of a timezone, in characters. No zone has a longer name.
const MAX_ZONE: usize = 64;

/// Reads a crontab: at most `most` + 1 lines with commands, because the caller refuses a text with
/// more than `most`. `zone` is the timezone of the lines before the first one that sets another.
pub fn read(text: &str, zone: &str, most: usize) -> ReadText {
    let mut zone = zone.to_owned();
    let (mut entries, mut without_effect) = (Vec::new(), None);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if entries.len() > most {
            break;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.len() > MAX_LINE {
            let item = Err(vec![RefusedLine::TooLong.to_string()]);
            entries.push(ReadEntry { number, item });
            continue;
        }
        match setting(line) {
            // Each of the lines that follow has a copy. The start of a longer name is no zone.
            Some(("CRON_TZ", value)) => zone = value.chars().take(MAX_ZONE).collect(),
            // For cron it is a variable of the commands.
            Some(("TZ", _)) => without_effect = without_effect.or(Some(number)),
            // Other variables are for commands, and a command that uses one is refused.
            Some(_) => {}
            None => entries.push(ReadEntry { number, item: item(line, &zone) }),
        }
    }
    ReadText { entries, without_effect }
}

/// Returns the name and the value of a line that sets a variable.
fn setting(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end();
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let value = value.trim();
    let unquoted = ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote))
        .unwrap_or(value);
    is_name.then_some((name, unquoted))
}

fn item(line: &str, zone: &str) -> Result<String, Vec<String>> {
    let fields = fields(line, zone).map_err(|refused| vec![refused.to_string()])?;
    Ok(Value::Object(fields).to_string())
}

/// Returns the fields of the schedule of a line, with the names of the API.
fn fields(line: &str, zone: &str) -> Result<Map<String, Value>, RefusedLine> {
    let (expression, command) = time(line)?;
    let mut words = words(&without_percent(command)?)?.into_iter();
    let program = words.next().unwrap_or_default();
    let options = OptionReader::new(words);
    let request = match program.rsplit('/').next() {
        Some("curl") => curl::read(options)?,
        Some("wget") => wget::read(options)?,
        _ => return Err(RefusedLine::Program),
    };
    let mut fields = request.into_fields()?;
    fields.insert("cronExpression".to_owned(), expression.into());
    fields.insert("timezone".to_owned(), zone.into());
    Ok(fields)
}

/// Splits a line into its cron expression and its command.
fn time(line: &str) -> Result<(String, &str), RefusedLine> {
    let is_blank = |c: char| c == ' ' || c == '\t';
    if line.starts_with('@') {
        let (word, command) = line.split_once(is_blank).ok_or(RefusedLine::Incomplete)?;
        let known = MACROS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name));
        let (_, expression) = known.ok_or_else(|| RefusedLine::NoTime(word.to_owned()))?;
        return Ok(((*expression).to_owned(), command.trim_start()));
    }
    let (mut rest, mut fields) = (line, Vec::new());
    for _ in 0..5 {
        let (field, after) = rest.split_once(is_blank).ok_or(RefusedLine::Incomplete)?;
        fields.push(field);
        rest = after.trim_start_matches(is_blank);
    }
    Ok((fields.join(" "), rest))
}

/// Returns a command as cron passes it to the shell: `\%` stands for a percent sign.
fn without_percent(command: &str) -> Result<String, RefusedLine> {
    let plain = command.replace("\\%", "\0");
    if plain.contains('%') {
        return Err(RefusedLine::Input);
    }
    Ok(plain.replace('\0', "%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_items_in_their_zones() {
        let text = "# nightly\nMAILTO=\"\"\n\n0 3 * * *\tcurl -fs https://a.example/\n\
                    CRON_TZ=Europe/Berlin\n  @Hourly /usr/bin/wget -q https://b.example/ > /dev/null\n\
                    TZ = 'UTC'\r\n*/5  0-6 * * MON curl https://c.example/?d=\\%20\n";
        let ReadText { entries, without_effect } = read(text, "Asia/Tokyo", 10);
        assert_eq!(without_effect, Some(7), "the line that sets TZ");
        let read: Vec<_> = entries
            .into_iter()
            .map(|entry| {
                let item: Value = serde_json::from_str(&entry.item.expect("valid")).expect("JSON");
                let text = |name: &str| item[name].as_str().expect("a text").to_owned();
                (entry.number, text("cronExpression"), text("timezone"), text("endpoint"))
            })
            .collect();
        let expected = [
            (4, "0 3 * * *", "Asia/Tokyo", "https://a.example/"),
            (6, "0 * * * *", "Europe/Berlin", "https://b.example/"),
            (8, "*/5 0-6 * * MON", "Europe/Berlin", "https://c.example/?d=%20"),
        ];
        let expected =
            expected.map(|(at, cron, zone, url)| (at, cron.into(), zone.into(), url.into()));
        assert_eq!(read, expected);
    }

    #[test]
    fn a_long_name_of_a_zone_is_not_copied_to_each_line() {
        let text = format!("CRON_TZ={}\n@daily curl a\n", "x".repeat(200_000));
        let ReadText { entries, .. } = read(&text, "UTC", 10);
        let item = entries[0].item.as_ref().expect("valid");
        assert!(item.len() < 1_000, "{}", item.len());
    }

    #[test]
    fn a_line_that_cannot_be_imported_has_a_reason() {
        for (line, expected) in [
            ("0 3 * * *", RefusedLine::Incomplete),
            ("@daily", RefusedLine::Incomplete),
            ("hello", RefusedLine::Incomplete),
            ("@reboot curl https://a/", RefusedLine::NoTime("@reboot".into())),
            ("0 3 * * * root curl https://a/", RefusedLine::Program),
            ("0 3 * * * /opt/backup.sh", RefusedLine::Program),
            ("0 3 * * * curl https://a/?b=%20", RefusedLine::Input),
            ("0 3 * * * curl https://a/$(date)", RefusedLine::Shell('$')),
        ] {
            let ReadText { entries, .. } = read(line, "UTC", 10);
            assert_eq!(entries[0].item, Err(vec![expected.to_string()]), "{line}");
        }
        let long = |bytes: usize| {
            let line = format!("0 3 * * * curl https://a/ -s{}", "s".repeat(bytes));
            read(&line, "UTC", 10).entries.remove(0).item
        };
        assert!(long(300 * 1_024 - 30).is_ok());
        let expected = "a line can have at most 300 KiB".to_owned();
        assert_eq!(long(300 * 1_024), Err(vec![expected]));
        assert_eq!(setting("1A=b"), None);
        assert_eq!(setting("0 3 * * * curl http://a/?b=c"), None);
        assert_eq!(setting("A_1 = \"b c\" "), Some(("A_1", "b c")));
        assert_eq!(read("A=b\n#x\n", "UTC", 10).entries.len(), 0);
        assert_eq!(read(&"x\n".repeat(20), "UTC", 10).entries.len(), 11);
    }
}
