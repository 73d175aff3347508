//! The cookies of the dashboard, beside that of the session.

use http::{HeaderMap, HeaderValue, header};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::accounts::OidcSignIn;
use crate::domain::AccountId;

/// The selected account, if the user is a member of several.
pub(super) const ACCOUNT: &str = "__Host-punctual-account";
/// The sign-in with the OpenID provider that the browser has started, and the page to show
/// afterwards.
const SIGN_IN: &str = "__Host-punctual-sign-in";
/// The visitor's time zone, which the script sets.
pub(super) const ZONE: &str = "punctual-zone";

/// The lifetime of a choice, in seconds: one year.
const YEAR: u32 = 31_536_000;

/// The maximum duration of a sign-in at the provider, in seconds.
const SIGN_IN_FOR: u32 = 600;
/// The maximum length of the path of the page to show after a sign-in, in bytes.
const MAX_NEXT: usize = 1_024;

/// Returns the value of a cookie.
pub(super) fn value_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    texts(headers)
        .flat_map(|header| header.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(its, value)| (its == name).then_some(value))
}

/// Returns the `Cookie` headers.
pub(super) fn texts(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers.get_all(header::COOKIE).into_iter().filter_map(|header| header.to_str().ok())
}

/// Returns the cookie by which the visitor chooses an account.
pub(super) fn of_account(account: AccountId) -> HeaderValue {
    let cookie =
        format!("{ACCOUNT}={account}; Path=/; Max-Age={YEAR}; Secure; HttpOnly; SameSite=Lax");
    HeaderValue::try_from(cookie).expect("an id is made of letters and digits")
}

/// Returns the cookie that binds a sign-in at the provider to this browser. It is `Lax`, because a
/// browser that comes back from the site of the provider sends no `Strict` cookies.
pub(super) fn of_sign_in(attempt: &OidcSignIn, next: &str) -> HeaderValue {
    let next = if next.len() > MAX_NEXT { "" } else { next };
    let value = format!("{}.{}", attempt.reveal(), URL_SAFE_NO_PAD.encode(next));
    sign_in_cookie(&value, SIGN_IN_FOR)
}

/// Returns the cookie that ends a sign-in at the provider.
pub(super) fn no_sign_in() -> HeaderValue {
    sign_in_cookie("", 0)
}

fn sign_in_cookie(value: &str, max_age: u32) -> HeaderValue {
    let cookie =
        format!("{SIGN_IN}={value}; Path=/; Max-Age={max_age}; Secure; HttpOnly; SameSite=Lax");
    HeaderValue::try_from(cookie).expect("a cookie is made of printable letters")
}

/// Returns the sign-in at the provider that the browser has started, and the page to show
/// afterwards.
pub(super) fn sign_in_of(headers: &HeaderMap) -> Option<(OidcSignIn, String)> {
    let (attempt, next) = value_of(headers, SIGN_IN)?.split_once('.')?;
    let next = URL_SAFE_NO_PAD.decode(next).ok()?;
    Some((attempt.parse().ok()?, String::from_utf8(next).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::token::Token;

    #[test]
    fn a_sign_in_is_found_again() {
        let attempt = OidcSignIn::new(Token::new(|bytes| bytes.fill(7)));
        let found = |cookie: &HeaderValue| {
            let (pair, _) = cookie.to_str().expect("a text").split_once(';').expect("a pair");
            let headers = [(header::COOKIE, HeaderValue::from_str(pair).expect("a header"))];
            sign_in_of(&HeaderMap::from_iter(headers))
        };
        let cookie = of_sign_in(&attempt, "/dashboard/jobs?a=b;c");
        let text = cookie.to_str().expect("a text");
        assert!(text.ends_with("; Path=/; Max-Age=600; Secure; HttpOnly; SameSite=Lax"), "{text}");
        let (read, next) = found(&cookie).expect("found");
        assert_eq!((read.reveal(), &*next), (attempt.reveal(), "/dashboard/jobs?a=b;c"));
        let (_, next) = found(&of_sign_in(&attempt, &"/".repeat(2_000))).expect("found");
        assert_eq!(next, "");
        assert!(found(&no_sign_in()).is_none());
        assert!(found(&HeaderValue::from_static("__Host-punctual-sign-in=a.b; x")).is_none());
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=1; punctual-zone=Europe/Paris"));
        headers.append(header::COOKIE, HeaderValue::from_static("b=2"));
        assert_eq!(value_of(&headers, ZONE), Some("Europe/Paris"));
        assert_eq!(value_of(&headers, "b"), Some("2"));
        assert_eq!(value_of(&headers, ACCOUNT), None);
    }
}
