//! The binary as its users run it: what it prints, where, and with which exit status.

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

/// A folder of its own to run in.
fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The binary with these arguments, in a folder, without the settings of whoever runs the tests.
fn punctual(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(arguments).current_dir(folder).env_clear();
    command
}

/// What a command that ends by itself did.
#[derive(Debug)]
struct Done {
    status: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

fn run(folder: &Path, arguments: &[&str]) -> Done {
    punctual(folder, arguments).output().expect("started").into()
}

/// The result of a command that is to succeed and to print nothing else.
fn result(folder: &Path, arguments: &[&str]) -> String {
    let done = run(folder, arguments);
    assert_eq!((done.status, done.err.as_str()), (Some(0), ""), "{arguments:?}");
    done.out
}

/// The complaint of a command that is to fail with `status`.
fn complaint(folder: &Path, arguments: &[&str], status: i32) -> String {
    let done = run(folder, arguments);
    assert_eq!((done.status, done.out.as_str()), (Some(status), ""), "{arguments:?}: {}", done.err);
    assert!(done.err.starts_with("error: "), "{}", done.err);
    done.err
}
