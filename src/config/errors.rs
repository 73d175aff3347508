//! The mistakes in a configuration, reported all at once.

use std::fmt;

/// One mistake in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(String);

impl ConfigError {
    /// Creates a mistake: `what` is wrong with the setting, file or variable called `name`.
    pub(super) fn new(name: &str, what: &str) -> Self {
        // Names can come from a file or the environment. Control characters in them must not break
        // the list of mistakes.
        let name: String = name.chars().flat_map(printable).collect();
        Self(format!("{name}: {what}"))
    }
}

fn printable(letter: char) -> impl Iterator<Item = char> {
    let (escaped, plain) = if letter.is_control() {
        (Some(letter.escape_default()), None)
    } else {
        (None, Some(letter))
    };
    escaped.into_iter().flatten().chain(plain)
}

/// All mistakes, one per line. Secrets in values are hidden.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(f, "a mistake in the configuration:")?,
            count => write!(f, "{count} mistakes in the configuration:")?,
        }
        self.0.iter().try_for_each(|ConfigError(text)| write!(f, "\n  {text}"))
    }
}

/// Replaces the passwords in `url`, if there are any, with `***`.
pub(super) fn without_password(url: &str) -> String {
    let shown = without_login(url);
    let Some((address, query)) = shown.split_once('?') else { return shown };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if name.to_ascii_lowercase().ends_with("password") => format!("{name}=***"),
        _ => pair.to_owned(),
    });
    format!("{address}?{}", pairs.collect::<Vec<_>>().join("&"))
}

fn without_login(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // The URL is malformed, but the part before the @ may still contain a user and a password.
        return match url.rfind('@').filter(|_| !url.starts_with("sqlite:")) {
            Some(at) => format!("***{}", &url[at..]),
            None => url.to_owned(),
        };
    };
    // The user part ends at the last @ before the path, because the password may contain an @.
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let end = rest.rfind('@').filter(|at| *at < authority.len()).or_else(|| rest.rfind('@'));
    match end.and_then(|at| Some((rest[..at].split_once(':')?.0, &rest[at..]))) {
        Some((user, host)) => format!("{scheme}://{user}:***{host}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden() {
        for (url, shown) in [
            ("postgres://me:secret@db/x", "postgres://me:***@db/x"),
            ("redis://:secret@host:6379", "redis://:***@host:6379"),
            ("postgres://me:se/c@ret@db/x", "postgres://me:***@db/x"),
            ("postgres://me@db/x", "postgres://me@db/x"),
            ("postgres://me@db/x?a=b&password=se@cret&c", "postgres://me@db/x?a=b&password=***&c"),
            ("postgres://me:secret@db?sslPassword=secret", "postgres://me:***@db?sslPassword=***"),
            ("postgres:me:secret@db/x", "***@db/x"),
            ("//me:secret@db/x", "***@db/x"),
            ("sqlite:/var/lib/a:b@c.db", "sqlite:/var/lib/a:b@c.db"),
            ("memory:", "memory:"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
