//! The result of an attempt and its effect on the job.

use super::names::names;
use super::status_codes::ExpectedStatusCodes;

names! {
    /// The reason why an attempt failed; the `errorCode` of the contract.
    ErrorCode {
        /// The deadline of the attempt passed.
        Timeout = "TIMEOUT",
        /// The host's name could not be resolved.
        Dns = "DNS",
        /// No connection could be made.
        Connect = "CONNECT",
        /// The TLS handshake failed or the certificate is not valid.
        Tls = "TLS",
        /// The connection broke, or the response was not HTTP.
        Network = "NETWORK",
        /// Policy forbids the address or the port.
        BlockedAddress = "BLOCKED_ADDRESS",
        /// The response's status counts as a failure.
        HttpStatus = "HTTP_STATUS",
        /// The executor was lost while the attempt ran.
        WorkerLost = "WORKER_LOST",
        /// The job was cancelled, or its schedule deleted.
        Cancelled = "CANCELLED",
        /// The stored request could not be decrypted.
        SecretUnreadable = "SECRET_UNREADABLE",
        /// A fault of the service itself.
        Internal = "INTERNAL",
    }
}

/// The reason why an attempt failed, and if a retry makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The class of the failure.
    pub code: ErrorCode,
    /// One sentence for people; it contains no resolved address and no secret.
    pub message: String,
    /// `true` if the contract allows a retry.
    pub retryable: bool,
}

/// The duration of each phase of an attempt, in milliseconds; absent phases did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// The time to resolve the host's name.
    pub dns_ms: Option<u32>,
    /// The time to connect, including TLS; absent on a reused connection.
    pub connect_ms: Option<u32>,
    /// The time from sending the request to the response's headers.
    pub first_byte_ms: Option<u32>,
    /// The time to read the response's body.
    pub body_ms: Option<u32>,
}

/// The kept part of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers, in the order of their arrival.
    pub headers: Vec<(String, String)>,
    /// The first bytes of the body.
    pub body: Vec<u8>,
    /// `true` if the body was longer.
    pub truncated: bool,
}

/// The HTTP exchange of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The response, or the reason why there is none.
    pub result: Result<Response, Failure>,
    /// The duration of each phase.
    pub timings: Timings,
    /// The duration of the whole attempt, in milliseconds.
    pub duration_ms: u32,
}

/// The effect of an attempt on its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The job has succeeded.
    Success,
    /// A retry makes sense, if an attempt is left.
    Retryable(Failure),
    /// No retry can help.
    Final(Failure),
}

impl Outcome {
    /// Judges an exchange. A listed status is a success even if it would otherwise be retried.
    /// Without a list, every status below 400 is a success.
    pub fn of(exchange: &Exchange, expected: Option<&ExpectedStatusCodes>) -> Self {
        let response = match &exchange.result {
            Ok(response) => response,
            Err(failure) if failure.retryable => return Self::Retryable(failure.clone()),
            Err(failure) => return Self::Final(failure.clone()),
        };
        let status = response.status;
        if expected.map_or(status < 400, |codes| codes.contains(status)) {
            return Self::Success;
        }
        let retryable = status >= 500 || status == 408 || status == 429;
        let message = format!("the endpoint answered with status {status}");
        let failure = Failure { code: ErrorCode::HttpStatus, message, retryable };
        if retryable { Self::Retryable(failure) } else { Self::Final(failure) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::names::UnknownName;
    use super::*;

    fn answered(status: u16) -> Exchange {
        let response = Response { status, ..Response::default() };
        Exchange { result: Ok(response), timings: Timings::default(), duration_ms: 1 }
    }

    fn judge(status: u16, expected: Option<&str>) -> &'static str {
        let expected = expected.map(|codes| codes.parse().expect("valid codes"));
        match Outcome::of(&answered(status), expected.as_ref()) {
            Outcome::Success => "success",
            Outcome::Retryable(_) => "retryable",
            Outcome::Final(_) => "final",
        }
    }

    #[test]
    fn statuses_are_judged_by_the_contract() {
        for (status, expected, outcome) in [
            (200, None, "success"),
            (302, None, "success"),
            (399, None, "success"),
            (400, None, "final"),
            (404, None, "final"),
            (408, None, "retryable"),
            (429, None, "retryable"),
            (500, None, "retryable"),
            (599, None, "retryable"),
            (500, Some("500"), "success"),
            (200, Some("201-299,410"), "final"),
            (410, Some("201-299,410"), "success"),
            (503, Some("200"), "retryable"),
        ] {
            assert_eq!(judge(status, expected), outcome, "{status} expecting {expected:?}");
        }
    }

    #[test]
    fn names_round_trip() {
        for code in ErrorCode::ALL {
            assert_eq!(code.as_str().parse(), Ok(*code));
        }
        assert_eq!("timeout".parse::<ErrorCode>(), Err(UnknownName));
    }
}
