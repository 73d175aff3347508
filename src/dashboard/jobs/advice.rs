//! The reasons of failures in plain words, and the usual remedies.

use maud::{Markup, html};

use crate::dashboard::text::sentence;
use crate::domain::outcome::ErrorCode;

/// A reason in plain words.
struct Advice {
    meaning: &'static str,
    remedy: &'static str,
}

/// Renders the reason of a failure, and the usual remedy. `message` is the text of this failure.
pub(in crate::dashboard) fn failure(code: ErrorCode, message: Option<&str>) -> Markup {
    let advice = advice(code);
    html! {
        h2 { "Why it failed" }
        div.note {
            p { strong { (advice.meaning) } }
            @if let Some(message) = message { p { (sentence(message)) } }
            p { "What usually helps: " (advice.remedy) }
            p.soft { "Error code " code { (code) } }
        }
    }
}

/// Returns a failure in a few words, for tables.
pub(super) fn short(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::Timeout => "Timeout",
        ErrorCode::Dns => "Host not found",
        ErrorCode::Connect => "No connection",
        ErrorCode::Tls => "No secure connection",
        ErrorCode::Network => "Connection broke",
        ErrorCode::BlockedAddress => "Address not allowed",
        ErrorCode::HttpStatus => "Unexpected status",
        ErrorCode::WorkerLost => "Process lost",
        ErrorCode::Cancelled => "Cancelled",
        ErrorCode::SecretUnreadable => "Cannot be decrypted",
        ErrorCode::Internal => "Fault of the service",
    }
}

/// Returns the meaning of a failure, and the usual remedy.
fn advice(code: ErrorCode) -> Advice {
    let (meaning, remedy) = match code {
        ErrorCode::Timeout => (
            "The endpoint did not answer within the timeout of the schedule.",
            "Raise the timeout, or let the endpoint respond immediately and do the work later.",
        ),
        ErrorCode::Dns => (
            "The name of the host could not be resolved.",
            "Check the spelling of the URL, and that the name exists in public DNS.",
        ),
        ErrorCode::Connect => (
            "The host did not accept a connection.",
            "Check that the server runs, that the port in the URL is right, and that a firewall \
             lets this service in.",
        ),
        ErrorCode::Tls => (
            "A secure connection could not be made.",
            "Check that the certificate is not expired, is for this host name, and is sent with \
             its full chain.",
        ),
        ErrorCode::Network => (
            "The connection broke, or the answer was not HTTP.",
            "Check the logs of the endpoint and of the proxies in front of it. The endpoint may \
             have done the work anyway.",
        ),
        ErrorCode::BlockedAddress => (
            "The URL leads to an address or a port that this installation does not allow.",
            "Use a public address. For an internal one, ask the operator to allow it.",
        ),
        ErrorCode::HttpStatus => (
            "The endpoint answered, but with a status that counts as a failure.",
            "The response below often says why. If this status is fine, add it to the expected \
             status codes of the schedule.",
        ),
        ErrorCode::WorkerLost => (
            "The process that sent the request was lost during the attempt.",
            "Nothing is wrong with the endpoint, which may have done the work. Retry the job if \
             the work can be done twice.",
        ),
        ErrorCode::Cancelled => (
            "The job was cancelled, or its schedule was deleted.",
            "Retry the job if it should run after all.",
        ),
        ErrorCode::SecretUnreadable => (
            "The stored request could not be decrypted, so nothing was sent.",
            "Save the body and the headers of the schedule again. If many schedules are affected, \
             an encryption key of the installation is missing: tell the operator.",
        ),
        ErrorCode::Internal => (
            "The service has a fault.",
            "Retry the job. If it happens again, tell the operator the id of the job.",
        ),
    };
    Advice { meaning, remedy }
}
