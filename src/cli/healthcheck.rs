//! `punctual healthcheck`: checks the readiness of a running service through its operations
//! listener.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::address::reachable;
use super::config::load_part_and_warn;
use super::{CliError, output};
use crate::config::Sources;

/// The timeout of the check.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn run(sources: &Sources) -> Result<(), CliError> {
    let address = reachable(load_part_and_warn(sources)?.ops.listen);
    if address.port() == 0 {
        let why = "ops.listen has port 0: give the port that the service has logged";
        return Err(CliError::usage(why));
    }
    let answer = tokio::time::timeout(TIMEOUT, ask(address)).await;
    let answer = answer.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
    let answer = answer.map_err(|error| {
        CliError::failed(format!("no answer from {address} (ops.listen): {error}"))
    })?;
    let body = answer.rsplit("\r\n\r\n").next().unwrap_or_default().trim_end();
    if answer.starts_with("HTTP/1.1 200 ") {
        output::print(&format!("{body}\n"))
    } else {
        Err(CliError::failed(format!("the service at {address} is not ready: {body}")))
    }
}

async fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(64 << 10).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
