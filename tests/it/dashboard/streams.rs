//! The first job of an account, and the streams of events that pages name.

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::harness::pages::PageVisitor;
use crate::harness::wait::TIMEOUT;

impl PageVisitor {
    /// Creates the first schedule of the account, which runs at once. Returns the path of its job.
    pub async fn first_job(&self, endpoint: &str) -> String {
        let form = [("endpoint", endpoint), ("cronExpression", "0 9 * * *")];
        let page = self.post("/dashboard/first", &form).await;
        assert_eq!(page.status, 303, "{}", page.text);
        page.header("location").to_owned()
    }

    /// Opens the stream of events that the page of a job names.
    pub async fn open_stream(&self, job: &str) -> EventReader {
        let page = self.get(job).await.text;
        let events = page.split("data-events=\"").nth(1).and_then(|rest| rest.split('"').next());
        self.stream_at(events.unwrap_or_else(|| panic!("no stream: {page}"))).await
    }

    /// Opens the stream of events at a path.
    pub async fn stream_at(&self, path: &str) -> EventReader {
        let stream = self.request_stream(path).await;
        let mut reader = EventReader { stream, text: String::new() };
        assert!(reader.read_until("\r\n\r\n").await, "closed: {}", reader.text);
        reader
    }
}

/// A stream of events that is being read.
pub struct EventReader {
    stream: TcpStream,
    /// The text so far, with the lines of the transfer coding.
    pub text: String,
}

impl EventReader {
    /// Reads until the text contains `part`. Returns `false` if the stream ends before.
    pub async fn read_until(&mut self, part: &str) -> bool {
        while !self.text.contains(part) {
            let mut bytes = [0; 4_096];
            let read = timeout(TIMEOUT, self.stream.read(&mut bytes)).await;
            let read = read.unwrap_or_else(|_| panic!("no {part} in {}", self.text));
            match read.expect("read") {
                0 => return false,
                count => self.text.push_str(&String::from_utf8_lossy(&bytes[..count])),
            }
        }
        true
    }

    /// Reads to the end of the stream, which the server ends as it should.
    pub async fn read_to_end(&mut self) -> &str {
        while self.read_until("\0").await {}
        assert!(self.text.ends_with("0\r\n\r\n"), "cut: {}", self.text);
        &self.text
    }

    pub fn status(&self) -> u16 {
        let status = self.text.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.expect("a status")
    }

    /// Returns the number of events with this name that were read.
    pub fn count(&self, name: &str) -> usize {
        self.text.matches(&format!("event: {name}\n")).count()
    }
}
