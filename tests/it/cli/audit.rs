//! Changes by operators are in the audit log: each changing command has one entry.

use std::cell::RefCell;
use std::collections::BTreeSet;

use clap::CommandFactory;
use punctual::cli::Cli;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};

use super::{folder, result};

/// Commands that change no data of an account and show none of its secrets. The skips of `restored`
/// record its effect.
const OTHERS: [&str; 22] = [
    "dev",
    "serve",
    "migrate",
    "cluster",
    "doctor",
    "copy",
    "restored",
    "account list",
    "account show",
    "account members",
    "user list",
    "key list",
    "signing list",
    "secrets generate",
    "audit-log",
    "cron",
    "openapi",
    "healthcheck",
    "config",
    "metrics",
    "verify",
    "help",
];

/// Commands that change something or show secrets in plain text.
const CHANGING: [&str; 25] = [
    "account create",
    "account set-plan",
    "account suspend",
    "account resume",
    "account export",
    "account delete",
    "account add-user",
    "account set-role",
    "account remove-user",
    "account invite",
    "user create",
    "user disable",
    "user enable",
    "user confirm",
    "user unlink",
    "user add-operator",
    "user remove-operator",
    "user reset-password",
    "user sign-out",
    "key create",
    "key rotate",
    "key revoke",
    "signing show",
    "signing rotate",
    "secrets rotate",
];

type Entry = (String, String, String, String);

async fn open(path: &std::path::Path) -> SqliteConnection {
    let file = path.join("punctual-data/punctual.db");
    SqliteConnectOptions::new().filename(file).connect().await.expect("opened")
}

/// Signs all users in.
async fn sign_in(path: &std::path::Path) {
    let mut store = open(path).await;
    let sql = "INSERT INTO sessions (id, user_id, digest, created_at, expires_at, ends_at)
               SELECT randomblob(16), id, randomblob(32), 0, 9e15, 9e15 FROM users";
    sqlx::query(sql).execute(&mut store).await.expect("signed in");
    store.close().await.expect("closed");
}

/// Makes all users people of a provider whose addresses are not confirmed.
async fn link(path: &std::path::Path) {
    let mut store = open(path).await;
    for sql in [
        "UPDATE users SET email_confirmed_at = NULL",
        "INSERT INTO identities (id, user_id, issuer, subject, created_at)
         SELECT randomblob(16), id, 'https://id.example', email, 0 FROM users",
    ] {
        sqlx::query(sql).execute(&mut store).await.expect("linked");
    }
    store.close().await.expect("closed");
}

/// Returns all entries, oldest first: actor, action, object, origin.
async fn entries(path: &std::path::Path) -> Vec<Entry> {
    let mut store = open(path).await;
    let sql = "SELECT actor, action, object, origin FROM audit_log ORDER BY id";
    let rows = sqlx::query_as(sql).fetch_all(&mut store).await.expect("read");
    store.close().await.expect("closed");
    rows
}

#[test]
fn every_command_is_known_to_change_something_or_not() {
    let mut found = Vec::new();
    for command in Cli::command().get_subcommands() {
        let name = command.get_name();
        if command.has_subcommands() {
            found.extend(command.get_subcommands().map(|sub| format!("{name} {}", sub.get_name())));
        } else {
            found.push(name.to_owned());
        }
    }
    for name in &found {
        let known = CHANGING.contains(&name.as_str()) || OTHERS.contains(&name.as_str());
        assert!(known, "{name}: add it here, with its change and its entry in the log");
    }
    for name in CHANGING {
        assert!(found.iter().any(|one| one == name), "{name}");
    }
}

/// Runs commands and records which of them must have an entry.
struct Runner<'a> {
    path: &'a std::path::Path,
    ran: RefCell<BTreeSet<String>>,
}

impl Runner<'_> {
    fn run(&self, arguments: &[&str]) -> String {
        let name = arguments[..2].join(" ");
        if !OTHERS.contains(&name.as_str()) {
            self.ran.borrow_mut().insert(name);
        }
        result(self.path, arguments)
    }
}

