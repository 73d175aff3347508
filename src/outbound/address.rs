//! The classification of IP addresses as public or not public.
//!
//! The blocked ranges are the union of the ranges that well-known egress filters block, because
//! each of those filters has gaps: the IANA special-purpose registries, cloud metadata services,
//! and every IPv6 form in which an IPv4 address can be embedded (compatible, translated, NAT64,
//! 6to4, Teredo).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6(a: u16, b: u16, length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), length)
}

const NOT_PUBLIC_V4: [Ipv4Net; 16] = [
    v4(0, 0, 0, 0, 8),        // this network
    v4(10, 0, 0, 0, 8),       // private
    v4(100, 64, 0, 0, 10),    // carrier-grade NAT, metadata of some clouds
    v4(127, 0, 0, 0, 8),      // loopback
    v4(168, 63, 129, 16, 32), // Azure's wire server, in a public range
    v4(169, 254, 0, 0, 16),   // link-local, metadata
    v4(172, 16, 0, 0, 12),    // private
    v4(192, 0, 0, 0, 24),     // protocol assignments
    v4(192, 0, 2, 0, 24),     // documentation
    v4(192, 88, 99, 0, 24),   // 6to4 relays
    v4(192, 168, 0, 0, 16),   // private
    v4(198, 18, 0, 0, 15),    // benchmarks
    v4(198, 51, 100, 0, 24),  // documentation
    v4(203, 0, 113, 0, 24),   // documentation
    v4(224, 0, 0, 0, 4),      // multicast
    v4(240, 0, 0, 0, 4),      // reserved, broadcast
];

/// The whole IPv6 range that is allocated for global unicast. Every address outside it is not
/// public: unspecified, loopback, IPv4-compatible and translated (`::/8`), NAT64 (`64:ff9b::/96`,
/// `64:ff9b:1::/48`), discard (`100::/64`), segment routing (`5f00::/16`), unique local
/// (`fc00::/7`), link-local (`fe80::/10`), site-local (`fec0::/10`), multicast (`ff00::/8`).
const UNICAST_V6: Ipv6Net = v6(0x2000, 0, 3);

const NOT_PUBLIC_V6: [Ipv6Net; 4] = [
    v6(0x2001, 0, 23),     // protocol assignments: Teredo, ORCHID
    v6(0x2001, 0xdb8, 32), // documentation
    v6(0x2002, 0, 16),     // 6to4
    v6(0x3fff, 0, 20),     // documentation
];

/// Returns `true` if an address is public. An IPv4-mapped IPv6 address is judged as its IPv4
/// address; every other embedding of an IPv4 address is not public.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => !NOT_PUBLIC_V4.iter().any(|net| net.contains(&address)),
        IpAddr::V6(address) => {
            UNICAST_V6.contains(&address) && !NOT_PUBLIC_V6.iter().any(|net| net.contains(&address))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(address: &str) -> bool {
        is_public(address.parse().expect(address))
    }

    /// Checks the first and the last address of every range and the public neighbours on both
    /// sides.
    #[test]
    fn ranges_have_the_bounds_of_the_registries() {
        for (below, first, last, above) in [
            ("", "0.0.0.0", "0.255.255.255", "1.0.0.0"),
            ("9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"),
            ("100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"),
            ("126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"),
            ("168.63.129.15", "168.63.129.16", "168.63.129.16", "168.63.129.17"),
            ("169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"),
            ("172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"),
            ("191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"),
            ("192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"),
            ("192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"),
            ("192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"),
            ("198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"),
            ("198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"),
            ("203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"),
            ("223.255.255.255", "224.0.0.0", "255.255.255.255", ""),
            ("", "::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2000::"),
            ("2000:ffff:ffff::", "2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"),
            ("2001:db7:ffff::", "2001:db8::", "2001:db8:ffff::ffff", "2001:db9::"),
            ("2001:ffff:ffff::", "2002::", "2002:ffff:ffff::ffff", "2003::"),
            ("3ffe:ffff:ffff::", "3fff::", "3fff:fff:ffff::ffff", "3fff:1000::"),
            ("3fff:ffff:ffff::", "4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""),
        ] {
            assert!(!judge(first), "{first}");
            assert!(!judge(last), "{last}");
            for neighbour in [below, above].into_iter().filter(|address| !address.is_empty()) {
                assert!(judge(neighbour), "{neighbour}");
            }
        }
    }

    #[test]
    fn every_probe_that_some_filter_lets_through_is_refused() {
        for address in [
            "127.0.0.1",
            "10.0.0.1",
            "169.254.169.254",
            "100.100.100.200",
            "::1",
            "::ffff:127.0.0.1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::1",
            "0.1.2.3",
            "192.0.0.192",
            "192.0.2.1",
            "198.18.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::808:808",
            "64:ff9b:1::7f00:1",
            "2002:7f00:1::1",
            "2002:808:808::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:20::1",
            "3fff::1",
            "5f00::1",
            "fec0::1",
            "100::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "::ffff:168.63.129.16",
            "::8.8.8.8",
        ] {
            assert!(!judge(address), "{address}");
        }
    }

    #[test]
    fn public_addresses_are_public_in_every_form_that_is_dialled() {
        for address in
            ["8.8.8.8", "1.1.1.1", "93.184.215.14", "::ffff:8.8.8.8", "2606:4700::1111", "2a00::1"]
        {
            assert!(judge(address), "{address}");
        }
    }
}
