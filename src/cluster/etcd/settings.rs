//! The settings of the etcd servers, and of this replica as a member.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use percent_encoding::percent_decode_str;

/// The settings of a replica's membership.
#[derive(Clone, Debug)]
pub struct EtcdSettings {
    /// The etcd servers.
    pub servers: ServerSettings,
    /// The name of this replica. It must differ from the names of all other replicas, including
    /// earlier ones.
    pub name: String,
    /// `true` if this replica leads shards.
    pub leads: bool,
    /// `true` if this replica executes jobs.
    pub executes: bool,
    /// The number of shards.
    pub shards: u16,
    /// The id of the store that all replicas share. Replicas of another store cannot lead under
    /// the same prefix.
    pub installation: String,
    /// The time for which a lost replica keeps its shards; at least 2 s. The replica trusts its
    /// terms for only a part of this time.
    pub lease_time: Duration,
}

/// The etcd servers, the login and the prefix of the keys.
#[derive(Clone)]
pub struct ServerSettings {
    /// URLs of the form `http://HOST:PORT` or `https://HOST:PORT`.
    pub(super) endpoints: Vec<String>,
    /// The user and the password.
    pub(super) login: Option<(String, String)>,
    /// The trusted certificate authorities (PEM), instead of the public ones.
    pub(super) authorities: Option<String>,
    /// The prefix of all keys, without a trailing slash.
    pub(super) prefix: String,
}

/// Omits the login, so that no log contains the password.
impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings")
            .field("endpoints", &self.endpoints)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// The problem of a setting, as the end of a sentence that begins with the setting's name. It never
/// contains a password.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidEtcdSettings(String);

const FORMS: &str = "must be etcd://HOST:PORT,HOST:PORT/PREFIX, or etcds:// for TLS; \
                     USER:PASSWORD@ may stand before the first host, percent-encoded";
/// The prefix of the keys if the URL has none.
const PREFIX: &str = "punctual";

impl ServerSettings {
    /// Returns the certificate authorities (PEM) that are trusted instead of the public ones.
    pub fn authorities(&self) -> Option<&[u8]> {
        self.authorities.as_deref().map(str::as_bytes)
    }

    /// Parses `url`. The password in `password_file` takes precedence over the one in the URL. With
    /// TLS, the authorities in `ca_file` (PEM) are trusted, or the public ones if there is no file.
    ///
    /// # Errors
    /// If one of the arguments cannot be used. The message names a remedy.
    pub fn parse(
        url: &str,
        password_file: Option<&Path>,
        ca_file: Option<&Path>,
    ) -> Result<Self, InvalidEtcdSettings> {
        let forms = || InvalidEtcdSettings(FORMS.to_owned());
        let (scheme, rest) = match url.split_once("://") {
            Some(("etcd", rest)) => ("http", rest),
            Some(("etcds", rest)) => ("https", rest),
            _ => return Err(forms()),
        };
        let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let endpoint = |host: &str| {
            let endpoint = format!("{scheme}://{host}");
            let parsed = url::Url::parse(&endpoint).ok()?;
            let plain = parsed.port().is_some() && matches!(parsed.path(), "" | "/");
            (plain && parsed.query().is_none()).then_some(endpoint)
        };
        let endpoints = hosts.split(',').map(endpoint).collect::<Option<Vec<_>>>();
        let login = login.map(|login| read_login(login, password_file)).transpose()?;
        if login.is_none() && password_file.is_some() {
            let what = "has a password file, but names no user: put USER@ before the first host";
            return Err(InvalidEtcdSettings(what.to_owned()));
        }
        if scheme == "http" && ca_file.is_some() {
            return Err(InvalidEtcdSettings("has a ca_file, which only etcds:// uses".to_owned()));
        }
        let authorities = ca_file.map(|file| read(file, "ca_file")).transpose()?;
        let prefix = prefix.trim_end_matches('/');
        let prefix = if prefix.is_empty() { PREFIX } else { prefix }.to_owned();
        Ok(Self { endpoints: endpoints.ok_or_else(forms)?, login, authorities, prefix })
    }
}

impl ServerSettings {
    /// Returns the hosts and ports of the servers that use TLS.
    pub fn tls_servers(&self) -> Vec<(String, u16)> {
        let server = |endpoint: &String| {
            let url = url::Url::parse(endpoint).ok().filter(|url| url.scheme() == "https")?;
            Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
        };
        self.endpoints.iter().filter_map(server).collect()
    }
}

fn read(file: &Path, what: &str) -> Result<String, InvalidEtcdSettings> {
    fs::read_to_string(file).map_err(|error| {
        let file = file.display();
        InvalidEtcdSettings(format!("has a {what} {file} that cannot be read: {error}"))
    })
}

fn read_login(
    login: &str,
    password_file: Option<&Path>,
) -> Result<(String, String), InvalidEtcdSettings> {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let decode = |text| {
        let decoded = percent_decode_str(text).decode_utf8();
        decoded.map(String::from).map_err(|_| InvalidEtcdSettings(FORMS.to_owned()))
    };
    let password = match password_file {
        Some(file) => read(file, "password file")?.trim_end_matches(['\r', '\n']).to_owned(),
        None => decode(password)?,
    };
    Ok((decode(user)?, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<ServerSettings, InvalidEtcdSettings> {
        ServerSettings::parse(url, None, None)
    }

    #[test]
    fn addresses() {
        let several =
            parse("etcd://a:2379,10.0.0.1:2379,[::1]:2379/team/punctual/").expect("valid");
        let endpoints = ["http://a:2379", "http://10.0.0.1:2379", "http://[::1]:2379"];
        assert_eq!(several.endpoints, endpoints);
        assert_eq!((several.prefix.as_str(), several.login.as_ref()), ("team/punctual", None));
        let secure = parse("etcds://me:se%40cret@a:2379").expect("valid");
        assert_eq!(secure.endpoints, ["https://a:2379"]);
        assert_eq!(secure.prefix, PREFIX);
        assert_eq!(secure.tls_servers(), [("a".to_owned(), 2379)]);
        assert!(several.tls_servers().is_empty());
        assert!(!format!("{secure:?}").contains("cret"));
        assert_eq!(secure.login, Some(("me".to_owned(), "se@cret".to_owned())));
    }

    #[test]
    fn the_password_of_a_file_goes_first() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), "from the file\n").expect("written");
        let read = ServerSettings::parse("etcd://me@a:1", Some(file.path()), None).expect("valid");
        assert_eq!(read.login, Some(("me".to_owned(), "from the file".to_owned())));
        let empty =
            ServerSettings::parse("etcd://a:1", Some(file.path()), None).expect_err("no user");
        assert!(empty.to_string().contains("names no user"));
    }

    #[test]
    fn refusals_say_what_to_do_and_show_no_password() {
        for url in ["", "a:1", "http://a:1", "etcd://", "etcd://u:secret@a", "etcd://a:1,,b:1"] {
            assert_eq!(parse(url).expect_err(url).to_string(), FORMS);
        }
    }
}
