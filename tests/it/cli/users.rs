//! Users and the members of accounts.

use std::io::Write;
use std::process::Stdio;

use super::{CommandResult, expect_failure, folder, punctual, result};

fn rows(list: &str) -> Vec<Vec<&str>> {
    list.lines().skip(1).map(|row| row.split_whitespace().collect()).collect()
}

#[test]
fn a_user_and_an_account() {
    let folder = folder();
    let path = folder.path();
    result(path, &["account", "create", "acme"]);
    let create = ["user", "create", "Ann@example.com", "--account", "acme"];
    let password = result(path, &create);
    assert_eq!((password.trim().len(), password.lines().count()), (24, 1));
    let twice = expect_failure(path, &create, 1);
    assert!(twice.contains("ann@example.com already"), "{twice}");
    result(path, &["user", "create", "bob@example.com"]);
    let list = result(path, &["user", "list"]);
    let listed: Vec<_> = rows(&list).iter().map(|row| (row[1], row[3])).collect();
    assert_eq!(listed, [("ann@example.com", "active"), ("bob@example.com", "active")]);

    let said =
        result(path, &["account", "add-user", "acme", "bob@example.com", "--role", "viewer"]);
    assert_eq!(said, "bob@example.com is viewer of acme\n");
    let set = |name: &str, role: &str| {
        ["account", "set-role", "acme", name, "--role", role].map(str::to_owned)
    };
    let last = set("ann@example.com", "member");
    let last = expect_failure(path, &last.each_ref().map(String::as_str), 1);
    assert!(last.contains("\"acme\" would have no owner"), "{last}");
    result(path, &set("bob@example.com", "owner").each_ref().map(String::as_str));
    let members = result(path, &["account", "members", "acme"]);
    let listed: Vec<_> = rows(&members).iter().map(|row| (row[1], row[2])).collect();
    assert_eq!(listed, [("ann@example.com", "owner"), ("bob@example.com", "owner")]);
    let said = result(path, &["account", "remove-user", "acme", "ann@example.com"]);
    assert_eq!(said, "ann@example.com does not belong to acme\n");
    let gone = expect_failure(path, &["account", "remove-user", "acme", "ann@example.com"], 1);
    assert!(gone.contains("punctual account members"), "{gone}");
}

#[test]
fn a_user_is_disabled_and_gets_another_password() {
    let folder = folder();
    let path = folder.path();
    let first = result(path, &["user", "create", "ann@example.com"]);
    result(path, &["user", "disable", "ann@example.com"]);
    let list = result(path, &["user", "list"]);
    assert!(list.trim_end().ends_with("disabled  user"), "{list}");
    result(path, &["user", "enable", "ann@example.com"]);
    let list = result(path, &["user", "list"]);
    assert!(list.trim_end().ends_with("active  user"), "{list}");
    let said = result(path, &["user", "confirm", "ann@example.com"]);
    assert_eq!(said, "ann@example.com is confirmed\n");
    let said = result(path, &["user", "unlink", "ann@example.com"]);
    assert_eq!(said, "ann@example.com has no link to the OpenID provider\n");
    let said = result(path, &["user", "add-operator", "ann@example.com"]);
    assert_eq!(said, "ann@example.com is an operator\n");
    let list = result(path, &["user", "list"]);
    assert!(list.trim_end().ends_with("active  operator"), "{list}");
    let said = result(path, &["user", "remove-operator", "ann@example.com"]);
    assert_eq!(said, "ann@example.com is no longer an operator\n");
    let list = result(path, &["user", "list"]);
    assert!(list.trim_end().ends_with("active  user"), "{list}");
    let second = result(path, &["user", "reset-password", "ann@example.com"]);
    assert_ne!(first, second);
    let said = result(path, &["user", "sign-out", "ann@example.com"]);
    assert_eq!(said, "all sessions of ann@example.com have ended\n");
    for command in [
        "disable",
        "enable",
        "confirm",
        "unlink",
        "add-operator",
        "remove-operator",
        "reset-password",
        "sign-out",
    ] {
        let missing = expect_failure(path, &["user", command, "bob@example.com"], 1);
        assert!(missing.contains("punctual user list"), "{missing}");
    }
    expect_failure(path, &["user", "create", "bob"], 2);
    expect_failure(path, &["user", "create", "bob@example.com", "--account", "none"], 1);
}

#[test]
fn a_password_can_be_chosen() {
    let folder = folder();
    let typed = |text: &str| {
        let create = ["user", "create", "ann@example.com", "--password-stdin"];
        let mut command = punctual(folder.path(), &create);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
        CommandResult::from(child.wait_with_output().expect("ended"))
    };
    for wrong in ["short\n", "", &"a".repeat(1_025)] {
        let refused = typed(wrong);
        assert_eq!(refused.status, Some(2), "{}", refused.err);
        assert!(refused.err.contains("10 to 1024 bytes"), "{}", refused.err);
    }
    let made = typed("correct horse\n");
    assert_eq!(
        (made.status, made.out.as_str()),
        (Some(0), "the password is set\n"),
        "{}",
        made.err
    );
}

#[test]
fn an_invitation_is_a_link() {
    let folder = folder();
    let path = folder.path();
    result(path, &["account", "create", "acme"]);
    let invite = ["account", "invite", "acme", "bob@example.com", "--role", "member"];
    let missing = expect_failure(path, &invite, 2);
    assert!(missing.contains("http.public_url"), "{missing}");
    let mut command = punctual(path, &invite);
    command.env("PUNCTUAL_HTTP_PUBLIC_URL", "https://punctual.example/");
    let done = CommandResult::from(command.output().expect("started"));
    assert_eq!(done.status, Some(0), "{}", done.err);
    let token = done.out.strip_prefix("https://punctual.example/invitation#").expect("a link");
    assert_eq!(token.trim_end().len(), 43);
}
