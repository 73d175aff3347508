//! The stored form of values for which the databases have no type of their own.

pub(in crate::store::sql) mod batch_rows;
pub(in crate::store) mod hex;
pub(in crate::store) mod rows;
pub(in crate::store) mod values;

use crate::domain::job::{JobStatus, Trigger};
use crate::domain::outcome::Timings;

/// Returns the stored code of a job's status. The statements contain the same numbers.
pub(in crate::store) const fn status_code(status: JobStatus) -> u8 {
    match status {
        JobStatus::Pending => 0,
        JobStatus::Running => 1,
        JobStatus::Success => 2,
        JobStatus::Failed => 3,
    }
}

/// Returns the status that is stored as `code`.
pub(in crate::store) fn status_of(code: u8) -> Option<JobStatus> {
    JobStatus::ALL.iter().copied().find(|status| status_code(*status) == code)
}

/// Returns the stored code of a job's trigger. The statements contain the same numbers.
pub(in crate::store) const fn trigger_code(trigger: Trigger) -> u8 {
    match trigger {
        Trigger::Schedule => 0,
        Trigger::Manual => 1,
        Trigger::CatchUp => 2,
        Trigger::Retry => 3,
    }
}

/// Returns the trigger that is stored as `code`.
pub(in crate::store) fn trigger_of(code: u8) -> Option<Trigger> {
    Trigger::ALL.iter().copied().find(|trigger| trigger_code(*trigger) == code)
}

/// Returns the stored form of timings: four numbers or nulls in a JSON array.
pub(in crate::store) fn timings_text(timings: &Timings) -> String {
    let Timings { dns_ms, connect_ms, first_byte_ms, body_ms } = timings;
    let timings = [dns_ms, connect_ms, first_byte_ms, body_ms];
    serde_json::to_string(&timings).expect("numbers always have a JSON form")
}

/// Parses stored timings. All are absent if the text cannot be read.
pub(in crate::store) fn timings_of(text: Option<&str>) -> Timings {
    let [dns_ms, connect_ms, first_byte_ms, body_ms] =
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    Timings { dns_ms, connect_ms, first_byte_ms, body_ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timings_read_back() {
        let timings =
            Timings { dns_ms: Some(1), connect_ms: None, first_byte_ms: Some(0), body_ms: None };
        assert_eq!(timings_text(&timings), "[1,null,0,null]");
        assert_eq!(timings_of(Some("[1,null,0,null]")), timings);
        assert_eq!(timings_of(Some("?")), Timings::default());
        assert_eq!(timings_of(None), Timings::default());
    }
}
