//! Tests of sending mails to a fake server with scripted replies.

use std::net::Ipv4Addr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::channels::samples::{account, alert, at, hostile};
use crate::domain::ChannelId;
use crate::domain::alert::AlertKind;
use crate::domain::plan::ChannelType;
use crate::runtime::{TaskKind, Tasks};

const TIMEOUT: Duration = Duration::from_secs(10);

/// The server's action after a command.
enum Answer {
    Say(&'static str),
    Close,
    Hang,
}

use Answer::{Close, Hang, Say};

/// Replies like a server that accepts everything.
fn accepting(command: &str) -> Answer {
    match command.split_whitespace().next().unwrap_or_default() {
        "EHLO" => Say("250-mail.example\r\n250 AUTH PLAIN"),
        "DATA" => Say("354 go on"),
        "." => Say("250 queued as 7"),
        "AUTH" => Say("235 welcome"),
        "QUIT" => Close,
        _ => Say("250 ok"),
    }
}

/// The commands of each connection, in order; a mail is recorded as its lines.
type Log = Arc<Mutex<Vec<Vec<String>>>>;

struct Server {
    port: u16,
    log: Log,
    tasks: Tasks,
}

impl Server {
    /// Starts a server. `answer` is called with the number of the connection and the command.
    async fn start(answer: impl Fn(usize, &str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (log, answer, tasks) = (Log::default(), Arc::new(answer), Tasks::new());
        let (kept, sessions) = (log.clone(), tasks.clone());
        tasks.spawn(TaskKind::Command, async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = {
                    let mut log = kept.lock().expect("not poisoned");
                    log.push(Vec::new());
                    log.len() - 1
                };
                let (answer, log) = (answer.clone(), kept.clone());
                let session = serve(stream, number, log, move |line| answer(number, line));
                sessions.spawn(TaskKind::Command, session);
            }
        });
        Self { port, log, tasks }
    }

    fn commands(&self) -> Vec<Vec<String>> {
        self.log.lock().expect("not poisoned").clone()
    }

    fn mailer(&self) -> Mailer {
        Mailer::new(self.settings())
    }

