//! Cursors: the position at which a page ended, as an opaque text for clients. A cursor is a kind
//! byte and the bytes of a position, in base64url.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;

use super::query::Parameter;
use crate::domain::field_errors::FieldErrors;
use crate::domain::schedule::Schedule;
use crate::domain::{AuditId, DeliveryId, JobId, ScheduleId, Timestamp};
use crate::store::{ScheduleSort, SortField, SortValue};

const OF_SCHEDULES: u8 = 1;
const OF_JOBS: u8 = 2;
const OF_SKIPS: u8 = 3;
const OF_AUDIT_ENTRIES: u8 = 4;
const OF_DELIVERIES: u8 = 5;

/// Returns the cursor after a job.
pub(super) fn after_job(id: JobId) -> String {
    encode(OF_JOBS, &[&id.to_bytes()])
}

/// Reads a cursor: the job that the page starts after.
pub(super) fn job(cursor: Parameter, errors: &mut FieldErrors) -> Option<JobId> {
    read(cursor, errors, OF_JOBS, |position| Some(JobId::from_bytes(position.try_into().ok()?)))
}

/// Returns the cursor after a skip.
pub(super) fn after_skip((first, row): (Timestamp, i64)) -> String {
    encode(OF_SKIPS, &[&first.as_millis().to_be_bytes(), &row.to_be_bytes()])
}

/// Reads a cursor: the skip that the page starts after.
pub(super) fn skip(cursor: Parameter, errors: &mut FieldErrors) -> Option<(Timestamp, i64)> {
    read(cursor, errors, OF_SKIPS, |position| {
        let (first, row) = position.split_first_chunk()?;
        let first = Timestamp::from_millis(i64::from_be_bytes(*first));
        Some((first, i64::from_be_bytes(row.try_into().ok()?)))
    })
}

/// Returns the cursor after an entry of the audit log.
pub(super) fn after_audit_entry(id: AuditId) -> String {
    encode(OF_AUDIT_ENTRIES, &[&id.to_bytes()])
}

/// Reads a cursor: the entry of the audit log that the page starts after.
pub(super) fn audit_entry(cursor: Parameter, errors: &mut FieldErrors) -> Option<AuditId> {
    read(cursor, errors, OF_AUDIT_ENTRIES, |position| {
        Some(AuditId::from_bytes(position.try_into().ok()?))
    })
}

/// Returns the cursor after a delivery.
pub(super) fn after_delivery(id: DeliveryId) -> String {
    encode(OF_DELIVERIES, &[&id.to_bytes()])
}

/// Reads a cursor: the delivery that the page starts after.
pub(super) fn delivery(cursor: Parameter, errors: &mut FieldErrors) -> Option<DeliveryId> {
    read(cursor, errors, OF_DELIVERIES, |position| {
        Some(DeliveryId::from_bytes(position.try_into().ok()?))
    })
}

/// Returns the cursor after a schedule in the order `sort`.
pub(super) fn after_schedule(sort: ScheduleSort, schedule: &Schedule) -> String {
    let value = match sort.field {
        SortField::Name => schedule.name.as_bytes().to_vec(),
        SortField::NextTick => time_bytes(schedule.next_tick),
        SortField::LastRun => time_bytes(schedule.last_run_at),
        SortField::CreatedAt => time_bytes(Some(schedule.created_at)),
    };
    encode(OF_SCHEDULES, &[&[order(sort)], &schedule.id.to_bytes(), &value])
}

/// Reads a cursor: the schedule that the page starts after. The cursor must be of the
/// same order.
pub(super) fn schedule(
    cursor: Parameter,
    sort: ScheduleSort,
    errors: &mut FieldErrors,
) -> Option<(SortValue, ScheduleId)> {
    read(cursor, errors, OF_SCHEDULES, |position| {
        let rest = position.strip_prefix(&[order(sort)])?;
        let (id, value) = rest.split_first_chunk()?;
        let value = match sort.field {
            SortField::Name => SortValue::Text(String::from_utf8(value.to_vec()).ok()?),
            _ => SortValue::Time(time(value)?),
        };
        Some((value, ScheduleId::from_bytes(*id)))
    })
}

fn encode(kind: u8, position: &[&[u8]]) -> String {
    let mut bytes = vec![kind];
    bytes.extend(position.iter().copied().flatten());
    BASE64.encode(bytes)
}

fn read<T>(
    cursor: Parameter,
    errors: &mut FieldErrors,
    kind: u8,
    parse: impl FnOnce(&[u8]) -> Option<T>,
) -> Option<T> {
    cursor.parse("cursor", errors, |text| {
        let bytes = BASE64.decode(text).ok();
        let position = bytes.as_deref().and_then(|bytes| bytes.strip_prefix(&[kind]));
        position.and_then(parse).ok_or("Must be a cursor from an answer to the same query")
    })
}

fn order(sort: ScheduleSort) -> u8 {
    let field = match sort.field {
        SortField::Name => 0,
        SortField::NextTick => 1,
        SortField::LastRun => 2,
        SortField::CreatedAt => 3,
    };
    field << 1 | u8::from(sort.descending)
}

fn time_bytes(time: Option<Timestamp>) -> Vec<u8> {
    time.map_or_else(Vec::new, |time| time.as_millis().to_be_bytes().to_vec())
}

/// Reads an optional time. Returns an outer `None` if the bytes are malformed.
fn time(bytes: &[u8]) -> Option<Option<Timestamp>> {
    if bytes.is_empty() {
        return Some(None);
    }
    let ms = i64::from_be_bytes(bytes.try_into().ok()?);
    Some(Some(Timestamp::from_millis(ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a cursor. An error must come with no value, and only then.
    fn read_with<T>(
        text: &str,
        read: impl FnOnce(Parameter, &mut FieldErrors) -> Option<T>,
    ) -> Option<T> {
        let mut errors = FieldErrors::new();
        let position = read(Parameter::of(text), &mut errors);
        let is_refused = errors != FieldErrors::new();
        assert_eq!(is_refused, position.is_none() && !text.is_empty(), "{text}: {errors}");
        position
    }

    #[test]
    fn cursors_read_back() {
        let id = JobId::new(Timestamp::from_millis(7), 9);
        assert_eq!(read_with(&after_job(id), job), Some(id));
        let entry = AuditId::new(Timestamp::from_millis(7), 9);
        assert_eq!(read_with(&after_audit_entry(entry), audit_entry), Some(entry));
        assert_eq!(read_with(&after_job(id), audit_entry), None, "another kind");
        let sent = DeliveryId::new(Timestamp::from_millis(7), 9);
        assert_eq!(read_with(&after_delivery(sent), delivery), Some(sent));
        assert_eq!(read_with(&after_job(id), delivery), None, "another kind");
        let at = (Timestamp::from_millis(1_700_000_000_000), -3);
        assert_eq!(read_with(&after_skip(at), skip), Some(at));
    }

    #[test]
    fn other_texts_are_refused() {
        let job_cursor = after_job(JobId::new(Timestamp::from_millis(7), 9));
        for text in ["x", "*", "AA==", &job_cursor[1..], &format!("{job_cursor}AAAA")] {
            assert_eq!(read_with(text, job), None, "{text}");
        }
        let sort = ScheduleSort { field: SortField::Name, descending: true };
        let by_name = |cursor: Parameter, errors: &mut FieldErrors| schedule(cursor, sort, errors);
        assert_eq!(read_with(&job_cursor, by_name), None, "another kind");
        assert_eq!(read_with("", by_name), None, "an empty one is none");
    }
}
