//! Where etcd is, and who this replica is to the others.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use percent_encoding::percent_decode_str;

/// Who this replica is, and where the others are to be found.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where etcd is.
    pub servers: ServerSettings,
    /// This replica's name, unlike that of any other, also of one that ran before.
    pub name: String,
    /// Whether it leads shards.
    pub leads: bool,
    /// Whether it runs jobs.
    pub executes: bool,
    /// How many shards there are.
    pub shards: u16,
    /// The identity of the store that all replicas share. Replicas of another store do not lead
    /// under the same prefix.
    pub installation: String,
    /// How long a replica that is gone keeps its shards, at least 2 s. It trusts itself for a part
    /// of that.
    pub lease_time: Duration,
}

/// Where etcd is, how to log in, and what the keys begin with.
#[derive(Clone)]
pub struct ServerSettings {
    /// Each `http://` or `https://` with host and port.
    pub(super) endpoints: Vec<String>,
    pub(super) login: Option<(String, String)>,
    /// The authorities to trust (PEM), instead of those of the public web.
    pub(super) authorities: Option<String>,
    /// Without a slash at its end.
    pub(super) prefix: String,
}

/// Without the password.
impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings")
            .field("endpoints", &self.endpoints)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// What is wrong with a setting, as the end of a sentence that begins with its name. Never shows a
/// password.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSettings(String);

const FORMS: &str = "must be etcd://HOST:PORT,HOST:PORT/PREFIX, or etcds:// for TLS; \
                     USER:PASSWORD@ may stand before the first host, percent-encoded";
/// What the keys begin with if the address does not say.
const PREFIX: &str = "punctual";

impl ServerSettings {
    /// The authorities (PEM) that are trusted instead of those of the public web.
    pub fn authorities(&self) -> Option<&[u8]> {
        self.authorities.as_deref().map(str::as_bytes)
    }

    /// Reads the address `url`. The password of `password_file` goes before that of the address.
    /// With TLS the authorities in `ca_file` (PEM) are trusted, or those of the public web if there
    /// is none.
    ///
    /// # Errors
    /// If one of them cannot be used, with what to do about it.
    pub fn parse(
        url: &str,
        password_file: Option<&Path>,
        ca_file: Option<&Path>,
    ) -> Result<Self, InvalidSettings> {
        let forms = || InvalidSettings(FORMS.to_owned());
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
            return Err(InvalidSettings(what.to_owned()));
        }
        if scheme == "http" && ca_file.is_some() {
            return Err(InvalidSettings("has a ca_file, which only etcds:// uses".to_owned()));
        }
        let authorities = ca_file.map(|file| read(file, "ca_file")).transpose()?;
        let prefix = prefix.trim_end_matches('/');
        let prefix = if prefix.is_empty() { PREFIX } else { prefix }.to_owned();
        Ok(Self { endpoints: endpoints.ok_or_else(forms)?, login, authorities, prefix })
    }
}

impl ServerSettings {
    /// The servers that are reached over TLS: their hosts and ports.
    pub fn tls_servers(&self) -> Vec<(String, u16)> {
        let server = |endpoint: &String| {
            let url = url::Url::parse(endpoint).ok().filter(|url| url.scheme() == "https")?;
            Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
        };
        self.endpoints.iter().filter_map(server).collect()
    }
}

fn read(file: &Path, what: &str) -> Result<String, InvalidSettings> {
    fs::read_to_string(file).map_err(|error| {
        let file = file.display();
        InvalidSettings(format!("has a {what} {file} that cannot be read: {error}"))
    })
}

fn read_login(
    login: &str,
    password_file: Option<&Path>,
) -> Result<(String, String), InvalidSettings> {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let decode = |text| {
        let decoded = percent_decode_str(text).decode_utf8();
        decoded.map(String::from).map_err(|_| InvalidSettings(FORMS.to_owned()))
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

    fn parse(url: &str) -> Result<ServerSettings, InvalidSettings> {
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
        let nobody =
            ServerSettings::parse("etcd://a:1", Some(file.path()), None).expect_err("no user");
        assert!(nobody.to_string().contains("names no user"));
    }

    #[test]
    fn refusals_say_what_to_do_and_show_no_password() {
        for url in ["", "a:1", "http://a:1", "etcd://", "etcd://u:secret@a", "etcd://a:1,,b:1"] {
            assert_eq!(parse(url).expect_err(url).to_string(), FORMS);
        }
    }
}
