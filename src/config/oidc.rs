//! The settings of the OpenID provider.

use super::reader::{ParseResult, SettingsReader, SourceValue, text};
use super::stores::file;
use crate::accounts::{OidcJoinSettings, OidcSettings};
use crate::domain::AccountId;
use crate::domain::user::Role;

/// The path to which the provider sends the browser back, below the public URL.
const CALLBACK: &str = "dashboard/oidc/callback";
/// The scope without which a provider returns no ID token.
const SCOPE: &str = "openid";

/// Reads the settings of the provider. Returns `None` if none is configured.
pub(super) fn read(reader: &mut SettingsReader, public_url: Option<&str>) -> Option<OidcSettings> {
    let before = reader.error_count();
    let issuer = reader.read("oidc.issuer", issuer);
    let is_valid = reader.error_count() == before;
    let settings = OidcSettings {
        client_id: reader.read("oidc.client_id", text),
        client_secret: reader.read("oidc.client_secret", text),
        client_secret_file: reader.read("oidc.client_secret_file", file),
        name: reader.read("oidc.name", name),
        scopes: reader.read("oidc.scopes", scopes),
        redirect_url: format!("{}/{CALLBACK}", public_url.unwrap_or_default()),
        join: read_join(reader),
        issuer,
    };
    if settings.issuer.is_empty() || !is_valid {
        return None;
    }
    if public_url.is_none() {
        let why = "needs http.public_url, the address to which the provider redirects the browser";
        reader.mistake("oidc.issuer", why);
    }
    if settings.client_id.is_empty() {
        reader.mistake("oidc.client_id", "must be set beside oidc.issuer");
    }
    match (settings.client_secret.is_empty(), &settings.client_secret_file) {
        (true, None) => {
            let why = "must be set beside oidc.issuer, unless oidc.client_secret_file is";
            reader.mistake("oidc.client_secret", why);
        }
        (false, Some(_)) => {
            let why = "cannot be set beside oidc.client_secret: keep one of them";
            reader.mistake("oidc.client_secret_file", why);
        }
        _ => {}
    }
    Some(settings)
}

/// Reads the rule by which new users join an account. Returns `None` if there is none.
fn read_join(reader: &mut SettingsReader) -> Option<OidcJoinSettings> {
    let claim = reader.read("oidc.join_claim", text);
    let value = reader.read("oidc.join_value", text);
    let account = reader.read("oidc.join_account", account);
    let role = reader.read("oidc.join_role", role);
    if claim.is_empty() {
        return None;
    }
    if value.is_empty() {
        reader.mistake("oidc.join_value", "must be set beside oidc.join_claim");
    }
    if account.is_none() {
        reader.mistake("oidc.join_account", "must be set beside oidc.join_claim");
    }
    Some(OidcJoinSettings { claim, value, account: account?, role })
}

fn issuer(raw: &SourceValue) -> ParseResult<String> {
    let text = text(raw)?;
    if text.is_empty() { Ok(text) } else { OidcSettings::check_issuer(&text).map(|()| text) }
}

fn name(raw: &SourceValue) -> ParseResult<String> {
    let text = text(raw)?;
    let is_name = (1..=40).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    if is_name { Ok(text) } else { Err("must have 1 to 40 printable characters".to_owned()) }
}

fn scopes(raw: &SourceValue) -> ParseResult<String> {
    let text = text(raw)?;
    if text.split(' ').any(|scope| scope == SCOPE) {
        Ok(text)
    } else {
        Err(format!("must be scopes separated by spaces, with {SCOPE} among them"))
    }
}

fn account(raw: &SourceValue) -> ParseResult<Option<AccountId>> {
    let text = text(raw)?;
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = |_| "must be the id of an account, such as \"punctual account list\" shows";
    text.parse().map(Some).map_err(|error| wrong(error).to_owned())
}

fn role(raw: &SourceValue) -> ParseResult<Role> {
    text(raw)?.parse().map_err(|_| "must be viewer, member or owner".to_owned())
}

#[cfg(test)]
mod tests {
    use crate::config::{Sources, load};

    const ACCOUNT: &str = "acc_01HF7YAT000000000000000007";

    /// Returns the result with these settings beside valid ones. The keys are without `oidc.`.
    fn read(given: &[(&'static str, &str)]) -> Result<crate::config::Config, String> {
        let options = [
            ("http.public_url", "https://punctual.example/app/"),
            ("oidc.issuer", "https://id.example.com/realm/"),
            ("oidc.client_id", "punctual"),
            ("oidc.client_secret", "hunter2"),
        ];
        let mut options: Vec<_> = options.map(|(key, value)| (key, value.to_owned())).into();
        for (key, value) in given {
            options.retain(|(its, _)| its != key);
            options.push((key, (*value).to_owned()));
        }
        let loaded = load(&Sources { options, ..Sources::default() });
        loaded.map(|loaded| loaded.config).map_err(|mistakes| mistakes.to_string())
    }

    #[test]
    fn a_provider_is_read_as_it_is_written() {
        let config = read(&[]).expect("valid");
        assert!(!format!("{config:?}").contains("hunter2"));
        let oidc = config.oidc.expect("a provider");
        assert_eq!(oidc.issuer, "https://id.example.com/realm/", "a slash at the end counts");
        assert_eq!(oidc.redirect_url, "https://punctual.example/app/dashboard/oidc/callback");
        assert_eq!((oidc.scopes.as_str(), oidc.join), ("openid email profile", None));
        assert_eq!(read(&[("oidc.issuer", "")]).expect("valid").oidc, None);
        let join = [
            ("oidc.join_claim", "groups"),
            ("oidc.join_value", "staff"),
            ("oidc.join_account", ACCOUNT),
        ];
        let join = read(&join).expect("valid").oidc.and_then(|oidc| oidc.join).expect("a rule");
        assert_eq!((join.account.to_string(), join.role.as_str()), (ACCOUNT.to_owned(), "member"));
    }

    #[test]
    fn every_mistake_names_its_setting() {
        for (given, expected) in [
            (vec![("oidc.issuer", "http://id.example.com")], "oidc.issuer = "),
            (vec![("http.public_url", "")], "needs http.public_url"),
            (vec![("oidc.client_id", "")], "oidc.client_id = "),
            (vec![("oidc.client_secret", "")], "oidc.client_secret = "),
            (vec![("oidc.client_secret_file", "/a")], "oidc.client_secret_file = "),
            (vec![("oidc.name", "")], "oidc.name = "),
            (vec![("oidc.scopes", "email")], "oidc.scopes = "),
            (vec![("oidc.join_claim", "a"), ("oidc.join_account", ACCOUNT)], "oidc.join_value = "),
            (vec![("oidc.join_claim", "a"), ("oidc.join_value", "b")], "oidc.join_account = "),
            (vec![("oidc.join_account", "acme")], "oidc.join_account = "),
            (vec![("oidc.join_role", "king")], "oidc.join_role = "),
        ] {
            let said = read(&given).expect_err(expected);
            assert!(said.contains(expected) && !said.contains("hunter2"), "{said}");
        }
    }
}
