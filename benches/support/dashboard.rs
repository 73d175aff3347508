//! A visitor of the dashboard, who measures each page.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::service::Service;

/// The setting with which each request can come from another address. The rate limits of pages are
/// those of an address.
pub const PROXY: (&str, &str) = ("PUNCTUAL_HTTP_TRUSTED_PROXIES", "127.0.0.0/8");

const TIMEOUT: Duration = Duration::from_secs(60);

/// A signed-in owner of an account.
pub struct Visitor {
    address: SocketAddr,
    /// The session cookie and, for reads of the API, a key: lines of the head.
    credentials: String,
    /// The number of requests.
    made: Cell<u32>,
}

/// An answer.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub text: String,
    /// The time from the request to the last byte; of a stream, to its first event.
    pub time: Duration,
}

impl Visitor {
    /// Creates a user who owns `account`, and signs in. `key` is a key of the account.
    pub fn sign_in(service: &Service, account: &str, key: &str) -> Self {
        let email = format!("{account}@example.com");
        let password = service.run(&["user", "create", &email, "--account", account]);
        service.run(&["user", "add-operator", &email]);
        let (email, password) = (email.replace('@', "%40"), password.trim());
        let form = format!("email={email}&password={password}&next=");
        let mut visitor =
            Self { address: service.public, credentials: String::new(), made: Cell::new(0) };
        let answer = visitor.call("POST", "/dashboard/sign-in", &form);
        let cookie = answer.head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("set-cookie").then(|| value.split(';').next())?
        });
        let cookie = cookie.unwrap_or_else(|| panic!("not signed in: {}", answer.text));
        visitor.credentials = format!("cookie: {cookie}\r\nx-api-key: {key}\r\n");
        visitor
    }

    /// Asks for a page or reads from the API.
    pub fn get(&self, path: &str) -> Answer {
        self.call("GET", path, "")
    }

    fn call(&self, method: &str, path: &str, form: &str) -> Answer {
        self.made.set(self.made.get() + 1);
        let from = Ipv4Addr::from(0x0a00_0000 + self.made.get());
        let (credentials, length) = (&self.credentials, form.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nsec-fetch-site: same-origin\r\n\
             x-forwarded-for: {from}\r\n{credentials}connection: close\r\n\
             content-type: application/x-www-form-urlencoded\r\n\
             content-length: {length}\r\n\r\n{form}"
        );
        let mut stream = TcpStream::connect(self.address).expect("the service listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a socket");
        let began = Instant::now();
        stream.write_all(request.as_bytes()).expect("sent");
        let (mut bytes, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
        while !is_event(&bytes) {
            match stream.read(&mut buffer).expect("an answer") {
                0 => break,
                read => bytes.extend_from_slice(&buffer[..read]),
            }
        }
        let time = began.elapsed();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, text) = text.split_once("\r\n\r\n").expect("a complete head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.expect("a status");
        Answer { status, head: head.to_owned(), text: text.to_owned(), time }
    }
}

/// Returns `true` if these bytes are the head of a stream and its first event.
fn is_event(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let (head, body) = bytes.split_at(end);
    head.windows(17).any(|word| word == b"text/event-stream")
        && body.windows(2).any(|two| two == b"\n\n")
}
