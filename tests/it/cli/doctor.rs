//! `punctual doctor` on a single machine. The tests in `serve` cover clusters.

use std::os::unix::fs::PermissionsExt;

use super::{CommandResult, expect_failure, folder, punctual, result, run};
use crate::harness::openid::{OpenIdFault, OpenIdServer};
use crate::harness::smtp::{MailOptions, MailServer, Tls};

/// Returns the lines about a setting.
fn lines<'a>(text: &'a str, setting: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.split_whitespace().nth(1) == Some(setting)).collect()
}

#[test]
fn before_the_first_start_nothing_is_made_and_afterwards_all_is_well() {
    let folder = folder();
    let before = result(folder.path(), &["doctor"]);
    assert!(!folder.path().join("punctual-data").exists(), "it changes nothing");
    assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 0);
    assert!(before.starts_with("RESULT"), "{before}");
    assert!(lines(&before, "secrets.keys_file")[0].contains("the first start creates"), "{before}");
    let store = lines(&before, "store.url");
    assert!(store.iter().any(|line| line.contains("can be written to")), "{before}");
    assert!(store.iter().any(|line| line.contains("MB left")), "{before}");

    result(folder.path(), &["account", "create", "acme"]);
    let after = result(folder.path(), &["doctor"]);
    assert!(
        lines(&after, "store.url").iter().any(|line| line.contains("is up to date")),
        "{after}"
    );
    let fits = |line: &&str| line.contains("stored secrets can be decrypted (s-");
    assert!(lines(&after, "secrets.keys_file").iter().any(fits), "{after}");
    let json = result(folder.path(), &["doctor", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let found = json.as_array().expect("a list");
    assert_eq!(found.len(), after.lines().count() - 1);
    assert!(found.iter().all(|line| line["result"] == "ok" || line["result"] == "warning"));
}

#[test]
fn a_file_that_others_can_read_is_a_warning_and_a_lost_key_a_failure() {
    let folder = folder();
    result(folder.path(), &["account", "create", "acme"]);
    let store = folder.path().join("punctual-data/punctual.db");
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o644)).expect("set");
    let open = result(folder.path(), &["doctor"]);
    let warned = lines(&open, "store.url");
    assert!(warned.iter().any(|line| line.starts_with("warning") && line.contains("chmod 600")));

    std::fs::remove_file(folder.path().join("punctual-data/secrets.key")).expect("removed");
    let lost = run(folder.path(), &["doctor"]);
    assert_eq!(lost.status, Some(1));
    assert!(lines(&lost.out, "secrets.keys_file")[0].starts_with("failure"), "{}", lost.out);
    assert_eq!(lost.err, "error: checks failed for 1 setting: secrets.keys_file\n");
}

