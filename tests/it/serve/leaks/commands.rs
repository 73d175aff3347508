//! The output of commands, and the secrets that some commands show on purpose.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use super::assert_absent;

/// Passwords that users chose.
const CHOSEN: [&str; 2] = ["marker-as-a-password", "marker-as-another-password"];

/// The output of all commands, and the secrets that were shown on purpose.
pub struct CommandOutputs {
    secrets: Vec<String>,
    said: Vec<(String, Vec<u8>)>,
}

impl CommandOutputs {
    /// Returns all secrets, including `others`.
    pub fn with<'a>(&'a self, others: &[&'a str]) -> Vec<&'a str> {
        let shown = self.secrets.iter().map(String::as_str);
        shown.chain(CHOSEN).chain(others.iter().copied()).collect()
    }

    /// Asserts that the other output contains no secrets.
    pub fn search(&self, secrets: &[&str]) {
        for (command, said) in &self.said {
            assert_absent(command, said, secrets);
        }
    }
}

struct Runner<C> {
    command: C,
    outputs: CommandOutputs,
}

impl<C: Fn(&[&str]) -> Command> Runner<C> {
    fn output(&mut self, line: &str, input: &str) -> Vec<u8> {
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut command = (self.command)(&arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(input.as_bytes()).expect("written");
        drop(stdin);
        let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
        assert!(status.success(), "{line}: {}", String::from_utf8_lossy(&stderr));
        self.outputs.said.push((format!("the errors of {line}"), stderr));
        stdout
    }

    /// Runs a command whose output must contain no secrets.
    fn run(&mut self, line: &str, input: &str) -> String {
        let said = self.output(line, input);
        let text = String::from_utf8_lossy(&said).into_owned();
        self.outputs.said.push((format!("the output of {line}"), said));
        text
    }

    /// Runs a command that shows secrets, each on a line after `before`.
    fn shows(&mut self, line: &str, before: &str) {
        let shown = String::from_utf8(self.output(line, "")).expect("text");
        let secrets = shown.lines().filter_map(|line| line.split_once(before));
        let secrets: Vec<_> = secrets.map(|(_, secret)| secret.trim().to_owned()).collect();
        assert!(!secrets.is_empty() && secrets.iter().all(|one| one.len() >= 20), "{line}");
        self.outputs.secrets.extend(secrets);
    }
}

/// Runs all commands that work while a server runs. The account of the server is `first`.
pub fn run_all(command: impl Fn(&[&str]) -> Command) -> CommandOutputs {
    let outputs = CommandOutputs { secrets: Vec::new(), said: Vec::new() };
    let mut runner = Runner { command, outputs };
    let chosen = CHOSEN.map(|password| format!("{password}\n"));
    runner.run("user create ann@example.com --password-stdin", &chosen[0]);
    runner.run("user reset-password ann@example.com --password-stdin", &chosen[1]);
    runner.shows("user create bob@example.com --account first", "");
    runner.shows("user reset-password bob@example.com", "");
    runner.shows("account invite first cy@example.com --role viewer", "#");
    runner.shows("key create --account first", "");
    let keys = runner.run("key list --account first", "");
    let key = keys.split_whitespace().find(|word| word.starts_with("key_")).expect("a key");
    runner.shows(&format!("key rotate {key}"), "");
    runner.run(&format!("key revoke {key}"), "");
    runner.run("signing rotate --account first", "");
    runner.shows("signing show --account first", "whsec_");
    runner.shows("secrets generate", ":");
    for line in [
        "signing list --account first",
        "account list",
        "account show first",
        "account members first",
        "user list",
        "user sign-out ann@example.com",
        "audit-log --account first",
        "config",
    ] {
        runner.run(line, "");
    }
    runner.outputs
}
