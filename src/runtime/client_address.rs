//! The address of the client that sent a request.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::ConnectInfo;
use http::{Extensions, HeaderMap};
use ipnet::IpNet;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The address of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

impl ClientAddress {
    /// Returns the address of the peer that the server recorded with the request. Requests without
    /// one share one address; no server makes such requests.
    ///
    /// If the peer is a `trusted` proxy, the client is the last address in `X-Forwarded-For` that
    /// is not a trusted proxy itself. Addresses before that can be forged and are not read.
    /// `Forwarded` and similar headers are not read either.
    pub fn of(extensions: &Extensions, headers: &HeaderMap, trusted: &[IpNet]) -> Self {
        let peer = extensions.get::<ConnectInfo<SocketAddr>>();
        let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(peer)| peer.ip());
        let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(&address));
        let mut client = peer.to_canonical();
        let mut before = hops(headers);
        while is_trusted(client) {
            // If the entry before a proxy is missing or malformed, the proxy counts as the client.
            let Some(Some(hop)) = before.next() else { break };
            client = hop;
        }
        Self(client)
    }
}

/// Returns the addresses in the header, the last one first. `None` stands for a malformed entry.
fn hops(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(FORWARDED_FOR).into_iter().rev();
    lines.flat_map(|line| line.to_str().unwrap_or("").rsplit(',')).map(|hop| address(hop.trim()))
}

/// Parses an address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let alone = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || text.parse().ok().map(|address: SocketAddr| address.ip());
    text.parse()
        .ok()
        .or_else(alone)
        .or_else(with_port)
        .map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, lines: &[&str]) -> String {
        let mut extensions = Extensions::new();
        let peer: IpAddr = peer.parse().expect("an address");
        extensions.insert(ConnectInfo(SocketAddr::new(peer, 1)));
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, line.parse().expect("a value"));
        }
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().expect("one"));
        ClientAddress::of(&extensions, &headers, &trusted).0.to_string()
    }

    #[test]
    fn only_listed_proxies_are_trusted() {
        for (peer, lines, expected) in [
            ("192.0.2.1", &["198.51.100.7"][..], "192.0.2.1"),
            ("10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["1.1.1.1, 198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["1.1.1.1", "198.51.100.7, 10.2.3.4"], "198.51.100.7"),
            ("10.0.0.1", &["198.51.100.7:4711"], "198.51.100.7"),
            ("10.0.0.1", &["[2001:db8::7]:4711"], "2001:db8::7"),
            ("10.0.0.1", &["[2001:db8::7]"], "2001:db8::7"),
            ("fd00::1", &["2001:db8::7 , fd00::2"], "2001:db8::7"),
            ("::ffff:10.0.0.1", &["::ffff:198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["10.0.0.9"], "10.0.0.9"),
            ("10.0.0.1", &["198.51.100.7, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7, unknown, 10.0.0.3"], "10.0.0.3"),
            ("10.0.0.1", &[""], "10.0.0.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
        ] {
            assert_eq!(client(peer, lines), expected, "{peer} {lines:?}");
        }
    }
}
