//! The destination of log lines: a bounded buffer, and a thread that writes it out.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use crate::telemetry::metrics::LOG_LINES_DROPPED;

/// The capacity of the buffer in bytes. It holds about 20,000 lines, which is a few seconds of a
/// busy service.
const BUFFER_BYTES: usize = 4 << 20;
/// The maximum time that the end of the process waits for the last lines.
const LAST_LINES: Duration = Duration::from_millis(500);

/// Accepts lines without ever waiting, and writes them on its own thread.
pub struct LogSink {
    lines: Option<LineSender>,
    written: Receiver<()>,
}

impl LogSink {
    /// Starts a sink that writes to `output`, however slow that is.
    pub fn start(output: impl Write + Send + 'static) -> Self {
        let (sender, lines) = mpsc::channel();
        let (done, written) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let counter = waiting.clone();
        let thread = std::thread::Builder::new().name("log".into()).spawn(move || {
            write_lines(&lines, &counter, output);
            // The receiver is gone if the wait for the last lines has timed out.
            let _ = done.send(());
        });
        // If the thread cannot be started, the channel is closed and every line counts as dropped.
        drop(thread);
        Self { lines: Some(LineSender { sender, waiting }), written }
    }

    /// Returns the writer for the formatting layer.
    pub(super) fn writer(&self) -> LineSender {
        self.lines.clone().expect("there until the sink is dropped")
    }
}

impl Drop for LogSink {
    /// Waits until the lines so far are written, but at most 500 ms, because the reader may not
    /// read.
    fn drop(&mut self) {
        if let Some(lines) = self.lines.take() {
            // The subscriber keeps its sender for ever, so the channel never closes. An empty line
            // marks the end.
            let _ = lines.sender.send(Vec::new());
        }
        let _ = self.written.recv_timeout(LAST_LINES);
    }
}

fn write_lines(lines: &Receiver<Vec<u8>>, waiting: &AtomicUsize, mut output: impl Write) {
    for line in lines {
        if line.is_empty() {
            return;
        }
        // A write error of the log cannot be reported anywhere.
        let _ = output.write_all(&line);
        waiting.fetch_sub(line.len(), Ordering::Relaxed);
    }
}

/// Appends lines to the buffer of a sink.
#[derive(Clone)]
pub struct LineSender {
    sender: Sender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

impl LineSender {
    fn send(&self, line: &[u8]) {
        let waiting = self.waiting.fetch_add(line.len(), Ordering::Relaxed);
        if waiting + line.len() > BUFFER_BYTES || self.sender.send(line.to_vec()).is_err() {
            self.waiting.fetch_sub(line.len(), Ordering::Relaxed);
            LOG_LINES_DROPPED.add(1);
        }
    }
}

impl Write for LineSender {
    /// Appends a line. The formatting layer passes one whole line per call.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        if !line.is_empty() {
            self.send(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LineSender {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// An output that stores the written bytes, and blocks while `gate` is locked.
    #[derive(Clone, Default)]
    struct Gated {
        gate: Arc<Mutex<()>>,
        text: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _open = self.gate.lock();
            self.text.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_dropped_sink_has_written_everything() {
        let output = Gated::default();
        let sink = LogSink::start(output.clone());
        let mut lines = sink.writer();
        for n in 0..1_000 {
            lines.write_all(format!("line {n}\n").as_bytes()).expect("never fails");
        }
        drop(sink);
        let text = String::from_utf8(output.text.lock().expect("not poisoned").clone());
        assert_eq!(text.expect("text").lines().last(), Some("line 999"));
    }

    #[test]
    fn a_reader_that_does_not_read_costs_lines_and_no_time_or_memory() {
        let output = Gated::default();
        let closed = output.gate.lock().expect("not poisoned");
        let sink = LogSink::start(output.clone());
        let mut lines = sink.writer();
        let line = vec![b'x'; 1 << 16];
        for _ in 0..1_000 {
            lines.write_all(&line).expect("never fails");
        }
        assert!(lines.waiting.load(Ordering::Relaxed) <= BUFFER_BYTES);
        drop(closed);
        drop(sink);
        let written = output.text.lock().expect("not poisoned").len();
        assert_eq!(written, BUFFER_BYTES, "what fitted was written, the rest was dropped");
    }
}
