//! The discovery document of a provider (OpenID Connect Discovery 1.0).

use serde::Deserialize;

use super::error::OidcError;
use super::settings::is_protected;

/// The path of the discovery document below the provider's URL.
const PATH: &str = "/.well-known/openid-configuration";

/// The endpoints of a provider, from its discovery document.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct ProviderMetadata {
    issuer: String,
    /// The page at which people sign in.
    pub(super) authorization_endpoint: String,
    /// The endpoint that exchanges codes for tokens.
    pub(super) token_endpoint: String,
    /// The URL of the public keys.
    pub(super) jwks_uri: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// Returns the URL of a provider's discovery document.
pub(super) fn address(issuer: &str) -> String {
    format!("{}{PATH}", issuer.trim_end_matches('/'))
}

impl ProviderMetadata {
    /// Reads a discovery document. Its issuer must be exactly `issuer`: otherwise one provider
    /// could speak for another.
    pub(super) fn read(body: &[u8], issuer: &str) -> Result<Self, OidcError> {
        let metadata: Self = serde_json::from_slice(body).map_err(|error| {
            OidcError::Unusable(format!("{} is not a discovery document: {error}", address(issuer)))
        })?;
        if metadata.issuer != issuer {
            let its: String = metadata.issuer.chars().take(200).collect();
            let what = format!("oidc.issuer is {issuer:?}, but it calls itself {its:?}");
            return Err(OidcError::Unusable(what));
        }
        for (name, url) in [
            ("authorization_endpoint", &metadata.authorization_endpoint),
            ("token_endpoint", &metadata.token_endpoint),
            ("jwks_uri", &metadata.jwks_uri),
        ] {
            if !is_protected(url) {
                return Err(OidcError::Unusable(format!("its {name} is not an https:// URL")));
            }
        }
        Ok(metadata)
    }

    /// Returns `true` if the client's secret is sent in a header, which is the default, and not in
    /// the form.
    pub(super) fn takes_basic(&self) -> bool {
        let methods = self.token_endpoint_auth_methods_supported.as_deref();
        let has = |name: &str| methods.is_some_and(|all| all.iter().any(|method| method == name));
        has("client_secret_basic") || !has("client_secret_post")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ISSUER: &str = "https://id.example/realm/";

    fn description() -> Value {
        json!({
            "issuer": ISSUER,
            "authorization_endpoint": "https://id.example/authorize",
            "token_endpoint": "https://id.example/token",
            "jwks_uri": "https://id.example/keys",
            "other": [1],
        })
    }

    fn read(description: &Value) -> Result<ProviderMetadata, String> {
        let read = ProviderMetadata::read(description.to_string().as_bytes(), ISSUER);
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn a_description_is_of_the_configured_provider_only() {
        assert!(read(&description()).is_ok());
        assert_eq!(address(ISSUER), "https://id.example/realm/.well-known/openid-configuration");
        for (name, value, why) in [
            ("issuer", json!("https://id.example/realm"), "it calls itself"),
            ("issuer", json!("https://evil.example"), "it calls itself"),
            ("token_endpoint", json!("http://id.example/token"), "token_endpoint is not"),
            ("jwks_uri", json!("file:///keys"), "jwks_uri is not"),
            ("authorization_endpoint", Value::Null, "is not a discovery document"),
        ] {
            let mut wrong = description();
            wrong[name] = value;
            let error = read(&wrong).expect_err(name);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn the_secret_goes_where_the_provider_takes_it() {
        let takes_basic = |methods: Value| {
            let mut description = description();
            description["token_endpoint_auth_methods_supported"] = methods;
            read(&description).expect("read").takes_basic()
        };
        assert!(takes_basic(Value::Null));
        assert!(takes_basic(json!(["client_secret_post", "client_secret_basic"])));
        assert!(!takes_basic(json!(["private_key_jwt", "client_secret_post"])));
    }
}
