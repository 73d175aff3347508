//! A real mail server: aiosmtpd, which keeps the mails it takes in a folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use tempfile::TempDir;

use super::certificates::{Authority, ServerFiles};
use super::servers::{Process, free_port, listens, shared};
use super::wait::until;

/// Starts it; see there for its options.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/harness/mail_server.py");

/// How clients reach it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// Without TLS.
    #[default]
    Off,
    /// It demands `STARTTLS`.
    Start,
    /// With TLS from the first byte.
    Implicit,
}

/// What a test asks of a mail server.
#[derive(Clone, Copy, Debug, Default)]
pub struct MailOptions {
    pub tls: Tls,
    /// `USER:PASSWORD`, without which it takes no mail.
    pub login: Option<&'static str>,
    /// A recipient that it does not have.
    pub refuse: Option<&'static str>,
}

/// A mail server, and what it has taken.
pub struct MailServer {
    pub port: u16,
    /// The certificate of the authority that vouches for it, if it speaks TLS.
    pub authority: Option<PathBuf>,
    options: MailOptions,
    files: Option<ServerFiles>,
    folder: TempDir,
    process: Option<Process>,
}

/// A mail as it was received.
#[derive(Clone, Debug, Deserialize)]
pub struct Received {
    /// Who the client said it is from.
    pub sender: String,
    /// Who the client said it is for.
    pub recipients: Vec<String>,
    /// Whether it came over TLS.
    pub encrypted: bool,
    /// Who the client has signed in as.
    pub login: Option<String>,
    /// Names and values, decoded, as many lines as they were.
    pub headers: Vec<(String, String)>,
    /// The plain text, decoded.
    pub text: String,
    /// The HTML, decoded.
    pub html: Option<String>,
}

impl Received {
    /// The value of a header that there is once.
    pub fn header(&self, name: &str) -> &str {
        let named = |header: &&(String, String)| header.0.eq_ignore_ascii_case(name);
        let found: Vec<_> = self.headers.iter().filter(named).collect();
        assert_eq!(found.len(), 1, "{name} in {:?}", self.headers);
        &found[0].1
    }

    /// What comes after the `#` of the only link in it.
    pub fn token(&self) -> String {
        let mut links = self.text.lines().filter(|line| line.contains("://"));
        let link = links.next().expect("a link").to_owned();
        assert_eq!(links.next(), None);
        link.split_once('#').expect("a token").1.to_owned()
    }
}

impl MailServer {
    /// One without TLS that takes everything.
    pub async fn start() -> Self {
        Self::with(MailOptions::default()).await
    }

    /// One that demands `STARTTLS`.
    pub async fn start_with_tls() -> Self {
        Self::with(MailOptions { tls: Tls::Start, ..MailOptions::default() }).await
    }

    /// One as a test asks for.
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

    /// Ends it at once. What it has taken stays.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it on the same port.
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

    /// Its URL for the service, with `login` (`USER:PASSWORD@`) before the host.
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

    /// The mails that were taken so far, in no order.
    pub fn mails(&self) -> Vec<Received> {
        let files = std::fs::read_dir(self.mailbox()).expect("a folder");
        let paths = files.map(|file| file.expect("a file").path());
        let whole = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
        paths.filter(whole).map(|path| read(&path)).collect()
    }

    /// The mails, as soon as there are so many.
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