/// Puts a new key before the store's key, for a rotation. Returns the id of the new key.
fn new_key_of_secrets(path: &std::path::Path) -> String {
    let file = path.join("punctual-data/secrets.key");
    let old = std::fs::read_to_string(&file).expect("a key");
    let new = result(path, &["secrets", "generate"]);
    std::fs::write(&file, format!("{new}{old}")).expect("written");
    new.split_once(':').expect("an id").0.to_owned()
}

/// Changes keys of the account alice. Returns the id of a key, and the ids of the rotated and the
/// new key.
fn change_keys(runner: &Runner<'_>) -> (String, String) {
    runner.run(&["key", "create", "--account", "alice"]);
    let list = runner.run(&["key", "list", "--account", "alice"]);
    let row = list.lines().nth(1).expect("a key");
    let key = row.split_whitespace().next().expect("an id").to_owned();
    runner.run(&["key", "rotate", &key, "--overlap", "1h"]);
    let list = runner.run(&["key", "list", "--account", "alice"]);
    let newest = list.lines().nth(1).and_then(|row| row.split_whitespace().next());
    let both = format!("{key} {}", newest.expect("the new one"));
    // The second call changes nothing.
    for _ in 0..2 {
        runner.run(&["key", "revoke", &key]);
    }
    (key, both)
}

/// The changed objects, without users.
struct Made {
    account: String,
    key: String,
    both: String,
    secret: String,
    key_of_secrets: String,
}

async fn change_everything(runner: &Runner<'_>) -> Made {
    let path = runner.path;
    let account = runner.run(&["account", "create", "alice"]);
    let (key, both) = change_keys(runner);
    runner.run(&["account", "suspend", "alice"]);
    runner.run(&["account", "resume", "alice"]);
    for user in ["ann@example.com", "bob@example.com"] {
        runner.run(&["user", "create", user]);
    }
    runner.run(&["account", "add-user", "alice", "ann@example.com", "--role", "owner"]);
    runner.run(&["account", "add-user", "alice", "bob@example.com", "--role", "viewer"]);
    runner.run(&["account", "set-role", "alice", "bob@example.com", "--role", "member"]);
    runner.run(&["account", "remove-user", "alice", "bob@example.com"]);
    runner.run(&["user", "create", "cy@example.com", "--account", "alice", "--role", "viewer"]);
    let settings = "[http]\npublic_url = \"https://punctual.example\"\n[plans.free]\n";
    std::fs::write(path.join("p.toml"), settings).expect("written");
    for _ in 0..2 {
        runner.run(&["account", "set-plan", "alice", "free", "--config", "p.toml"]);
    }
    let invite = ["account", "invite", "alice", "dan@example.com", "--role", "member"];
    runner.run(&[&invite[..], &["--config", "p.toml"]].concat());
    let said = runner.run(&["signing", "rotate", "--account", "alice"]);
    let secret = said.split_whitespace().next().expect("an id");
    link(path).await;
    for change in ["confirm", "unlink", "add-operator", "remove-operator"] {
        runner.run(&["user", change, "cy@example.com"]);
    }
    sign_in(path).await;
    for change in ["sign-out", "disable", "enable", "reset-password"] {
        runner.run(&["user", change, "cy@example.com"]);
    }
    let key_of_secrets = new_key_of_secrets(path);
    runner.run(&["secrets", "rotate"]);
    runner.run(&["signing", "show", "--account", "alice"]);
    runner.run(&["account", "export", "alice"]);
    runner.run(&["account", "delete", "alice", "--yes", "--no-wait"]);
    let (account, secret) = (account.trim().to_owned(), secret.to_owned());
    Made { account, key, both, secret, key_of_secrets }
}

