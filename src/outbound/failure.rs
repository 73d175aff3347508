//! Failures of an attempt, with messages for the user.
//!
//! No message contains an address, a port, a header or a part of the URL. An address would reveal
//! the hosts behind a name inside the operator's network; the other parts may contain secrets.
//! Every cause is therefore mapped to our own text; the libraries' messages are never printed.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use rustls::CertificateError;

use super::RefusedUrl;
use super::trace::{self, Phase, Trace};
use crate::domain::outcome::{ErrorCode, Failure};

fn retryable(code: ErrorCode, message: impl Into<String>) -> Failure {
    Failure { code, message: message.into(), retryable: true }
}

fn lasting(code: ErrorCode, message: impl Into<String>) -> Failure {
    Failure { code, message: message.into(), retryable: false }
}

/// Formats a duration in seconds, such as `2.5 s`.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0.as_secs_f64())
    }
}

/// A [`Failure`] that is passed through the HTTP library as an error.
#[derive(Debug)]
pub struct StoppedRequest(pub Failure);

impl fmt::Display for StoppedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl Error for StoppedRequest {}

/// The URL is invalid or refused by policy. User URLs were validated when they were saved, so an
/// invalid one can only come from the service itself.
pub fn refused(refusal: RefusedUrl) -> Failure {
    let code = match refusal {
        RefusedUrl::Invalid => ErrorCode::Internal,
        RefusedUrl::DisallowedAddress | RefusedUrl::DisallowedPort => ErrorCode::BlockedAddress,
    };
    lasting(code, refusal.to_string())
}

/// The stored `part` of a request is not valid any more.
pub fn invalid_definition(part: &str) -> Failure {
    let message =
        format!("the stored {part} of the request are no longer valid; save the schedule again");
    lasting(ErrorCode::Internal, message)
}

/// The whole attempt timed out during `phase`.
pub fn timed_out(timeout: Duration, phase: Phase) -> Failure {
    let (limit, waiting) = (Seconds(timeout), phase.waiting());
    retryable(ErrorCode::Timeout, format!("timed out after {limit} while {waiting}"))
}

/// The host name does not exist.
pub fn no_such_name() -> Failure {
    let message = "the host name does not exist; check its spelling and its DNS records";
    retryable(ErrorCode::Dns, message)
}

/// The host name exists but has no address.
pub fn no_address() -> Failure {
    let message = "the host name has no address; it needs an A or AAAA record";
    retryable(ErrorCode::Dns, message)
}

/// The name servers gave no usable answer.
pub fn unresolved() -> Failure {
    let message = "the host name could not be resolved; check the name servers of its domain";
    retryable(ErrorCode::Dns, message)
}

/// The name servers did not answer within `limit`.
pub fn slow_lookup(limit: Duration) -> Failure {
    let limit = Seconds(limit);
    let message = format!(
        "the host name was not resolved within {limit}; check the name servers of its domain"
    );
    retryable(ErrorCode::Dns, message)
}

/// The executor was paused while it connected, so the request may no longer be sent.
pub fn held_up() -> Failure {
    retryable(ErrorCode::WorkerLost, "the executor was paused before it could send the request")
}

/// The host did not accept a connection within `limit`.
pub fn slow_connect(limit: Duration) -> Failure {
    let limit = Seconds(limit);
    let message = format!(
        "no connection within {limit}; check that the host is up and that the port is reachable"
    );
    retryable(ErrorCode::Connect, message)
}

/// The TLS handshake did not complete within `limit`.
pub fn slow_handshake(limit: Duration) -> Failure {
    let limit = Seconds(limit);
    retryable(ErrorCode::Tls, format!("the TLS handshake was not completed within {limit}"))
}

/// Converts an error of the HTTP library into a failure. It never reads the URL in the error.
pub fn of(error: &reqwest::Error) -> Failure {
    let causes = || std::iter::successors(error.source(), |cause| beneath(*cause));
    if let Some(StoppedRequest(failure)) = causes().find_map(|cause| cause.downcast_ref()) {
        return failure.clone();
    }
    let tls = causes().find_map(|cause| cause.downcast_ref::<rustls::Error>());
    let io = causes().filter_map(|cause| cause.downcast_ref::<io::Error>()).last();
    if error.is_connect() {
        return match (tls, io) {
            (Some(error), _) => no_handshake(error),
            _ if trace::note(Trace::phase) == Some(Phase::Handshake) => {
                retryable(ErrorCode::Tls, "the connection broke during the TLS handshake")
            }
            (None, Some(error)) => unconnected(error),
            (None, None) => retryable(ErrorCode::Connect, "could not connect"),
        };
    }
    if error.is_builder() {
        return lasting(ErrorCode::Internal, "the request could not be built");
    }
    let http: Vec<_> = causes().filter_map(|cause| cause.downcast_ref()).collect();
    broken(&http, io)
}

