//! The words of a plain shell command, and its options.

use std::vec::IntoIter;

use super::refused_line::RefusedLine;

/// The ways to discard the output of a command, without blanks.
const DISCARDS: [&str; 8] = [
    ">>/dev/null",
    ">/dev/null",
    "1>/dev/null",
    "2>/dev/null",
    "&>/dev/null",
    "2>&1",
    "1>&2",
    ">&2",
];

/// Splits a command into its words. Redirections that discard the output are dropped, because a
/// schedule has no output. Other features of the shell are refused.
pub fn words(command: &str) -> Result<Vec<String>, RefusedLine> {
    shlex::split(plain_part(command)?).ok_or(RefusedLine::OpenQuote)
}

/// Returns the command without a comment and without the parts that discard its output.
fn plain_part(command: &str) -> Result<&str, RefusedLine> {
    let (mut quote, mut is_escaped, mut previous) = (None, false, ' ');
    for (at, letter) in command.char_indices() {
        let before = std::mem::replace(&mut previous, letter);
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        match (quote, letter) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => is_escaped = true,
            (_, '$' | '`') => return Err(RefusedLine::Shell(letter)),
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '#') if before.is_whitespace() => return Ok(&command[..at]),
            (None, '>') => return without_output(command, at),
            (None, '&') if command[at..].starts_with("&>") => return without_output(command, at),
            (None, '|' | '&' | ';' | '<' | '(' | ')') => return Err(RefusedLine::Shell(letter)),
            (None, _) => {}
        }
    }
    Ok(command)
}

/// Returns the part of a command before the redirection of its output at `at`.
fn without_output(command: &str, at: usize) -> Result<&str, RefusedLine> {
    let before = &command[..at];
    let plain = before.strip_suffix([' ', '\t']).map(|_| before).unwrap_or_else(|| {
        // In `2>file` the digit is not a word of the command.
        let digit = before.strip_suffix(['1', '2']);
        digit.filter(|rest| rest.ends_with([' ', '\t'])).unwrap_or(before)
    });
    let tail: String = command[plain.len()..].split_whitespace().collect();
    let mut rest = tail.as_str();
    while !rest.is_empty() {
        let form = DISCARDS.iter().find_map(|form| rest.strip_prefix(form));
        rest = form.ok_or(RefusedLine::Output)?;
    }
    Ok(plain)
}

/// A word of a command, read as `getopt_long` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandWord {
    /// An option with its hyphens: `-X` or `--request`.
    Option(String),
    /// Any other word.
    Operand(String),
}

/// Reads the options and the operands of a command.
pub struct OptionReader {
    words: IntoIter<String>,
    /// A word of short options.
    cluster: String,
    /// The position in `cluster` after the option that was read last. The rest has further options,
    /// or its value.
    read_to: usize,
    /// The value that follows a long option after an equals sign.
    attached: Option<String>,
    has_only_operands: bool,
}

impl OptionReader {
    /// Creates a reader of the words after the name of the program.
    pub fn new(words: IntoIter<String>) -> Self {
        Self { words, cluster: String::new(), read_to: 0, attached: None, has_only_operands: false }
    }

    /// Creates a reader of a command without the name of its program.
    #[cfg(test)]
    pub fn of(command: &str) -> Result<Self, RefusedLine> {
        Ok(Self::new(words(command)?.into_iter()))
    }

    /// Returns the next option or operand.
    pub fn next(&mut self) -> Option<CommandWord> {
        self.attached = None;
        if let Some(letter) = self.cluster[self.read_to..].chars().next() {
            self.read_to += letter.len_utf8();
            return Some(CommandWord::Option(format!("-{letter}")));
        }
        let word = self.words.next()?;
        if self.has_only_operands || word == "-" || !word.starts_with('-') {
            return Some(CommandWord::Operand(word));
        }
        if word == "--" {
            self.has_only_operands = true;
            return self.next();
        }
        if !word.starts_with("--") {
            (self.cluster, self.read_to) = (word, 1);
            return self.next();
        }
        Some(CommandWord::Option(match word.split_once('=') {
            Some((name, value)) => {
                self.attached = Some(value.to_owned());
                name.to_owned()
            }
            None => word,
        }))
    }

