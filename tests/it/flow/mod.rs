//! The service in the test process, from the API to the target and back.

mod backlog;
mod cancelling;
mod changes;
mod core;
mod handover;
mod hanging;
mod load;
mod requests;
mod responses;
mod retries;
mod rounds;
mod signing;
mod ticks;

use serde_json::Value;

/// Returns the attempts of a job: number, status code and error code of each.
fn attempts(job: &Value) -> Vec<(u64, Option<u64>, Option<&str>)> {
    let attempts = job["attempts"].as_array().expect("attempts");
    let tell = |attempt: &'_ Value| attempt["number"].as_u64().expect("a number");
    attempts
        .iter()
        .map(|attempt| {
            (tell(attempt), attempt["statusCode"].as_u64(), attempt["errorCode"].as_str())
        })
        .collect()
}

/// Returns the end of a job: its status, its error code and its number of attempts.
fn end(job: &Value) -> (&str, Option<&str>, u64) {
    let text = |name: &str| job[name].as_str();
    let number = job["attemptNumber"].as_u64().expect("a number");
    (text("status").expect("a status"), text("errorCode"), number)
}
