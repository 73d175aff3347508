//! A real mail server: aiosmtpd, which keeps the mails it takes in a folder.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::certificates::Authority;
use super::servers::{Process, free_port, listens, shared};
use super::wait::until;

/// A mail server, and what it has taken.
pub struct MailServer {
    pub port: u16,
    /// The certificate of the authority that vouches for it, if it speaks TLS.
    pub authority: Option<PathBuf>,
    folder: TempDir,
    _process: Process,
}

/// A mail as it was received.
#[derive(Clone, Debug)]
pub struct Received {
    /// Names and values, as many lines as they were.
    pub headers: Vec<(String, String)>,
    /// What follows them, decoded.
    pub text: String,
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
    /// One without TLS.
    pub async fn start() -> Self {
        Self::start_with(false).await
    }

    /// One that demands `STARTTLS`.
    pub async fn start_with_tls() -> Self {
        Self::start_with(true).await
    }

    async fn start_with(tls: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let mut command = Command::new(shared("PUNCTUAL_TEST_AIOSMTPD"));
        command.args(["-m", "aiosmtpd", "--nosetuid", "--listen", &format!("127.0.0.1:{port}")]);
        let mut authority = None;
        if tls {
            let files =
                Authority::new("mail").server_files(&["localhost", "127.0.0.1"], folder.path());
            command.arg("--tlscert").arg(&files.certificate).arg("--tlskey").arg(&files.key);
            authority = Some(files.authority);
        }
        command.args(["--class", "aiosmtpd.handlers.Mailbox"]).arg(folder.path().join("mails"));
        let process = Process::start(command, &folder);
        until("the mail server listens", async || listens(port).then_some(())).await;
        Self { port, authority, folder, _process: process }
    }

    /// The mails that were taken so far, in no order.
    pub fn mails(&self) -> Vec<Received> {
        let Ok(files) = std::fs::read_dir(self.folder.path().join("mails/new")) else {
            return Vec::new();
        };
        let read = |file: std::io::Result<std::fs::DirEntry>| {
            let bytes = std::fs::read(file.expect("a file").path()).expect("readable");
            received(&String::from_utf8(bytes).expect("ASCII"))
        };
        files.map(read).collect()
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

fn received(mail: &str) -> Received {
    let mail = mail.replace("\r\n", "\n");
    let (head, body) = mail.split_once("\n\n").expect("headers and a body");
    let mut headers: Vec<(String, String)> = Vec::new();
    for line in head.lines() {
        match line.split_once(": ").filter(|_| !line.starts_with([' ', '\t'])) {
            Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
            None => headers.last_mut().expect("a header").1.push_str(line),
        }
    }
    let encoded = headers.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case("Content-Transfer-Encoding") && value == "quoted-printable"
    });
    let text = if encoded { body.replace("=\n", "").replace("=3D", "=") } else { body.to_owned() };
    Received { headers, text }
}
