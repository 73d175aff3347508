//! A real mail server: aiosmtpd, which stores received mails in a folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use tempfile::TempDir;

use super::certificates::{Authority, ServerFiles};
use super::servers::{Process, free_port, listens, shared};
use super::wait::until;

/// The script that runs the server. It defines the options of the command line.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/harness/mail_server.py");

/// The way in which clients connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// Without TLS.
    #[default]
    Off,
    /// With a mandatory `STARTTLS`.
    Start,
    /// With TLS from the first byte.
    Implicit,
}

/// The options of a mail server.
#[derive(Clone, Copy, Debug, Default)]
pub struct MailOptions {
    pub tls: Tls,
    /// `USER:PASSWORD`. Clients that do not sign in with it cannot send mail.
    pub login: Option<&'static str>,
    /// A recipient that the server rejects.
    pub refuse: Option<&'static str>,
}

/// A mail server and its received mails.
pub struct MailServer {
    pub port: u16,
    /// The certificate of the authority that signed the server's certificate, if it speaks TLS.
    pub authority: Option<PathBuf>,
    options: MailOptions,
    files: Option<ServerFiles>,
    folder: TempDir,
    process: Option<Process>,
}

/// A received mail.
#[derive(Clone, Debug, Deserialize)]
pub struct Received {
    /// The sender of the SMTP envelope.
    pub sender: String,
    /// The recipients of the SMTP envelope.
    pub recipients: Vec<String>,
    /// `true` if the mail arrived over TLS.
    pub encrypted: bool,
    /// The user that the client signed in as.
    pub login: Option<String>,
    /// Decoded names and values, one entry for each header line.
    pub headers: Vec<(String, String)>,
    /// The decoded plain text.
    pub text: String,
    /// The decoded HTML.
    pub html: Option<String>,
}

impl Received {
    /// Returns the value of a header that must occur exactly once.
    pub fn header(&self, name: &str) -> &str {
        let named = |header: &&(String, String)| header.0.eq_ignore_ascii_case(name);
        let found: Vec<_> = self.headers.iter().filter(named).collect();
        assert_eq!(found.len(), 1, "{name} in {:?}", self.headers);
        &found[0].1
    }

    /// Returns the text after the `#` of the only link in the mail.
    pub fn token(&self) -> String {
        let mut links = self.text.lines().filter(|line| line.contains("://"));
        let link = links.next().expect("a link").to_owned();
        assert_eq!(links.next(), None);
        link.split_once('#').expect("a token").1.to_owned()
    }
}

impl MailServer {
    /// Starts a server without TLS that accepts every mail.
    pub async fn start() -> Self {
        Self::with(MailOptions::default()).await
    }

    /// Starts a server that requires `STARTTLS`.
    pub async fn start_with_tls() -> Self {
        Self::with(MailOptions { tls: Tls::Start, ..MailOptions::default() }).await
    }

    /// Starts a server with `options`.
    pub async fn with(options: MailOptions) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let files = (options.tls != Tls::Off).then(|| {
            Authority::new("mail").server_files(&["localhost", "127.0.0.1"], folder.path())
        });
        let authority = files.as_ref().map(|files| files.authority.clone());
        let port = free_port();
        let mut server = Self { port, authority, options, files, folder, process: None };
        std::fs::create_dir(server.mailbox()).expect("a folder");
        server.restart().await;
        server
    }

    /// Kills the server at once. Its received mails remain.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts the server on the same port.
    pub async fn restart(&mut self) {
        self.process = None;
        let mut command = Command::new(shared("PUNCTUAL_TEST_AIOSMTPD"));
        command.arg(SCRIPT).arg(self.port.to_string()).arg(self.mailbox());
        if let Some(files) = &self.files {
            let tls = if self.options.tls == Tls::Start { "start" } else { "implicit" };
            command.args(["--tls", tls]);
            command.arg("--certificate").arg(&files.certificate).arg("--key").arg(&files.key);
        }
        for (option, value) in [("--login", self.options.login), ("--refuse", self.options.refuse)]
        {
            command.args(value.map(|value| [option, value]).into_iter().flatten());
        }
        self.process = Some(Process::start(command, &self.folder));
        until("the mail server listens", async || listens(self.port).then_some(())).await;
    }

    /// Returns the URL of the server for the service, with `login` (`USER:PASSWORD@`) before the
    /// host.
    pub fn url(&self, login: &str) -> String {
        let (scheme, query) = match self.options.tls {
            Tls::Off => ("smtp", "?tls=off"),
            Tls::Start => ("smtp", ""),
            Tls::Implicit => ("smtps", ""),
        };
        format!("{scheme}://{login}localhost:{}{query}", self.port)
    }

    fn mailbox(&self) -> PathBuf {
        self.folder.path().join("mails")
    }

    /// Returns the mails received so far, in any order.
    pub fn mails(&self) -> Vec<Received> {
        let files = std::fs::read_dir(self.mailbox()).expect("a folder");
        let paths = files.map(|file| file.expect("a file").path());
        let whole = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
        paths.filter(whole).map(|path| read(&path)).collect()
    }

    /// Waits until exactly `count` mails have arrived, and returns them.
    pub async fn received(&self, count: usize) -> Vec<Received> {
        until("the mails arrive", async || {
            let mails = self.mails();
            assert!(mails.len() <= count, "{mails:?}");
            (mails.len() == count).then_some(mails)
        })
        .await
    }
}

fn read(path: &Path) -> Received {
    let text = std::fs::read_to_string(path).expect("readable");
    serde_json::from_str(&text).expect("a mail")
}
