//! Commands that only print text.

use std::io::Read;
use std::process::Stdio;

use super::{expect_failure, folder, punctual, result};

#[test]
fn help_and_version() {
    let folder = folder();
    let version = result(folder.path(), &["--version"]);
    assert_eq!(version, format!("punctual {}\n", env!("CARGO_PKG_VERSION")));
    let help = result(folder.path(), &["--help"]);
    for command in [
        "dev",
        "serve",
        "migrate",
        "doctor",
        "restored",
        "account",
        "key",
        "cron",
        "openapi",
        "healthcheck",
        "config",
        "metrics",
        "verify",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "no {command} in {help}");
    }
    assert!(result(folder.path(), &["serve", "--help"]).contains("--http-listen"));
}

#[test]
fn cron_lists_runs_across_a_change_of_the_clock() {
    let folder = folder();
    let arguments = [
        "cron",
        "30 2 * * *",
        "--tz",
        "Europe/Berlin",
        "-n",
        "2",
        "--from",
        "2026-03-28T12:00:00Z",
    ];
    let text = result(folder.path(), &arguments);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[3].starts_with("2026-03-29T01:00:00.000Z  2026-03-29T03:00:00+02:00  "),
        "{text}"
    );
    assert!(lines[4].starts_with("2026-03-30T00:30:00.000Z  2026-03-30T02:30:00+02:00"), "{text}");
    let wrong = expect_failure(folder.path(), &["cron", "* * * *"], 2);
    assert!(wrong.contains("Invalid cron expression \"* * * *\": it has 4 fields"), "{wrong}");
    let wrong = expect_failure(folder.path(), &["cron", "61 * * * *"], 2);
    assert!(wrong.contains("minute 61: must be 0 to 59"), "{wrong}");
    let wrong = expect_failure(folder.path(), &["cron", "* * * * *", "--tz", "Berlin"], 2);
    assert!(wrong.contains("Invalid timezone \"Berlin\""), "{wrong}");
    expect_failure(folder.path(), &["cron", "* * * * *", "-n", "0"], 2);
    expect_failure(folder.path(), &["cron", "* * * * *", "--from", "tomorrow"], 2);
}

#[test]
fn openapi_is_a_document_of_the_mounted_paths() {
    let folder = folder();
    let text = result(folder.path(), &["openapi"]);
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
    let mounted = result(folder.path(), &["openapi", "--base-path", "/api"]);
    assert_ne!(mounted, text);
    expect_failure(folder.path(), &["openapi", "--base-path", "api"], 2);
}

#[test]
fn config_shows_the_settings_in_force_and_all_mistakes() {
    let folder = folder();
    std::fs::write(folder.path().join("p.toml"), "[rate]\nper_hour = 7\n").expect("written");
    let shown = punctual(folder.path(), &["config", "--config", "p.toml", "--log", "warn"])
        .env("PUNCTUAL_HTTP_LISTEN", "[::1]:90")
        .output()
        .expect("started");
    let shown = String::from_utf8(shown.stdout).expect("UTF-8");
    for line in [
        "per_hour = 7  # from p.toml",
        "log = \"warn\"  # from --log",
        "listen = \"[::1]:90\"  # from PUNCTUAL_HTTP_LISTEN",
        "per_minute = 100",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "no {line:?} in {shown}");
    }
    let arguments = ["config", "--http-listen", "x", "--rate-per-hour", "-1"];
    let mistakes = expect_failure(folder.path(), &arguments, 2);
    assert!(mistakes.starts_with("error: 2 mistakes in the configuration:\n"), "{mistakes}");
    assert!(mistakes.contains("\n  http.listen = \"x\" (--http-listen): must be"), "{mistakes}");
    assert!(mistakes.contains("\n  rate.per_hour = \"-1\" (--rate-per-hour): must"), "{mistakes}");
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_failure() {
    let folder = folder();
    let arguments = ["cron", "* * * * *", "-n", "1000"];
    let mut command = punctual(folder.path(), &arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    drop(child.stdout.take());
    let mut complaints = String::new();
    let mut stderr = child.stderr.take().expect("piped");
    stderr.read_to_string(&mut complaints).expect("UTF-8");
    assert_eq!(child.wait().expect("ended").code(), Some(0), "{complaints}");
    assert_eq!(complaints, "");
}

#[test]
fn usage_errors_and_missing_services() {
    let folder = folder();
    for arguments in [&["serv"][..], &["serve", "--no-such"], &["key"], &[]] {
        let done = super::run(folder.path(), arguments);
        assert_eq!(done.status, Some(2), "{arguments:?}");
    }
    // Nothing listens on port 1, which is assigned to TCP multiplexing.
    let refused = expect_failure(folder.path(), &["healthcheck", "--ops-listen", "127.0.0.1:1"], 1);
    assert!(refused.contains("no answer from 127.0.0.1:1 (ops.listen)"), "{refused}");
}
