//! The rules for endpoints and addresses that may be called.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{PoisonError, RwLock};

use ipnet::IpNet;

use super::RefusedUrl;
use super::address::is_public;
use crate::domain::endpoint::{Endpoint, Host};

/// The operator's rules and the addresses of this machine.
pub struct Policy {
    allow: Vec<IpNet>,
    deny_ports: Vec<u16>,
    /// The addresses of this machine's interfaces. They are blocked even if public, because they
    /// may reach services that only the machine itself should reach.
    own: RwLock<Vec<IpAddr>>,
}

/// The way to find the addresses of a name.
#[derive(Debug, PartialEq, Eq)]
pub enum ResolutionRoute {
    /// The addresses are fixed; no lookup is needed.
    Known(Vec<IpAddr>),
    /// The name servers must be asked.
    Lookup,
    /// There is no address: the name is reserved to not exist (RFC 6761, section 6.4).
    Nowhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressVerdict {
    Blocked,
    Public,
    /// The operator allowed the address explicitly, so any port is allowed too.
    Allowed,
}

impl Policy {
    /// Creates the policy and reads the current addresses of this machine.
    pub fn new(allow: Vec<IpNet>, deny_ports: Vec<u16>) -> Self {
        let policy = Self { allow, deny_ports, own: RwLock::new(Vec::new()) };
        policy.refresh_own();
        policy
    }

    /// Reads the addresses of this machine's interfaces again.
    pub fn refresh_own(&self) {
        match if_addrs::get_if_addrs() {
            Ok(interfaces) => {
                let own = interfaces.iter().map(if_addrs::Interface::ip).collect();
                *self.own.write().unwrap_or_else(PoisonError::into_inner) = own;
            }
            Err(error) => tracing::warn!(%error, "could not list the addresses of the interfaces"),
        }
    }

    /// Checks an endpoint as far as possible without a name server.
    pub fn check(&self, endpoint: &Endpoint) -> Result<(), RefusedUrl> {
        let denied_port = self.deny_ports.contains(&endpoint.port());
        let verdict = match endpoint.host() {
            Host::Address(address) => self.verdict(address.to_canonical()),
            Host::Name(name) => match self.route(name)? {
                ResolutionRoute::Known(_) => AddressVerdict::Allowed,
                ResolutionRoute::Lookup | ResolutionRoute::Nowhere => AddressVerdict::Public,
            },
        };
        match verdict {
            AddressVerdict::Blocked => Err(RefusedUrl::DisallowedAddress),
            AddressVerdict::Public if denied_port => Err(RefusedUrl::DisallowedPort),
            AddressVerdict::Public | AddressVerdict::Allowed => Ok(()),
        }
    }

    /// Returns the route for a lower-case name without a trailing dot.
    pub fn route(&self, name: &str) -> Result<ResolutionRoute, RefusedUrl> {
        match name.rsplit('.').next() {
            Some("localhost") => self.localhost().map(ResolutionRoute::Known),
            Some("invalid") => Ok(ResolutionRoute::Nowhere),
            _ => Ok(ResolutionRoute::Lookup),
        }
    }

    /// Checks all addresses of a name. One blocked address blocks the whole name, because a name
    /// that mixes public and blocked addresses is either misconfigured or an attack.
    pub fn judge(&self, addresses: &[IpAddr]) -> Result<(), RefusedUrl> {
        let blocked = |ip: &IpAddr| self.verdict(ip.to_canonical()) == AddressVerdict::Blocked;
        if addresses.iter().any(blocked) { Err(RefusedUrl::DisallowedAddress) } else { Ok(()) }
    }

    /// Returns the loopback addresses that the operator allows (RFC 6761, section 6.3).
    fn localhost(&self) -> Result<Vec<IpAddr>, RefusedUrl> {
        let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        let allowed: Vec<_> = loopback.into_iter().filter(|&ip| self.allows(ip)).collect();
        if allowed.is_empty() { Err(RefusedUrl::DisallowedAddress) } else { Ok(allowed) }
    }

    fn verdict(&self, canonical: IpAddr) -> AddressVerdict {
        if self.allows(canonical) {
            AddressVerdict::Allowed
        } else if is_public(canonical) && !self.is_own(canonical) {
            AddressVerdict::Public
        } else {
            AddressVerdict::Blocked
        }
    }

