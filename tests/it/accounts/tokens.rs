//! Credentials appear in no store and no log: keys, sessions, links, passwords.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use punctual::accounts::{Accounts, KeyRequest};
use punctual::channels::email::{Mail, MailSettings, Mailer, Security};
use punctual::domain::audit::Author;
use punctual::domain::key::Scope;
use punctual::domain::plan::Plans;
use punctual::domain::user::Role;
use punctual::store::SharedStore;
use punctual::store::sqlite::{SqliteSettings, SqliteStore};
use sha2::{Digest, Sha256};
use sqlx::AssertSqlSafe;

use super::world::{HOME, PASSWORD, World, mailer, password};
use crate::harness::database::Database;
use crate::harness::keys::cipher;
use crate::harness::smtp::MailServer;

/// Issues tokens of every kind and uses some of them. Returns the valid ones first.
async fn hand_out(store: SharedStore) -> Vec<String> {
    let server = MailServer::start().await;
    let port = server.port;
    let w = World::with(|context, _| {
        context.store = store.clone();
        context.mailer = Some(mailer(port));
    })
    .await;
    w.user("ann").await;
    w.user("bob").await;
    let over = w.sign_in("ann", PASSWORD).await.expect("signed in").token;
    w.users.request_reset("ann@example.com", HOME).await.expect("asked");
    let used = server.received(1).await[0].token();
    w.users.complete_reset(&used, &password("another horse"), HOME).await.expect("set");
    let session = w.sign_in("ann", "another horse").await.expect("signed in").token;
    w.context.clock.advance(Duration::from_secs(1_800));
    let ann = w.users.visit(&session, HOME).await.expect("a session");
    let account = w.users.memberships(&ann).await.expect("listed")[0].account;
    w.users.request_reset("bob@example.com", HOME).await.expect("asked");
    let mut tokens = vec![session.reveal().to_owned()];
    for (count, to) in [(3, "cy@example.com"), (4, "bob@example.com")] {
        w.users.invite(&ann, account, to, Role::Viewer).await.expect("invited");
        server.received(count).await;
    }
    let mails = server.received(4).await;
    tokens.extend(mails.iter().map(|mail| mail.token()).filter(|token| *token != used));
    assert_eq!(tokens.len(), 4);

    let (clock, random) = (w.context.clock.clone(), w.context.random.clone());
    let accounts = Accounts::new(store, clock, random, Arc::new(Plans::default()));
    let account = accounts.named("ann").await.expect("made");
    let request = KeyRequest { name: "a".into(), scope: Scope::Write, expires_in: None };
    let key = accounts.create_key(Author::SERVICE, &account, &request).await.expect("made");
    let day = Duration::from_secs(86_400);
    let next = accounts.rotate_key(Author::SERVICE, key.id(), day).await.expect("rotated");
    tokens.extend([key.reveal().to_owned(), next.reveal().to_owned()]);
    tokens.extend([over.reveal().to_owned(), used, PASSWORD.to_owned()]);
    tokens
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn contains(dump: &[u8], bytes: &[u8]) -> bool {
    dump.windows(bytes.len()).any(|window| window == bytes)
}

/// Asserts that a dump contains neither the tokens nor their bytes in any form. It must contain the
/// digests of the valid ones.
fn search(dump: &[u8], tokens: &[String]) {
    for (index, token) in tokens.iter().enumerate() {
        let bytes = URL_SAFE_NO_PAD.decode(token).ok();
        for secret in [Some(token.clone().into_bytes()), bytes].into_iter().flatten() {
            let forms = [hex(&secret), hex(&secret).to_uppercase()];
            assert!(!contains(dump, &secret), "token {index}");
            assert!(forms.iter().all(|form| !contains(dump, form.as_bytes())), "token {index}");
        }
        let digest = Sha256::digest(token.as_bytes());
        let is_there = contains(dump, &digest) || contains(dump, hex(&digest).as_bytes());
        assert!(is_there || index >= 6, "the digest of token {index}");
    }
}

fn files(folder: &Path) -> Vec<u8> {
    let files = std::fs::read_dir(folder).expect("a folder");
    files.flat_map(|file| std::fs::read(file.expect("a file").path()).expect("read")).collect()
}

#[tokio::test]
async fn none_is_in_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = SqliteSettings::new(folder.path().join("store.db"));
    let store = Arc::new(SqliteStore::open(&settings, &cipher()).await.expect("open"));
    store.migrate().await.expect("migrate");
    let tokens = hand_out(store.clone()).await;
    // The store is open, so its write-ahead log is searched, too.
    search(&files(folder.path()), &tokens);
    store.close().await;
}

#[tokio::test]
async fn none_is_in_a_database() {
    let database = Database::migrated().await;
    let tokens = hand_out(Arc::new(database.open())).await;
    let mut other_session = database.second_connection().await;
    let tables: Vec<String> =
        sqlx::query_scalar("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
            .fetch_all(&mut other_session)
            .await
            .expect("tables");
    let mut dump = Vec::new();
    for table in tables {
        let query = format!("SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM {table} AS t");
        let query = sqlx::query_scalar(AssertSqlSafe(query));
        let rows: String = query.fetch_one(&mut other_session).await.expect("rows");
        dump.extend(rows.into_bytes());
    }
    search(&dump, &tokens);
}

/// This includes mails, sent with and without TLS, and with a password for the server.
#[tokio::test]
async fn none_is_in_a_log() {
    let captured = Captured::default();
    let writer = captured.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::level_filters::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .init();
    let database = Database::migrated().await;
    let mut secrets = hand_out(Arc::new(database.open())).await;
    let server = MailServer::start_with_tls().await;
    let authority = server.authority.as_ref().expect("an authority");
    let authority = std::fs::read_to_string(authority).expect("readable");
    let (text, password) = ("marker-in-a-mail", "marker-of-the-mail-server");
    for user in [None, Some("punctual")] {
        let sent = Mailer::new(MailSettings {
            host: "localhost".into(),
            port: server.port,
            security: Security::StartTls,
            user: user.map(str::to_owned),
            password: password.to_owned(),
            password_file: None,
            ca_certificates: Some(authority.clone()),
            from: "punctual@example.com".parse().expect("an address"),
        });
        let to = "ann@example.com".parse().expect("an address");
        let mail = Mail { to, subject: text.to_owned(), text: text.to_owned() };
        match (sent.send(&mail).await, user) {
            (Ok(()), None) => {}
            // This server has no users.
            (Err(error), Some(_)) => assert!(!format!("{error:?}").contains(password)),
            (outcome, _) => panic!("{outcome:?}"),
        }
    }
    assert_eq!(server.received(1).await[0].text.trim_end(), text);
    secrets.extend([text.to_owned(), password.to_owned()]);
    let log = captured.0.lock().expect("not poisoned").clone();
    for part in ["TRACE", "sqlx", "rustls"] {
        assert!(contains(&log, part.as_bytes()), "the most verbose log contains {part}");
    }
    for secret in &secrets {
        for form in [secret.clone(), STANDARD.encode(secret)] {
            assert!(!contains(&log, form.as_bytes()), "{form} is in the log");
        }
    }
}

/// The captured log.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