    /// Returns the value of the option that was read last.
    pub fn value(&mut self, option: &str) -> Result<String, RefusedLine> {
        if let Some(attached) = self.attached.take() {
            return Ok(attached);
        }
        if self.read_to < self.cluster.len() {
            return Ok(self.cluster.split_off(self.read_to));
        }
        self.words.next().ok_or_else(|| RefusedLine::NoValue(option.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_command_is_split_as_a_shell_does() {
        let split = |command: &str| words(command).expect(command);
        assert_eq!(
            split(r#"curl -d 'a "b" $c' "d\"e" f\ g"#),
            ["curl", "-d", "a \"b\" $c", "d\"e", "f g"]
        );
        assert_eq!(split("curl a # it's a comment"), ["curl", "a"]);
        assert_eq!(split("curl a#b"), ["curl", "a#b"]);
        for discarded in [
            ">/dev/null",
            "> /dev/null 2>&1",
            ">/dev/null 2>/dev/null",
            "&>/dev/null",
            "&> /dev/null",
            "1>/dev/null 2>&1",
            "2>&1 >/dev/null",
            ">> /dev/null",
        ] {
            assert_eq!(split(&format!("curl a2 {discarded}")), ["curl", "a2"], "{discarded}");
        }
        assert_eq!(split("curl a>/dev/null"), ["curl", "a"]);
    }

    #[test]
    fn features_of_the_shell_are_refused() {
        for (command, letter) in [
            ("curl $URL", '$'),
            ("curl \"$(x)\"", '$'),
            ("curl `x`", '`'),
            ("a | b", '|'),
            ("a && b", '&'),
            ("curl http://a/?b=1&c=2", '&'),
            ("a; b", ';'),
            ("a < b", '<'),
            ("(a)", '('),
        ] {
            assert_eq!(words(command), Err(RefusedLine::Shell(letter)), "{command}");
        }
        for command in
            ["a > /tmp/x", "a >> log 2>&1", "a > /dev/null | b", "a 2>&1 | b", "a >/dev/nullx"]
        {
            assert_eq!(words(command), Err(RefusedLine::Output), "{command}");
        }
        assert_eq!(words("curl 'a"), Err(RefusedLine::OpenQuote));
        assert_eq!(words("curl a\\"), Err(RefusedLine::OpenQuote));
    }

    #[test]
    fn options_are_read_with_their_values() {
        let given = ["-sXPOST", "--max-time=3", "--url", "u", "-", "-m", "--", "-x"];
        let mut reader = OptionReader::new(given.map(str::to_owned).to_vec().into_iter());
        let option = |name: &str| Some(CommandWord::Option(name.to_owned()));
        let operand = |word: &str| Some(CommandWord::Operand(word.to_owned()));
        assert_eq!(reader.next(), option("-s"));
        assert_eq!(reader.next(), option("-X"));
        assert_eq!(reader.value("-X").as_deref(), Ok("POST"));
        assert_eq!(reader.next(), option("--max-time"));
        assert_eq!(reader.value("--max-time").as_deref(), Ok("3"));
        assert_eq!(reader.next(), option("--url"));
        assert_eq!(reader.value("--url").as_deref(), Ok("u"));
        assert_eq!(reader.next(), operand("-"));
        assert_eq!(reader.next(), option("-m"));
        assert_eq!(reader.value("-m").as_deref(), Ok("--"));
        assert_eq!(reader.next(), option("-x"));
        assert_eq!(reader.value("-x"), Err(RefusedLine::NoValue("-x".to_owned())));
    }
}
