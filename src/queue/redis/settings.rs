//! The settings of the server: its address and the login.

use std::fmt;
use std::fs;
use std::path::Path;

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, TlsCertificates};

/// The address of the server, the login, and the prefix of the keys.
#[derive(Clone)]
pub struct RedisSettings {
    /// The servers to connect to first: the only one, or some of a cluster.
    pub(super) nodes: Vec<ConnectionInfo>,
    /// The certificate authorities (PEM) that are trusted with TLS. Absent: those of the public
    /// web.
    pub(super) authorities: Option<Vec<u8>>,
    /// Set if the servers are a Redis Cluster.
    pub(super) cluster: bool,
    /// The prefix of all keys and channels.
    pub(super) prefix: String,
}

/// Leaves out the password.
impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.addr().to_string()).collect();
        f.debug_struct("Settings")
            .field("nodes", &nodes)
            .field("cluster", &self.cluster)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// An error in a setting, as the end of a sentence that begins with the setting's name. It never
/// shows a password.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRedisSettings(String);

const FORMS: &str = "must be redis://HOST:PORT or rediss://HOST:PORT for one server, \
                     redis+cluster://HOST:PORT,HOST:PORT or rediss+cluster:// for a cluster; \
                     USER:PASSWORD@ may stand before the host";

impl RedisSettings {
    /// Returns the certificate authorities (PEM) that are trusted instead of those of the public
    /// web.
    pub fn authorities(&self) -> Option<&[u8]> {
        self.authorities.as_deref()
    }

    /// Reads the address `url`: `redis://` (or `rediss://` with TLS) for one server,
    /// `redis+cluster://` (or `rediss+cluster://`) for a cluster with one or more of its nodes. The
    /// password of `password_file` takes precedence over that of the address. With TLS the
    /// authorities in `ca_file` (PEM) are trusted, or those of the public web if there is none.
    ///
    /// # Errors
    /// If one of them cannot be used. The error says what to do about it.
    pub fn parse(
        url: &str,
        prefix: &str,
        password_file: Option<&Path>,
        ca_file: Option<&Path>,
    ) -> Result<Self, InvalidRedisSettings> {
        let invalid = |text: &str| InvalidRedisSettings(text.to_owned());
        let may_be_in_prefix = |c: char| c.is_ascii_alphanumeric() || ":_.-".contains(c);
        if !(1..=64).contains(&prefix.len()) || !prefix.chars().all(may_be_in_prefix) {
            let what = "needs a prefix of 1 to 64 letters, digits and :_.- for its keys";
            return Err(invalid(what));
        }
        let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid(FORMS))?;
        let (scheme, cluster) = match scheme {
            "redis" | "rediss" => (scheme, false),
            "redis+cluster" => ("redis", true),
            "rediss+cluster" => ("rediss", true),
            _ => return Err(invalid(FORMS)),
        };
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let hosts: Vec<_> = hosts.split(',').collect();
        if hosts.len() > 1 && !cluster {
            return Err(invalid("names several hosts, which only redis+cluster:// takes"));
        }
        if cluster && !database.is_empty() {
            return Err(invalid("names a database, of which a cluster has only one"));
        }
        if ca_file.is_some() && scheme != "rediss" {
            return Err(invalid("has a ca_file, which only rediss:// and rediss+cluster:// use"));
        }
        let password = password_file.map(|file| read(file, "password file")).transpose()?;
        let authorities = ca_file.map(|file| read(file, "ca_file")).transpose()?;
        let authorities = authorities.map(String::into_bytes);
        let node = |host: &&str| {
            // The library's error shows the address, which may contain the password.
            let info = format!("{scheme}://{login}@{host}/{database}").into_connection_info();
            let mut info = info.map_err(|_| invalid(FORMS))?;
            if let Some(password) = &password {
                let password = password.trim_end_matches(['\r', '\n']);
                let login = info.redis_settings().clone().set_password(password);
                info = info.set_redis_settings(login);
            }
            let Some(authorities) = &authorities else { return Ok(info) };
            let root_cert = Some(authorities.clone());
            let trusting = TlsCertificates { client_tls: None, root_cert };
            let trusting = Client::build_with_tls(info, trusting);
            let trusting = trusting.map_err(|_| invalid("has a ca_file without certificates"))?;
            Ok(trusting.get_connection_info().clone())
        };
        let nodes = hosts.iter().map(node).collect::<Result<_, _>>()?;
        Ok(Self { nodes, authorities, cluster, prefix: prefix.to_owned() })
    }

    /// Returns the hosts and ports of the servers that are reached over TLS.
    pub fn tls_servers(&self) -> Vec<(String, u16)> {
        let over_tls = |node: &ConnectionInfo| match node.addr() {
            ConnectionAddr::TcpTls { host, port, .. } => Some((host.clone(), *port)),
            _ => None,
        };
        self.nodes.iter().filter_map(over_tls).collect()
    }
}

fn read(file: &Path, what: &str) -> Result<String, InvalidRedisSettings> {
    fs::read_to_string(file).map_err(|error| {
        let file = file.display();
        InvalidRedisSettings(format!("has a {what} {file} that cannot be read: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<RedisSettings, InvalidRedisSettings> {
        RedisSettings::parse(url, "punctual", None, None)
    }

    #[test]
    fn addresses() {
        let one = parse("rediss://me:secret@redis.internal:7000/2").expect("valid");
        assert_eq!(one.nodes[0].addr().to_string(), "redis.internal:7000");
        let login = one.nodes[0].redis_settings();
        assert_eq!((login.username(), login.password()), (Some("me"), Some("secret")));
        assert_eq!((login.db(), one.cluster), (2, false));
        let many = parse("redis+cluster://:secret@a:7000,b:7001").expect("valid");
        assert_eq!((many.nodes.len(), many.cluster), (2, true));
        assert_eq!(many.nodes[1].redis_settings().password(), Some("secret"));
        assert!(!format!("{one:?}{many:?}").contains("secret"));
        assert_eq!(one.tls_servers(), [("redis.internal".to_owned(), 7000)]);
        assert!(many.tls_servers().is_empty());
    }

    #[test]
    fn the_password_of_a_file_goes_first() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), "from the file\n").expect("written");
        let read =
            RedisSettings::parse("redis://:other@h", "p", Some(file.path()), None).expect("valid");
        assert_eq!(read.nodes[0].redis_settings().password(), Some("from the file"));
        let missing = RedisSettings::parse("redis://h", "p", Some(Path::new("/no/such")), None);
        let said = missing.expect_err("there is none").to_string();
        assert!(said.starts_with("has a password file /no/such that cannot be read: "), "{said}");
    }

    #[test]
    fn refusals_say_what_to_do_and_show_no_password() {
        for url in ["", "h:1", "http://:secret@h", "redis://:secret@h:port", "redis://:secret@"] {
            assert_eq!(parse(url).expect_err(url).to_string(), FORMS);
        }
        let several = parse("redis://:secret@a,b").expect_err("one server").to_string();
        assert_eq!(several, "names several hosts, which only redis+cluster:// takes");
        let plain = RedisSettings::parse("redis://h", "p", None, Some(Path::new("/no/such")));
        assert!(plain.expect_err("no TLS").to_string().contains("only rediss://"));
        assert!(RedisSettings::parse("redis://h", "a{b}", None, None).is_err());
    }
}