#[tokio::test]
async fn every_changing_command_writes_exactly_one_entry() {
    let folder = folder();
    let path = folder.path();
    let runner = Runner { path, ran: RefCell::default() };
    let Made { account, key, both, secret, key_of_secrets } = &change_everything(&runner).await;
    let ran = runner.ran.take();
    assert_eq!(ran, CHANGING.map(str::to_owned).into(), "each one that changes something");
    let entries = entries(path).await;
    let recorded: Vec<_> =
        entries.iter().map(|(_, action, object, _)| (&**action, &**object)).collect();
    let users = result(path, &["user", "list"]);
    let mut users = users.lines().skip(1).filter_map(|row| row.split_whitespace().next());
    let mut user = || users.next().expect("a user");
    let (ann, bob, cy) = (user(), user(), user());
    let invitation = entries.iter().map(|entry| &entry.2).find(|id| id.starts_with("inv_"));
    let invitation = invitation.expect("an invitation");
    let expected: [(&str, &str); 28] = [
        ("account.created", account),
        ("key.created", key),
        ("key.rotated", both),
        ("key.revoked", key),
        ("account.suspended", account),
        ("account.resumed", account),
        ("user.created", ann),
        ("user.created", bob),
        ("member.added", ann),
        ("member.added", bob),
        ("member.role_set", bob),
        ("member.removed", bob),
        ("member.added", cy),
        ("account.plan_set", account),
        ("invitation.created", invitation),
        ("signing_secret.rotated", secret),
        ("user.email_confirmed", cy),
        ("user.identities_unlinked", cy),
        ("operator.added", cy),
        ("operator.removed", cy),
        ("user.signed_out", cy),
        ("user.disabled", cy),
        ("user.enabled", cy),
        ("user.password_set", cy),
        ("secrets.rotated", key_of_secrets),
        ("signing_secrets.shown", account),
        ("account.exported", account),
        ("account.deleted", account),
    ];
    assert_eq!(recorded, expected);
    let of_none = result(path, &["audit-log"]);
    assert!(of_none.contains(account), "the author of the deletion is listed: {of_none}");
    for (actor, _, _, origin) in &entries {
        assert!(actor.len() > "operator:".len() && actor.starts_with("operator:"), "{actor}");
        assert!(origin.starts_with("host:"), "{origin}");
    }
}

#[tokio::test]
async fn changes_of_users_and_secrets_are_in_the_audit_log_of_their_accounts() {
    let folder = folder();
    let path = folder.path();
    for name in ["alice", "bob"] {
        result(path, &["account", "create", name]);
    }
    result(path, &["user", "create", "cy@example.com", "--account", "alice"]);
    result(path, &["account", "add-user", "bob", "cy@example.com", "--role", "viewer"]);
    result(path, &["user", "create", "dan@example.com"]);
    sign_in(path).await;
    // The second call changes nothing.
    for change in ["sign-out", "sign-out", "disable", "disable", "enable", "enable"] {
        result(path, &["user", change, "cy@example.com"]);
    }
    result(path, &["user", "reset-password", "cy@example.com"]);
    let key_of_secrets = new_key_of_secrets(path);
    for _ in 0..2 {
        result(path, &["secrets", "rotate"]);
    }
    let shown = |args: &[&str]| {
        let list = result(path, &[&["audit-log"], args].concat());
        let rows = list.lines().skip(1);
        let row = |row: &str| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        rows.map(row).map(|row| (row[2].clone(), row[3].clone())).collect::<Vec<_>>()
    };
    let users = result(path, &["user", "list"]);
    let id = |row| users.lines().nth(row).and_then(|row| row.split_whitespace().next());
    let (cy, dan) = (id(1).expect("an id"), id(2).expect("an id"));
    let pair = |action: &str, object: &str| (action.to_owned(), object.to_owned());
    let newest = ["user.password_set", "user.enabled", "user.disabled", "user.signed_out"];
    let newest: Vec<_> =
        newest.iter().chain(&["member.added"]).map(|action| pair(action, cy)).collect();
    for account in ["alice", "bob"] {
        assert_eq!(shown(&["--account", account])[..5], newest, "{account}");
        assert_eq!(shown(&["--account", account]).len(), 6);
    }
    assert_eq!(shown(&["--account", "alice", "-n", "1"]), newest[..1]);
    let of_none = [pair("secrets.rotated", &key_of_secrets), pair("user.created", dan)];
    assert_eq!(shown(&[]), of_none, "entries without an account are in no account's log");
    for (actor, _, _, origin) in entries(path).await {
        assert!(actor.starts_with("operator:") && origin.starts_with("host:"), "{actor} {origin}");
    }
}
