//! The settings for running jobs: executor, retries, outbound requests, history.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;

use super::reader::{ParseResult, SettingsReader, SourceValue, list, number, seconds, text};
use crate::domain::retry::RetryPolicy;
use crate::executor::ExecutorSettings;
use crate::outbound::OutboundSettings;
use crate::scheduler::HistoryPrunerSettings;

/// The maximum number of API requests per key; 0 means no limit.
#[derive(Clone, Copy, Debug)]
pub struct RateSettings {
    /// The maximum number of requests in a minute.
    pub per_minute: u32,
    /// The maximum number of requests in an hour.
    pub per_hour: u32,
}

pub(super) fn read_executor(reader: &mut SettingsReader) -> ExecutorSettings {
    ExecutorSettings {
        slots: reader.read("executor.slots", number(1..=100_000)),
        per_account: reader.read("executor.per_account", number(1..=100_000)),
        per_host: reader.read("executor.per_host", number(1..=100_000)),
        claim_time: reader.read("executor.claim_seconds", seconds(5..=600)),
        retry: read_retry(reader),
    }
}

fn read_retry(reader: &mut SettingsReader) -> RetryPolicy {
    let base_ms = reader.read("retry.base_ms", number(1..=3_600_000));
    let cap_ms = reader.read("retry.cap_ms", number(1..=3_600_000));
    if base_ms > cap_ms {
        reader.mistake("retry.cap_ms", "must not be less than retry.base_ms");
    }
    RetryPolicy { base: Duration::from_millis(base_ms), cap: Duration::from_millis(cap_ms) }
}

pub(super) fn read_outbound(reader: &mut SettingsReader) -> OutboundSettings {
    OutboundSettings {
        allow: reader.read("outbound.allow", list(network)),
        deny_ports: reader.read("outbound.deny_ports", list(number(1..=u16::MAX))),
        ca_certificates: reader.read("outbound.ca_files", list(certificates)),
        dns_servers: reader.read("dns.servers", list(name_server)),
        ..OutboundSettings::default()
    }
}

pub(super) fn read_retention(reader: &mut SettingsReader) -> HistoryPrunerSettings {
    let mut days = |key| {
        let days: u64 = reader.read(key, number(1..=3_650));
        Duration::from_secs(days * 24 * 60 * 60)
    };
    HistoryPrunerSettings { history: days("history.days"), audit_log: days("history.audit_days") }
}

pub(super) fn read_rate(reader: &mut SettingsReader) -> RateSettings {
    RateSettings {
        per_minute: reader.read("rate.per_minute", number(0..=1_000_000_000)),
        per_hour: reader.read("rate.per_hour", number(0..=1_000_000_000)),
    }
}

/// Parses a network or a single address.
pub(super) fn network(raw: &SourceValue) -> ParseResult<IpNet> {
    let allowed = "must be addresses or networks, such as 10.1.0.0/16";
    let text = text(raw).map_err(|_| allowed.to_owned())?;
    let one = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or_else(|_| one()).map_err(|_| allowed.to_owned())
}

/// Parses the address of a name server. The default port is 53.
fn name_server(raw: &SourceValue) -> ParseResult<SocketAddr> {
    let allowed = "must be addresses, such as 10.0.0.2 or 10.0.0.2:5353";
    let text = text(raw).map_err(|_| allowed.to_owned())?;
    let plain = || text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 53));
    text.parse().or_else(|_| plain()).map_err(|_| allowed.to_owned())
}

/// Reads a file of certificates in PEM form and returns its content.
pub(super) fn certificates(raw: &SourceValue) -> ParseResult<String> {
    let path = text(raw)?;
    let read = std::fs::read_to_string(&path);
    let pem = read.map_err(|error| format!("the file {path} cannot be read: {error}"))?;
    let ok = pem.contains("-----BEGIN CERTIFICATE-----");
    if ok { Ok(pem) } else { Err(format!("there is no certificate (PEM) in {path}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_name_servers() {
        let raw = |text: &str| SourceValue::Text(text.to_owned());
        assert_eq!(network(&raw("10.0.0.7")).expect("one").to_string(), "10.0.0.7/32");
        assert_eq!(network(&raw("fc00::/7")).expect("many").to_string(), "fc00::/7");
        assert!(network(&raw("localhost")).is_err());
        assert_eq!(name_server(&raw("::1")).expect("read").to_string(), "[::1]:53");
        assert_eq!(name_server(&raw("1.1.1.1:54")).expect("read").to_string(), "1.1.1.1:54");
        assert!(name_server(&raw("dns.example")).is_err());
    }
}
