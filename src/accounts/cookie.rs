//! The session cookie of the dashboard. The API never reads it: API calls authenticate with a
//! key, and a cookie beside the key has no effect.

use std::time::Duration;

use crate::domain::token::Token;

/// The name of the cookie. Because of the prefix, browsers accept it only from this host, over TLS,
/// for all paths.
pub const SESSION_COOKIE: &str = "__Host-punctual";

/// Returns the `Set-Cookie` value that keeps a session for `lifetime`. Scripts cannot read the
/// cookie, and browsers do not send it with requests from other sites.
pub fn session_cookie(token: &Token, lifetime: Duration) -> String {
    cookie(token.reveal(), lifetime.as_secs())
}

/// Returns the `Set-Cookie` value that deletes the session cookie.
pub fn no_session_cookie() -> String {
    cookie("", 0)
}

/// Returns the session token from the `Cookie` headers of a request. Returns `None` if there are
/// several, because the owner would be ambiguous.
pub fn session_of<'a>(headers: impl IntoIterator<Item = &'a str>) -> Option<Token> {
    let pairs = headers.into_iter().flat_map(|header| header.split(';'));
    let named = pairs.filter_map(|pair| pair.trim_matches([' ', '\t']).split_once('='));
    let mut values = named.filter(|(name, _)| *name == SESSION_COOKIE).map(|(_, value)| value);
    let value = values.next()?;
    if values.next().is_some() { None } else { value.parse().ok() }
}

fn cookie(value: &str, max_age_seconds: u64) -> String {
    format!(
        "{SESSION_COOKIE}={value}; Path=/; Max-Age={max_age_seconds}; Secure; HttpOnly; \
         SameSite=Strict"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token::new(|bytes| bytes.fill(7))
    }

    #[test]
    fn a_cookie_is_for_this_host_over_tls_and_not_for_scripts() {
        let cookie = session_cookie(&token(), Duration::from_secs(3_600));
        let text = token().reveal().to_owned();
        let expected = format!(
            "__Host-punctual={text}; Path=/; Max-Age=3600; Secure; HttpOnly; SameSite=Strict"
        );
        assert_eq!(cookie, expected);
        assert!(!cookie.contains("Domain"), "the prefix forbids it");
        let gone = "__Host-punctual=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict";
        assert_eq!(no_session_cookie(), gone);
    }

    #[test]
    fn the_session_is_found_among_others() {
        let pair = format!("{SESSION_COOKIE}={}", token().reveal());
        let found = |headers: &[&str]| session_of(headers.iter().copied());
        assert_eq!(found(&[&pair]), Some(token()));
        assert_eq!(found(&["a=b", &format!("c=d; {pair};e=f")]), Some(token()));
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[&pair.replace("__Host-", "__host-")]), None);
        assert_eq!(found(&[&format!("{pair}; {pair}")]), None);
        assert_eq!(found(&[&pair, &pair]), None);
        assert_eq!(found(&[&format!("{SESSION_COOKIE}=short")]), None);
    }
}
