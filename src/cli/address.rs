//! Listener addresses as seen by clients on this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Returns an address to connect to. An unspecified address, such as 0.0.0.0, becomes the loopback
/// address.
pub(super) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_for_all_is_reached_by_loopback() {
        for (listen, reached) in
            [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:2", "[::1]:2"), ("10.0.0.1:3", "10.0.0.1:3")]
        {
            let listen: SocketAddr = listen.parse().expect("an address");
            assert_eq!(reachable(listen).to_string(), reached);
        }
    }
}