#[test]
fn keys_that_cannot_decrypt_the_stored_secrets_are_failures() {
    let folder = folder();
    let with = |keys: &str| -> CommandResult {
        let mut command = punctual(folder.path(), &["doctor"]);
        command.env("PUNCTUAL_SECRETS_KEYS", keys).output().expect("started").into()
    };
    let [old, new, other] = ["A", "B", "C"].map(|letter| format!("{}=", letter.repeat(42) + "A"));
    let first = format!("k1:{old}");
    let made = punctual(folder.path(), &["account", "create", "acme"])
        .env("PUNCTUAL_SECRETS_KEYS", &first)
        .output();
    assert!(made.expect("started").status.success());
    let report = with(&format!("k2:{new},{first}"));
    let fits = |line: &&str| line.ends_with("stored secrets can be decrypted (k1)");
    assert_eq!(report.status, Some(0), "{report:?}");
    assert!(lines(&report.out, "secrets.keys_file").iter().any(fits), "{report:?}");
    for (keys, why) in [
        (format!("k2:{new}"), "encrypted with the key \"k1\", which is not configured: add it"),
        (format!("k1:{other}"), "are encrypted with another key of the id \"k1\": add that key"),
    ] {
        let report = with(&keys);
        let is_told = |line: &&str| line.starts_with("failure") && line.contains(why);
        assert!(lines(&report.out, "secrets.keys_file").iter().any(is_told), "{report:?}");
        assert_eq!(report.err, "error: checks failed for 1 setting: secrets.keys_file\n");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_discovery_document_of_the_openid_provider_is_fetched() {
    let server = OpenIdServer::start(punctual::runtime::Clock::system().now()).await;
    let folder = folder();
    for (fault, result, expected) in [
        (OpenIdFault::None, "ok", "answers, and its keys can be read"),
        (OpenIdFault::Down, "warning", "answers 503"),
        (OpenIdFault::OtherIssuer, "failure", "it calls itself"),
        (OpenIdFault::Redirect, "failure", "answers 302"),
    ] {
        server.state().fault = fault;
        let mut command = punctual(folder.path(), &["doctor"]);
        command.env("PUNCTUAL_HTTP_PUBLIC_URL", "https://punctual.example");
        command.env("PUNCTUAL_OIDC_ISSUER", server.issuer());
        command.env("PUNCTUAL_OIDC_CLIENT_ID", "punctual");
        command.env("PUNCTUAL_OIDC_CLIENT_SECRET", "hunter2");
        let done: CommandResult = command.output().expect("started").into();
        let line = lines(&done.out, "oidc.issuer").first().map(|line| (*line).to_owned());
        let line = line.unwrap_or_else(|| panic!("{done:?}"));
        assert!(line.starts_with(result) && line.contains(expected), "{line}");
        assert!(!format!("{done:?}").contains("hunter2"), "{done:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mail_server_is_tried() {
    let login = Some("ann:hunter2");
    let options = MailOptions { tls: Tls::Start, login, ..MailOptions::default() };
    let mut server = MailServer::with(options).await;
    let folder = folder();
    let authority = server.authority.clone().expect("it speaks TLS");
    let try_with = |login: &str, trusts: bool| -> (CommandResult, String) {
        let mut command = punctual(folder.path(), &["doctor"]);
        command.env("PUNCTUAL_MAIL_URL", server.url(login));
        command.env("PUNCTUAL_MAIL_FROM", "punctual@example.com");
        if trusts {
            command.env("PUNCTUAL_MAIL_CA_FILE", &authority);
        }
        let done: CommandResult = command.output().expect("started").into();
        assert!(!format!("{}{}", done.out, done.err).contains("hunter"), "{done:?}");
        let line = lines(&done.out, "mail.url").first().map(|line| (*line).to_owned());
        (done, line.expect("it is printed"))
    };
    let (done, line) = try_with("ann:hunter2@", true);
    assert_eq!(done.status, Some(0), "{done:?}");
    assert!(line.starts_with("ok") && line.ends_with("answers over TLS and accepts the login"));
    let authorities = lines(&done.out, "mail.ca_file");
    assert!(authorities[0].contains("certificate of the authorities is valid"), "{done:?}");

    for (login, trusts, why) in [
        ("ann:hunter1@", true, "refuses the login: check the user and the password"),
        ("ann:hunter2@", false, "has no trusted certificate: set mail.ca_file to the"),
    ] {
        let (done, line) = try_with(login, trusts);
        assert!(line.starts_with("failure") && line.contains(why), "{line}");
        assert_eq!(done.err, "error: checks failed for 1 setting: mail.url\n");
    }
    assert_eq!(server.mails().len(), 0, "none is sent");

    server.kill();
    let mut away = punctual(folder.path(), &["doctor"]);
    away.env("PUNCTUAL_MAIL_URL", server.url("ann:hunter2@"));
    away.env("PUNCTUAL_MAIL_FROM", "punctual@example.com");
    let away: CommandResult = away.output().expect("started").into();
    assert_eq!(away.status, Some(0), "mails wait, all else works: {away:?}");
    let line = lines(&away.out, "mail.url")[0];
    assert!(line.starts_with("warning") && line.contains("mails wait for it"), "{line}");
}

#[test]
fn a_file_that_is_not_a_store_and_a_missing_folder_are_failures() {
    let folder = folder();
    std::fs::write(
        folder.path().join("a.db"),
        "not a database at all, but long enough ".repeat(40),
    )
    .expect("written");
    for path in ["sqlite:a.db", "sqlite:/proc/1/punctual.db"] {
        let done = run(folder.path(), &["doctor", "--store-url", path]);
        assert_eq!(done.status, Some(1), "{done:?}");
        let failed = |line: &&str| line.starts_with("failure");
        assert!(lines(&done.out, "store.url").iter().any(failed), "{done:?}");
    }
}

#[test]
fn a_wrong_configuration_is_reported_as_serve_tells_it() {
    let folder = folder();
    let wrong = expect_failure(folder.path(), &["doctor", "--store-url", "postgres://a:b@c/d"], 2);
    assert!(wrong.contains("a cluster needs store.url = postgres://…, queue.url"), "{wrong}");
    expect_failure(folder.path(), &["doctor", "--replicas", "0"], 2);
}

/// Each server that is down is reported separately, and no password is shown.
#[test]
fn all_unavailable_servers_are_reported() {
    let folder = folder();
    let done: CommandResult = punctual(folder.path(), &["doctor"])
        .env("PUNCTUAL_STORE_URL", "postgres://u:hunter2@127.0.0.1:1/d")
        .env("PUNCTUAL_QUEUE_URL", "redis://:hunter2@127.0.0.1:1")
        .env("PUNCTUAL_CLUSTER_URL", "etcd://u:hunter2@127.0.0.1:1")
        .env("PUNCTUAL_SECRETS_KEYS", format!("k1:{}", "A".repeat(43) + "="))
        .output()
        .expect("started")
        .into();
    assert_eq!(done.status, Some(1), "{done:?}");
    for setting in ["store.url", "queue.url", "cluster.url"] {
        assert!(lines(&done.out, setting)[0].starts_with("failure"), "{}", done.out);
        assert!(done.err.contains(setting), "{}", done.err);
    }
    assert!(
        lines(&done.out, "secrets.keys_file")[0].ends_with("encrypted with k1"),
        "{}",
        done.out
    );
    assert!(!format!("{}{}", done.out, done.err).contains("hunter2"), "{done:?}");
    assert!(!done.out.contains("AAAA"), "{done:?}");
}
