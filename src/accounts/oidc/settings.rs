//! The settings of the provider.

use std::fmt;
use std::path::PathBuf;

use crate::domain::AccountId;
use crate::domain::endpoint::{Endpoint, Host};
use crate::domain::user::Role;

/// The OpenID Connect provider, and this installation as its client.
#[derive(Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// The URL of the provider, exactly as its documents and tokens state it.
    pub issuer: String,
    /// The id of this installation at the provider.
    pub client_id: String,
    /// The secret that belongs to the id.
    pub client_secret: String,
    /// A file with the secret, used instead of `client_secret`. It is read for each sign-in, so a
    /// changed secret takes effect without a restart.
    pub client_secret_file: Option<PathBuf>,
    /// The name of the provider on the pages.
    pub name: String,
    /// The scopes to ask for, separated by spaces.
    pub scopes: String,
    /// The URL to which the provider sends the browser back.
    pub redirect_url: String,
    /// The rule by which new users join an account, if there is one.
    pub join: Option<OidcJoinSettings>,
}

/// The rule by which a new user joins an account: an ID token with this claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcJoinSettings {
    /// The name of the claim.
    pub claim: String,
    /// The value that the claim has, or that its list contains.
    pub value: String,
    /// The account.
    pub account: AccountId,
    /// The role that the user gets.
    pub role: Role,
}

impl OidcSettings {
    /// Checks the URL of a provider, which is compared exactly and therefore not normalized.
    ///
    /// # Errors
    /// If the URL has a query, or is neither `https` nor on this machine.
    pub fn check_issuer(text: &str) -> Result<(), String> {
        let is_plain = !text.contains(['?', '#']);
        if is_plain && is_protected(text) {
            return Ok(());
        }
        Err("must be the https:// URL of the provider, without a query, such as \
             https://id.example.com; http:// is allowed on this machine only"
            .to_owned())
    }
}

impl fmt::Debug for OidcSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OidcSettings")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .field("redirect_url", &self.redirect_url)
            .finish_non_exhaustive()
    }
}

/// Returns `true` if a URL is called over TLS, or within this machine.
pub(super) fn is_protected(url: &str) -> bool {
    let Ok(endpoint) = Endpoint::parse(url) else { return false };
    endpoint.is_https()
        || match endpoint.host() {
            Host::Address(address) => address.to_canonical().is_loopback(),
            Host::Name(name) => &**name == "localhost" || name.ends_with(".localhost"),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_called_over_tls_or_on_this_machine() {
        for good in [
            "https://id.example.com",
            "https://id.example.com/realms/a/",
            "https://10.0.0.1:8443",
            "http://127.0.0.1:8080",
            "http://[::1]",
            "http://localhost:8080/a",
        ] {
            assert_eq!(OidcSettings::check_issuer(good), Ok(()), "{good}");
        }
        for wrong in [
            "",
            "id.example.com",
            "http://id.example.com",
            "http://10.0.0.1",
            "http://localhost.example",
            "https://id.example.com?a",
            "https://id.example.com#a",
            "https://a:b@id.example.com",
            "ftp://id.example.com",
        ] {
            assert!(OidcSettings::check_issuer(wrong).is_err(), "{wrong}");
        }
    }
}