/// Returns the cause of an error. `source()` of an I/O error skips the error that it wraps, so that
/// wrapped error is returned first.
fn beneath<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

/// No address of the host accepted the connection.
fn unconnected(error: &io::Error) -> Failure {
    let message = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "the host refused the connection; check that its server runs and listens on this port"
                .to_owned()
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "the host is not reachable; check its network and its DNS records".to_owned()
        }
        // The operating system's error texts contain no address.
        _ if error.raw_os_error().is_some() => format!("could not connect: {error}"),
        _ => "could not connect".to_owned(),
    };
    retryable(ErrorCode::Connect, message)
}

/// The TLS handshake failed. An invalid certificate is permanent; any other failure may be
/// transient.
fn no_handshake(error: &rustls::Error) -> Failure {
    match error {
        rustls::Error::InvalidCertificate(error) => lasting(ErrorCode::Tls, invalid(error)),
        rustls::Error::NoCertificatesPresented => {
            lasting(ErrorCode::Tls, "the host presented no certificate")
        }
        rustls::Error::AlertReceived(_) => {
            retryable(ErrorCode::Tls, "the host refused the TLS handshake with an alert")
        }
        rustls::Error::PeerIncompatible(_) => {
            let message = "the host offers no TLS version and cipher that are safe; \
                           it needs TLS 1.2 or 1.3";
            retryable(ErrorCode::Tls, message)
        }
        _ => {
            let message = "the TLS handshake failed; check that the port speaks TLS";
            retryable(ErrorCode::Tls, message)
        }
    }
}

fn invalid(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the host's certificate has expired; renew it"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the host's certificate is not valid yet; check the host's clock"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the host's certificate is for another name; check the host name in the URL"
        }
        CertificateError::UnknownIssuer => {
            "the host's certificate is not issued by a trusted authority, or its chain is \
             incomplete"
        }
        CertificateError::Revoked => "the host's certificate has been revoked",
        _ => "the host's certificate is not valid",
    }
}

/// The exchange on an open connection failed.
fn broken(causes: &[&hyper::Error], io: Option<&io::Error>) -> Failure {
    let any = |is: fn(&hyper::Error) -> bool| causes.iter().any(|cause| is(cause));
    let closed = "the host closed the connection before it had answered completely";
    let message = if any(hyper::Error::is_parse_too_large) {
        "the response's headers are too large or too many"
    } else if any(hyper::Error::is_parse) {
        "the response is not valid HTTP/1.1"
    } else if any(hyper::Error::is_incomplete_message) {
        closed
    } else {
        match io.map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
                "the host reset the connection"
            }
            Some(io::ErrorKind::UnexpectedEof) => closed,
            _ => "the connection broke",
        }
    };
    retryable(ErrorCode::Network, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_policy_and_certificates_are_final() {
        let final_ones = [
            refused(RefusedUrl::DisallowedAddress),
            refused(RefusedUrl::DisallowedPort),
            refused(RefusedUrl::Invalid),
            no_handshake(&rustls::Error::InvalidCertificate(CertificateError::Expired)),
        ];
        let passing = [
            timed_out(Duration::from_secs(3), Phase::Connect),
            no_such_name(),
            no_address(),
            unresolved(),
            slow_lookup(Duration::from_millis(2_500)),
            unconnected(&io::Error::from_raw_os_error(24)),
            slow_connect(Duration::from_secs(10)),
            slow_handshake(Duration::from_secs(10)),
            no_handshake(&rustls::Error::DecryptError),
        ];
        assert!(final_ones.iter().all(|failure| !failure.retryable));
        assert!(passing.iter().all(|failure| failure.retryable));
        assert_eq!(passing[0].message, "timed out after 3 s while connecting");
        assert!(passing[4].message.contains("within 2.5 s"), "{}", passing[4].message);
        assert!(passing[5].message.contains("Too many open files"), "{}", passing[5].message);
    }
}
