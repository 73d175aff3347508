//! Checks that the mail server accepts connections and the login. No mail is sent.

use std::time::Duration;

use super::Diagnosis;
use crate::channels::email::{MailError, MailSettings, Mailer, Security};
use crate::config::Config;
use crate::domain::alert::delivery::DeliveryError;
use crate::domain::finding::Finding;

/// The timeout for connecting and logging in.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Connects and logs in. Returns `None` if no mail server is configured.
pub(super) async fn check_up(config: &Config) -> Option<Diagnosis> {
    let settings = config.mail.clone()?;
    let tried = Mailer::new(settings.clone()).try_out(TIMEOUT).await;
    Some(match tried {
        Ok(()) => Diagnosis { setting: "mail.url", finding: Finding::good(said(&settings)) },
        Err(error) => of_error(&settings, &error),
    })
}

fn said(settings: &MailSettings) -> String {
    let over = match settings.security {
        Security::Tls | Security::StartTls => "over TLS",
        Security::Open => "without TLS",
    };
    let login = if settings.user.is_some() { " and accepts the login" } else { "" };
    format!("{}:{} answers {over}{login}", settings.host, settings.port)
}

/// Reports an error. An error that may be temporary is only a warning: mails wait until the server
/// is available again.
fn of_error(settings: &MailSettings, error: &MailError) -> Diagnosis {
    let server = format!("the mail server {}:{}", settings.host, settings.port);
    let (code, status, reason) = match error {
        MailError::Refused { code, status, reason, .. } => (*code, *status, reason),
        MailError::Password(_) | MailError::Unusable(_) => {
            let finding = Finding::failure(error.to_string());
            return Diagnosis { setting: "mail.password_file", finding };
        }
    };
    let is_passing = status.is_some_and(|status| (400..500).contains(&status));
    let finding = match code {
        _ if error.is_about_login() => Finding::failure(format!(
            "{server} refuses the login: check the user and the password of mail.url or \
             mail.password_file ({reason})"
        )),
        DeliveryError::Tls => Finding::failure(format!(
            "{server} has no trusted certificate: set mail.ca_file to the certificate of its \
             authority ({reason})"
        )),
        DeliveryError::Smtp if !is_passing => Finding::failure(format!(
            "{server} refuses this installation: check mail.url, and what the server allows \
             ({reason})"
        )),
        _ => Finding::warning(format!(
            "{server} does not answer as expected, and mails wait for it: check mail.url, and \
             whether a firewall blocks the connection ({reason})"
        )),
    };
    Diagnosis { setting: "mail.url", finding }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::finding::Grade;

    #[test]
    fn a_temporary_refusal_is_no_failure() {
        let from = "a@example.com".parse().expect("an address");
        let settings = MailSettings::of_url("smtp://mail.example.com", Some(&from)).expect("read");
        let settings = settings.expect("a server");
        let grade = |code, status| {
            let (host, reason) = (settings.host.clone(), "why".to_owned());
            let error = MailError::Refused { host, reason, code, status };
            of_error(&settings, &error).finding.grade
        };
        for (code, status) in [
            (DeliveryError::Connect, None),
            (DeliveryError::Timeout, None),
            (DeliveryError::Smtp, Some(421)),
        ] {
            assert_eq!(grade(code, status), Grade::Warning, "{code:?} {status:?}");
        }
        for (code, status) in [
            (DeliveryError::Tls, None),
            (DeliveryError::Smtp, None),
            (DeliveryError::Smtp, Some(535)),
            (DeliveryError::Smtp, Some(554)),
        ] {
            assert_eq!(grade(code, status), Grade::Failure, "{code:?} {status:?}");
        }
    }
}
