//! Checks that the OpenID provider answers and that its discovery document fits the settings.

use std::time::Duration;

use super::Diagnosis;
use crate::accounts::OidcError;
use crate::app::provider;
use crate::config::Config;
use crate::domain::finding::Finding;
use crate::runtime::{Clock, Random, Tasks};

/// Fetches the discovery document and the keys of the provider. Returns `None` if no provider is
/// configured.
pub(super) async fn check_up(config: &Config, clock: &Clock) -> Option<Diagnosis> {
    let issuer = &config.oidc.as_ref()?.issuer;
    let tasks = Tasks::new();
    let finding = match provider(config, clock, &Random::system(), &tasks) {
        Ok(provider) => match provider?.check_up().await {
            Ok(()) => Finding::good(format!("{issuer} answers, and its keys can be read")),
            Err(error) => of_error(&error),
        },
        Err(error) => Finding::failure(error.to_string()),
    };
    tasks.finish(Duration::ZERO).await;
    Some(Diagnosis { setting: "oidc.issuer", finding })
}

/// Reports an error. An error that may be temporary is only a warning: users can sign in with the
/// provider once it answers, and with passwords until then.
fn of_error(error: &OidcError) -> Finding {
    match error {
        OidcError::Unreachable(_) => Finding::warning(format!(
            "{error}: check oidc.issuer, whether a firewall blocks the connection, and \
             outbound.ca_files"
        )),
        // The text names the setting.
        OidcError::SecretFile(_) => Finding::failure(error.to_string()),
        _ => Finding::failure(format!("{error}: check oidc.issuer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::finding::Grade;

    #[test]
    fn errors_name_the_setting_to_check() {
        let unreadable = of_error(&OidcError::SecretFile("no such file".to_owned()));
        assert_eq!(unreadable.grade, Grade::Failure);
        assert!(unreadable.text.contains("oidc.client_secret_file"), "{}", unreadable.text);
        assert!(!unreadable.text.contains("oidc.issuer"), "{}", unreadable.text);
        let away = of_error(&OidcError::Unreachable("timed out".to_owned()));
        assert_eq!(away.grade, Grade::Warning);
        assert!(away.text.contains("oidc.issuer"), "{}", away.text);
    }
}
