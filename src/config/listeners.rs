//! The settings of the two listeners: public and operations.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;

use super::execution::network;
use super::reader::{
    ParseResult, SettingsReader, SourceValue, address, list, number, seconds, text,
};
use crate::runtime::ServeLimits;

/// The settings of the public listener.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// The address and port to listen on.
    pub listen: SocketAddr,
    /// The proxies whose `X-Forwarded-For` header is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// The prefix of all public paths: empty, or a path that starts with a slash and does not end
    /// with one.
    pub base_path: String,
    /// The limits on connections and requests.
    pub limits: ServeLimits,
}

/// The settings of the operations listener.
#[derive(Clone, Debug)]
pub struct OpsSettings {
    /// The address and port to listen on.
    pub listen: SocketAddr,
    /// The limits on connections and requests.
    pub limits: ServeLimits,
}

pub(super) fn read(reader: &mut SettingsReader) -> (HttpSettings, OpsSettings) {
    let limits = ServeLimits {
        connections: reader.read("http.max_connections", number(1..=1_000_000)),
        header_read: reader.read("http.header_timeout_seconds", seconds(1..=300)),
        drain: reader.read("shutdown.drain_seconds", seconds(0..=300)),
        ..ServeLimits::default()
    };
    let http = HttpSettings {
        listen: reader.read("http.listen", address),
        trusted_proxies: reader.read("http.trusted_proxies", list(network)),
        base_path: reader.read("http.base_path", base_path),
        limits,
    };
    // The operations listener has few clients, so 1,000 connections are enough. It needs no drain
    // time because it answers until the end of a stop.
    let limits = ServeLimits { connections: 1_000, drain: Duration::ZERO, ..limits };
    let ops = OpsSettings { listen: reader.read("ops.listen", address), limits };
    if http.listen == ops.listen && http.listen.port() != 0 {
        reader.mistake("ops.listen", "must not be the same as http.listen");
    }
    (http, ops)
}

fn base_path(raw: &SourceValue) -> ParseResult<String> {
    let path = text(raw)?;
    let path = path.strip_suffix('/').unwrap_or(&path);
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.~/".contains(letter);
    let segments = || path.split('/').skip(1);
    let ok = path.is_empty()
        || path.starts_with('/')
            && path.chars().all(plain)
            && segments().all(|segment| !segment.chars().all(|letter| letter == '.'));
    let allowed = "must be empty or a plain path such as /api";
    if ok { Ok(path.to_owned()) } else { Err(allowed.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_paths() {
        let read = |path: &str| base_path(&SourceValue::Text(path.to_owned()));
        for (given, read_as) in [("", ""), ("/", ""), ("/api", "/api"), ("/a/b-c/", "/a/b-c")] {
            assert_eq!(read(given).as_deref(), Ok(read_as));
        }
        for wrong in ["api", "//", "/a//b", "/a/../b", "/...", "/{x}", "/a b", "/a?b", "/é", "/*x"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