    fn settings(&self) -> MailSettings {
        MailSettings {
            host: "127.0.0.1".to_owned(),
            port: self.port,
            security: Security::Open,
            user: None,
            password: String::new(),
            password_file: None,
            ca_certificates: None,
            from: "punctual@example.com".parse().expect("an address"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.aborting().cancel();
    }
}

async fn serve(stream: TcpStream, number: usize, log: Log, answer: impl Fn(&str) -> Answer) {
    let mut stream = BufReader::new(stream);
    let mut say = "220 mail.example".to_owned();
    let mut in_mail = false;
    loop {
        if stream.write_all(format!("{say}\r\n").as_bytes()).await.is_err() {
            return;
        }
        let answer = loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim_end_matches(['\r', '\n']);
            log.lock().expect("not poisoned")[number].push(line.to_owned());
            if !in_mail || line == "." {
                break answer(line);
            }
        };
        match answer {
            Say(text) => say = text.to_owned(),
            Close => return,
            Hang => std::future::pending().await,
        }
        in_mail = say.starts_with("354");
    }
}

fn mail() -> Mail {
    let to = "ann@example.com".parse().expect("an address");
    Mail { to, subject: "Hello".to_owned(), text: "there".to_owned() }
}

/// A channel that uses this server, and its configuration.
fn channel(mailer: Mailer, public_url: Option<&str>) -> (Email, Destination) {
    let clock = Clock::manual(at("2024-05-15T12:00:42Z"));
    let public_url = public_url.map(str::to_owned);
    let email = Email::new(Some(mailer), public_url, clock, Random::seeded(7));
    let given = json!({ "to": "ann@example.com" });
    let config = email.configure(given.as_object().expect("an object"), None).expect("configured");
    let channel = ChannelId::new(at("2024-01-03T00:00:00Z"), 2);
    let kind = ChannelType::Email;
    (email, Destination { account: account(), channel, kind, config: config.config })
}

#[tokio::test]
async fn mails_share_a_connection() {
    let server = Server::start(|_, command| accepting(command)).await;
    let mailer = server.mailer();
    for _ in 0..3 {
        mailer.clone().send(&mail()).await.expect("sent");
    }
    let commands = server.commands();
    let [session] = &commands[..] else { panic!("one connection: {commands:?}") };
    assert_eq!(session.iter().filter(|line| line.starts_with("MAIL")).count(), 3);
}

#[tokio::test]
async fn many_mails_at_once_arrive() {
    let server = Server::start(|_, command| accepting(command)).await;
    let mailer = server.mailer();
    let sending = (0..30).map(|_| {
        let mailer = mailer.clone();
        async move { mailer.send(&mail()).await }
    });
    let sent = futures_util::future::join_all(sending).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    let accepted = server.commands().concat().iter().filter(|line| *line == ".").count();
    assert_eq!(accepted, 30);
}

#[tokio::test]
async fn an_idle_connection_that_the_server_closed_fails_no_mail() {
    let server = Server::start(|number, command| match command {
        "NOOP" if number == 0 => Close,
        command => accepting(command),
    });
    let server = server.await;
    let mailer = server.mailer();
    for _ in 0..2 {
        mailer.send(&mail()).await.expect("sent");
    }
    assert_eq!(server.commands().len(), 2);
}

#[tokio::test]
async fn a_server_that_closes_a_connection_gets_another_one() {
    let mails = AtomicUsize::new(0);
    let server = Server::start(move |number, command| {
        let is_second = command.starts_with("MAIL") && mails.fetch_add(1, Relaxed) == 1;
        if number == 0 && is_second { Say("421 too many mails") } else { accepting(command) }
    });
    let server = server.await;
    let mailer = server.mailer();
    for _ in 0..2 {
        mailer.send(&mail()).await.expect("sent");
    }
    assert_eq!(server.commands().len(), 2);
}

#[tokio::test]
async fn the_next_mail_does_not_read_the_replies_to_one_that_was_left() {
    let server = Server::start(|number, command| match command {
        "." if number == 0 => Hang,
        command => accepting(command),
    });
    let server = server.await;
    let (email, to) = channel(server.mailer(), None);
    let alert = alert(AlertKind::JobFailed);
    let sent = email.send(&to, &alert, Duration::from_millis(200)).await;
    assert_eq!(sent.expect_err("left").code, DeliveryError::Timeout);
    let sent = email.send(&to, &alert, TIMEOUT).await.expect("sent");
    assert_eq!((sent.status, sent.response.as_deref()), (Some(250), Some("queued as 7")));
    assert_eq!(server.commands().len(), 2);
}

#[tokio::test]
async fn the_servers_answer_is_reported_without_the_address() {
    let server = Server::start(|_, command| match command {
        command if command.starts_with("RCPT") => Say("550 5.1.1 <ann@example.com>: unknown user"),
        command => accepting(command),
    });
    let server = server.await;
    let (email, to) = channel(server.mailer(), None);
    let sent = email.send(&to, &alert(AlertKind::JobFailed), TIMEOUT).await;
    let error = sent.expect_err("refused");
    assert_eq!((error.code, error.status, error.gone), (DeliveryError::Smtp, Some(550), false));
    let expected = "The mail server has refused the mail (reply 550): 5.1.1 <•••>: unknown user";
    assert_eq!(error.message, expected);
    let response = error.response.expect("a reply");
    assert!(response.contains("unknown user") && !response.contains("ann@example"), "{response}");
}

#[tokio::test]
async fn a_refused_login_is_the_operators_to_mend() {
    let server = Server::start(|_, command| match command {
        command if command.starts_with("AUTH") => Say("535 5.7.8 wrong password of marker-user"),
        command => accepting(command),
    });
    let server = server.await;
    let user = Some("marker-user".to_owned());
    let mailer = Mailer::new(MailSettings { user, ..server.settings() });
    let (email, to) = channel(mailer, None);
    let sent = email.send(&to, &alert(AlertKind::JobFailed), TIMEOUT).await;
    let error = sent.expect_err("refused");
    assert_eq!((error.code, error.status), (DeliveryError::Smtp, Some(535)));
    assert!(error.message.contains("mail.url") && !error.message.contains("marker"), "{error}");
    assert_eq!(error.response, None, "what it says of the login is not the user's");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_reported() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let server = Server { port, log: Log::default(), tasks: Tasks::new() };
    let (email, to) = channel(server.mailer(), None);
    let sent = email.send(&to, &alert(AlertKind::JobFailed), TIMEOUT).await;
    let error = sent.expect_err("refused");
    assert_eq!(error.code, DeliveryError::Connect);
    assert_eq!(error.message, "The mail server was not reached.");
    let error = server.mailer().send(&mail()).await.expect_err("refused").to_string();
    assert!(error.starts_with("the mail server 127.0.0.1 (mail.url)"), "{error}");
}

#[tokio::test]
async fn a_changed_password_file_is_read_again() {
    let server = Server::start(|_, command| match command {
        // user, old-password
        "AUTH PLAIN AHVzZXIAb2xk" => Say("535 wrong"),
        "." => Say("250 queued"),
        command => accepting(command),
    });
    let server = server.await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    let password_file = Some(file.path().to_owned());
    let user = Some("user".to_owned());
    let mailer = Mailer::new(MailSettings { user, password_file, ..server.settings() });
    std::fs::write(file.path(), "old\n").expect("written");
    let refused = mailer.send(&mail()).await.expect_err("refused").to_string();
    assert!(refused.contains("535"), "{refused}");
    std::fs::write(file.path(), "new\n").expect("written");
    mailer.send(&mail()).await.expect("sent");
    drop(file);
    mailer.send(&mail()).await.expect("the connection is signed in already");
}

/// Returns the header lines of the first mail that the server received, unfolded.
fn header(server: &Server, name: &str) -> Option<String> {
    let session = server.commands().concat();
    let mail = session.iter().skip_while(|line| *line != "DATA").skip(1);
    let head: Vec<_> = mail.take_while(|line| !line.is_empty()).cloned().collect();
    let head = head.join("\n").replace("\n ", " ");
    let found = head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    found.map(str::to_owned)
}

#[tokio::test]
async fn an_alert_is_a_mail_that_can_be_stopped() {
    let server = Server::start(|_, command| accepting(command)).await;
    let (email, to) = channel(server.mailer(), Some("https://punctual.example/app"));
    let alert = alert(AlertKind::JobFailed);
    email.send(&to, &alert, TIMEOUT).await.expect("sent");
    let value = |name| header(&server, name).expect(name);
    assert_eq!(value("From"), "punctual@example.com");
    assert_eq!(value("To"), "ann@example.com");
    assert_eq!(value("Date"), "Wed, 15 May 2024 12:00:42 +0000");
    assert_eq!(value("Message-ID"), format!("<{}.{}@example.com>", alert.id, to.channel));
    assert_eq!(value("Auto-Submitted"), "auto-generated");
    assert!(value("Content-Type").starts_with("multipart/alternative;"));
    let link = value("List-Unsubscribe");
    let expected =
        format!("<https://punctual.example/app/unsubscribe/{}/{}/", to.account, to.channel);
    let token = link.strip_prefix(&expected).expect("the page").trim_end_matches('>');
    assert!(email.unsubscribes(&to.config, token));
    assert_eq!(value("List-Unsubscribe-Post"), "List-Unsubscribe=One-Click");
}

#[tokio::test]
async fn without_a_public_url_a_mail_is_stopped_by_a_mail() {
    let server = Server::start(|_, command| accepting(command)).await;
    let (email, to) = channel(server.mailer(), None);
    email.send(&to, &alert(AlertKind::ChannelTest), TIMEOUT).await.expect("sent");
    let link = header(&server, "List-Unsubscribe");
    assert_eq!(link.as_deref(), Some("<mailto:punctual@example.com?subject=unsubscribe>"));
    assert_eq!(header(&server, "List-Unsubscribe-Post"), None);
}

#[tokio::test]
async fn hostile_alerts_go_to_the_recipient_alone() {
    let server = Server::start(|_, command| accepting(command)).await;
    let (email, to) = channel(server.mailer(), Some("https://punctual.example"));
    for kind in AlertKind::ALL {
        email.send(&to, &hostile(*kind), TIMEOUT).await.expect("sent");
    }
    let commands = server.commands().concat();
    let recipients: Vec<_> = commands.iter().filter(|line| line.starts_with("RCPT")).collect();
    assert_eq!(recipients, vec!["RCPT TO:<ann@example.com>"; AlertKind::ALL.len()]);
    let mut headers = false;
    for line in &commands {
        headers = line == "DATA" || (headers && !line.is_empty());
        assert!(!(headers && line.to_lowercase().starts_with("bcc")), "{line}");
        assert!(line.len() < 999, "{}", line.len());
    }
}
