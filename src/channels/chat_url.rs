//! The rules for the URLs that a chat channel may call: its provider's webhooks, and hosts that the
//! operator allows.

use crate::domain::endpoint::{Endpoint, Host};

/// The hosts that the operator allows in addition to the providers' hosts.
#[derive(Clone, Debug)]
pub struct AllowedHosts(Vec<Host>);

impl AllowedHosts {
    /// Parses host names and addresses. Invalid texts are ignored.
    pub fn new(hosts: &[String]) -> Self {
        let read = |host: &String| Endpoint::parse(&format!("http://{host}/")).ok();
        Self(hosts.iter().filter_map(read).map(|endpoint| endpoint.host().clone()).collect())
    }

    fn contains(&self, endpoint: &Endpoint) -> bool {
        self.0.contains(endpoint.host())
    }
}

/// The rule for the webhook URLs of a chat provider.
pub struct WebhookRule {
    /// The provider's hosts.
    pub hosts: &'static [&'static str],
    /// Returns `true` if a path is one of the provider's webhooks.
    pub is_path: fn(&str) -> bool,
    /// The error message for all other URLs.
    pub message: &'static str,
}

impl WebhookRule {
    /// Parses a webhook URL. It must use HTTPS on the provider's host and the standard port, or
    /// point at an allowed host.
    pub fn read(&self, url: &str, allowed: &AllowedHosts) -> Result<Endpoint, &'static str> {
        let endpoint = Endpoint::parse(url).map_err(|_| self.message)?;
        let is_provider = match endpoint.host() {
            Host::Name(name) => self.hosts.contains(&&**name),
            Host::Address(_) => false,
        };
        let is_webhook = is_provider
            && endpoint.is_https()
            && endpoint.port() == 443
            && (self.is_path)(endpoint.url().path());
        if is_webhook || allowed.contains(&endpoint) { Ok(endpoint) } else { Err(self.message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: WebhookRule = WebhookRule {
        hosts: &["hooks.chat.example"],
        is_path: |path| path.starts_with("/services/"),
        message: "no",
    };

    fn is_taken(url: &str, allowed: &[&str]) -> bool {
        let allowed: Vec<_> = allowed.iter().map(|host| (*host).to_owned()).collect();
        RULE.read(url, &AllowedHosts::new(&allowed)).is_ok()
    }

    #[test]
    fn the_host_is_the_providers_and_not_one_that_looks_like_it() {
        for taken in [
            "https://hooks.chat.example/services/T/B/x",
            "HTTPS://Hooks.Chat.Example:443/services/T",
            "https://hooks.chat.example./services/T",
        ] {
            assert!(is_taken(taken, &[]), "{taken}");
        }
        for refused in [
            "http://hooks.chat.example/services/T",
            "https://hooks.chat.example:8443/services/T",
            "https://hooks.chat.example/",
            "https://hooks.chat.example/services/../admin",
            "https://hooks.chat.example/services/%2e%2e/admin",
            "https://hooks.chat.example.evil.example/services/T",
            "https://evil.example/hooks.chat.example/services/T",
            "https://evil.example?hooks.chat.example/services/T",
            "https://hooks.chat.example@evil.example/services/T",
            "https://ann:b@hooks.chat.example/services/T",
            "https://hooks.chat.example\\@evil.example/services/T",
            "https://hooks-chat.example/services/T",
            "https://hooks.chat.exаmple/services/T",
            "https://127.0.0.1/services/T",
            "javascript:alert(1)",
            "",
        ] {
            assert!(!is_taken(refused, &[]), "{refused}");
        }
    }

    #[test]
    fn an_allowed_host_may_use_plain_http_any_port_and_any_path() {
        let allowed = ["Chat.Test", "127.0.0.1", "[::1]", "not a host"];
        for taken in [
            "http://chat.test:8065/hooks/x",
            "https://chat.test/",
            "http://127.1:9/",
            "http://[::1]/",
        ] {
            assert!(is_taken(taken, &allowed), "{taken}");
        }
        for refused in ["http://sub.chat.test/", "http://127.0.0.2/", "ftp://chat.test/"] {
            assert!(!is_taken(refused, &allowed), "{refused}");
        }
    }
}
