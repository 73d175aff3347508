//! A visitor of the dashboard without script: it keeps the session cookie and sends forms.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::form_urlencoded;

use super::wait::TIMEOUT;

/// The content type of most forms.
const URL_ENCODED: &str = "application/x-www-form-urlencoded";

/// A user who has signed in.
#[derive(Clone, Debug)]
pub struct PageVisitor {
    address: SocketAddr,
    cookie: String,
    /// Header lines that are sent with every request, each with its line break.
    headers: String,
}

/// A response with a page.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub head: String,
    pub text: String,
}

impl Page {
    /// Reads a whole response.
    pub fn read(bytes: &[u8]) -> Self {
        let answer = std::str::from_utf8(bytes).expect("UTF-8");
        let (head, text) = answer.split_once("\r\n\r\n").expect("a complete head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Self { status: status.expect("a status"), head: head.to_owned(), text: text.to_owned() }
    }

    /// Returns the value of a header, or an empty text.
    pub fn header(&self, name: &str) -> &str {
        let fields = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut named = fields.filter(|(field, _)| field.eq_ignore_ascii_case(name));
        named.next().map_or("", |(_, value)| value.trim())
    }

    /// Returns the content of the page without the long list of time zones.
    fn main(&self) -> String {
        let main = self.text.split_once("<main").map_or(self.text.as_str(), |(_, main)| main);
        let is_zone = |part: &&str| part.starts_with("option ") && part.contains('/');
        main.split('<').filter(|part| !is_zone(part)).collect::<Vec<_>>().join("<")
    }

    /// Asserts that the page has this status and contains these texts.
    #[track_caller]
    pub fn shows(&self, status: u16, texts: &[&str]) -> &Self {
        assert_eq!(self.status, status, "{}", self.main());
        for text in texts {
            assert!(self.text.contains(text), "no {text:?} in {}", self.main());
        }
        self
    }

    /// Asserts that the page contains none of these texts.
    #[track_caller]
    pub fn hides(&self, texts: &[&str]) -> &Self {
        for text in texts {
            assert!(!self.text.contains(text), "{text:?} in {}", self.main());
        }
        self
    }
}

impl PageVisitor {
    /// Signs up a new user, who owns an account of the same name. The service must be in open mode.
    pub async fn sign_up(address: SocketAddr, name: &str) -> Self {
        let mut visitor = Self { address, cookie: String::new(), headers: String::new() };
        let email = format!("{name}@example.com");
        let fields = [("email", email.as_str()), ("password", "correct horse"), ("account", name)];
        let page = visitor.post("/dashboard/sign-up", &fields).await;
        assert_eq!(page.status, 303, "{}", page.text);
        let cookie = page.header("set-cookie").split(';').next().unwrap_or_default();
        visitor.cookie = cookie.to_owned();
        visitor
    }

    /// Returns the same visitor, whose requests are made by the script of a page.
    pub fn with_script(&self) -> Self {
        Self { headers: "hx-request: true\r\n".to_owned(), ..self.clone() }
    }

    /// Returns a visitor of the same service without a session.
    pub fn signed_out(&self) -> Self {
        Self { cookie: String::new(), ..self.clone() }
    }

    /// Returns a page.
    pub async fn get(&self, path: &str) -> Page {
        self.send("GET", path, URL_ENCODED, b"").await
    }

    /// Sends a form.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        self.send("POST", path, URL_ENCODED, form.finish().as_bytes()).await
    }

    /// Sends a form with any content type.
    pub async fn send(&self, method: &str, path: &str, content_type: &str, body: &[u8]) -> Page {
        let mut stream = self.open(method, path, content_type, body).await;
        let mut bytes = Vec::new();
        let read = stream.read_to_end(&mut bytes);
        timeout(TIMEOUT, read).await.expect("a response in time").expect("received");
        Page::read(&bytes)
    }

    /// Sends a request for a stream of events, whose end the caller reads.
    pub async fn request_stream(&self, path: &str) -> TcpStream {
        self.open("GET", path, URL_ENCODED, b"").await
    }

    async fn open(&self, method: &str, path: &str, content_type: &str, body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.expect("connected");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\norigin: http://test\r\ncookie: {}\r\n{}\
             connection: close\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n",
            self.cookie,
            self.headers,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        stream.write_all(body).await.expect("sent");
        stream
    }
}