    fn allows(&self, address: IpAddr) -> bool {
        self.allow.iter().any(|net| net.contains(&address))
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.own.read().unwrap_or_else(PoisonError::into_inner).contains(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANDARD_PORTS: [u16; 6] = [22, 25, 2379, 2380, 5432, 6379];

    fn policy(allow: &[&str]) -> Policy {
        let allow = allow.iter().map(|net| net.parse().expect("a network")).collect();
        Policy::new(allow, STANDARD_PORTS.to_vec())
    }

    fn check(policy: &Policy, url: &str) -> Result<(), RefusedUrl> {
        policy.check(&Endpoint::parse(url).expect(url))
    }

    fn addresses<const N: usize>(ips: [&str; N]) -> [IpAddr; N] {
        ips.map(|ip| ip.parse().expect("an address"))
    }

    #[test]
    fn literal_addresses_are_judged_in_whatever_spelling() {
        let policy = policy(&[]);
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://0/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://017700000001/",
            "http://0177.0.0.1/",
            "http://127.0.0.1./",
            "http://①②⑦.⓪.⓪.①/",
            "http://127。0。0。1/",
            "http://[::1]/",
            "http://[::]/",
            "http://[::ffff:7f00:1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[0:0:0:0:0:ffff:127.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "http://127.0.0.1#@example.com/",
            "http://127.0.0.1:22/",
            "http://169.254.169.254/latest/meta-data/",
            "https://10.0.0.1:8443/",
            "http://localhost/",
            "http://LOCALHOST./",
            "http://foo.localhost/",
            "http://a.b.LocalHost.:8080/",
        ] {
            assert_eq!(check(&policy, url), Err(RefusedUrl::DisallowedAddress), "{url}");
        }
        assert_eq!(check(&policy, "http://[::ffff:8.8.8.8]/"), Ok(()));
    }

    #[test]
    fn names_wait_for_their_addresses_unless_reserved() {
        let policy = policy(&[]);
        for name in ["example.com", "localhost.example.com", "notlocalhost", "invalid.example"] {
            assert_eq!(policy.route(name), Ok(ResolutionRoute::Lookup), "{name}");
        }
        for name in ["invalid", "x.invalid"] {
            assert_eq!(policy.route(name), Ok(ResolutionRoute::Nowhere), "{name}");
        }
        assert_eq!(check(&policy, "http://x.INVALID./"), Ok(()), "it fails when it is called");
    }

    #[test]
    fn ports_of_infrastructure_are_refused() {
        let policy = policy(&["10.1.0.0/16"]);
        for port in STANDARD_PORTS {
            for host in ["8.8.8.8", "redis", "example.com", "[2606:4700::1111]", "x.invalid"] {
                let url = format!("http://{host}:{port}/");
                assert_eq!(check(&policy, &url), Err(RefusedUrl::DisallowedPort), "{url}");
            }
            assert_eq!(check(&policy, &format!("http://10.1.2.3:{port}/")), Ok(()), "{port}");
        }
        assert_eq!(check(&policy, "http://8.8.8.8:8080/"), Ok(()));
    }

    #[test]
    fn only_networks_of_the_operator_are_allowed() {
        let policy = policy(&["127.0.0.0/8", "fd00::/8"]);
        let [loopback] = addresses(["127.0.0.1"]);
        assert_eq!(policy.route("a.localhost"), Ok(ResolutionRoute::Known(vec![loopback])));
        for url in [
            "http://localhost:6379/",
            "http://127.8.8.8:22/",
            "http://[::ffff:127.0.0.1]/",
            "http://[fd00::1]:22/",
        ] {
            assert_eq!(check(&policy, url), Ok(()), "{url}");
        }
        for url in ["http://[::1]/", "http://10.0.0.1/", "http://[fc00::1]/"] {
            assert_eq!(check(&policy, url), Err(RefusedUrl::DisallowedAddress), "{url}");
        }
    }

    #[test]
    fn one_blocked_address_condemns_the_name() {
        let policy = policy(&["10.1.0.0/16"]);
        assert_eq!(policy.judge(&addresses(["8.8.8.8", "10.1.0.1", "8.8.8.8"])), Ok(()));
        for mixed in [
            ["8.8.8.8", "10.0.0.1"],
            ["127.0.0.1", "8.8.8.8"],
            ["8.8.8.8", "::ffff:192.168.0.1"],
            ["2606:4700::1111", "64:ff9b::808:808"],
        ] {
            let refused = Err(RefusedUrl::DisallowedAddress);
            assert_eq!(policy.judge(&addresses(mixed)), refused, "{mixed:?}");
        }
    }

    #[test]
    fn the_addresses_of_the_machine_are_refused_unless_allowed() {
        let public = addresses(["93.184.215.14"]);
        let strict = policy(&[]);
        assert_eq!(strict.judge(&public), Ok(()));
        strict.own.write().expect("not poisoned").extend(public);
        assert_eq!(strict.judge(&public), Err(RefusedUrl::DisallowedAddress));
        let refused = Err(RefusedUrl::DisallowedAddress);
        assert_eq!(check(&strict, "http://93.184.215.14/"), refused);
        strict.refresh_own();
        assert_eq!(strict.judge(&public), Ok(()), "no longer its address");
        assert!(strict.is_own(IpAddr::from(Ipv4Addr::LOCALHOST)), "every machine has it");

        let allowing = policy(&["93.184.215.14/32"]);
        allowing.own.write().expect("not poisoned").extend(public);
        assert_eq!(allowing.judge(&public), Ok(()));
    }
}
