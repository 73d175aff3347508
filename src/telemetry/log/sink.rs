//! Where lines go: a bounded buffer, and a thread that writes it out.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use crate::telemetry::metrics::LOG_LINES_DROPPED;

/// What may wait to be written. About 20,000 lines: some seconds of a busy service.
const BUFFER_BYTES: usize = 4 << 20;
/// How long the end of the process waits for the last lines.
const LAST_LINES: Duration = Duration::from_millis(500);

/// Takes lines without ever waiting, and writes them on a thread of its own.
pub struct Sink {
    lines: Option<LineSender>,
    written: Receiver<()>,
}

impl Sink {
    /// A sink that writes to `output`, however slow that is.
    pub fn start(output: impl Write + Send + 'static) -> Self {
        let (sender, lines) = mpsc::channel();
        let (done, written) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let counter = waiting.clone();
        let thread = std::thread::Builder::new().name("log".into()).spawn(move || {
            write_lines(&lines, &counter, output);
            // Nobody listens any more if the wait for the last lines is over.
            let _ = done.send(());
        });
        // Without the thread the channel is closed, and every line counts as dropped.
        drop(thread);
        Self { lines: Some(LineSender { sender, waiting }), written }
    }

    /// What the formatting layer writes to.
    pub(super) fn writer(&self) -> LineSender {
        self.lines.clone().expect("there until the sink is dropped")
    }
}

impl Drop for Sink {
    /// Waits for the lines so far, but not for a reader that does not read.
    fn drop(&mut self) {
        if let Some(lines) = self.lines.take() {
            // The subscriber keeps its sender for ever: an empty line marks the end.
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
        // There is nobody to tell that the log cannot be written.
        let _ = output.write_all(&line);
        waiting.fetch_sub(line.len(), Ordering::Relaxed);
    }
}

/// Puts lines into the buffer of a sink.
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
    /// The formatting layer hands over one whole line per call.
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

    /// An output that keeps what it gets, and blocks while `gate` is locked.
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
        let sink = Sink::start(output.clone());
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
        let sink = Sink::start(output.clone());
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
