//! The binary as its users run it: its output, its streams and its exit status.

mod accounts;
mod audit;
mod doctor;
mod secrets;
mod service;
mod signing;
mod texts;
mod users;

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Creates a folder to run in.
fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Returns a command of the binary with these arguments in a folder, without the environment of the
/// tests.
fn punctual(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(arguments).current_dir(folder).env_clear();
    command
}

/// The result of a finished command.
#[derive(Debug)]
struct CommandResult {
    status: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for CommandResult {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

fn run(folder: &Path, arguments: &[&str]) -> CommandResult {
    punctual(folder, arguments).output().expect("started").into()
}

/// Runs a command that must succeed without error output. Returns its output.
fn result(folder: &Path, arguments: &[&str]) -> String {
    let done = run(folder, arguments);
    assert_eq!((done.status, done.err.as_str()), (Some(0), ""), "{arguments:?}");
    done.out
}

/// Runs a command that must fail with `status`. Returns its error output.
fn expect_failure(folder: &Path, arguments: &[&str], status: i32) -> String {
    let done = run(folder, arguments);
    assert_eq!((done.status, done.out.as_str()), (Some(status), ""), "{arguments:?}: {}", done.err);
    assert!(done.err.starts_with("error: "), "{}", done.err);
    done.err
}
