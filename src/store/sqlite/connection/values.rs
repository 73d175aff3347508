//! The parameters and results of SQLite's batches.
//!
//! A batch is one JSON text, which the statement unpacks with `jsonb_each`. So the text of the
//! statement does not depend on the number of rows. The result is one JSON text, too, because each
//! single row would wake up a thread. Ids in JSON are hexadecimal.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::domain::{AccountId, AuditId, JobId, KeyId, ScheduleId, VersionId};
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::{ExecutorId, StoreErrorKind};

pub(in crate::store) use crate::store::sql::encoding::hex::Hex;
pub(in crate::store) use crate::store::sql::encoding::values::key_from;
pub(in crate::store) use crate::store::sql::encoding::{
    status_code, timings_text, trigger_code, trigger_of,
};

/// A value that is stored as 16 bytes.
pub(in crate::store::sqlite) trait Bytes16 {
    fn bytes(&self) -> [u8; 16];
}

macro_rules! ids_of_16_bytes {
    ($($id:ident),*) => {$(
        impl Bytes16 for $id {
            fn bytes(&self) -> [u8; 16] {
                self.to_bytes()
            }
        }
    )*};
}

ids_of_16_bytes!(AccountId, AuditId, KeyId, ScheduleId, VersionId, JobId);

impl Bytes16 for ExecutorId {
    fn bytes(&self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

pub(in crate::store::sqlite) fn hex(id: &impl Bytes16) -> Hex {
    Hex(id.bytes())
}

/// Parses the rows of a statement that returns one JSON array.
pub(in crate::store::sqlite) fn rows_of<T: DeserializeOwned>(json: &str) -> SqlResult<Vec<T>> {
    serde_json::from_str(json).map_err(|error| {
        // The error itself may quote the text that it rejects, which can be a secret.
        let column = error.column();
        let message = format!("a row cannot be read back, at {column} of the answer");
        SqlError::new(StoreErrorKind::Corrupt, message)
    })
}

/// Returns the rows of a batch as the JSON array that its statement unpacks.
pub(in crate::store::sqlite) fn json_rows<T: Serialize>(rows: &[T]) -> String {
    serde_json::to_string(rows).expect("numbers, texts and arrays always have a JSON form")
}

/// Returns ids as the JSON array that a statement unpacks.
pub(in crate::store::sqlite) fn json_ids<'a, T: Bytes16 + 'a>(
    ids: impl IntoIterator<Item = &'a T>,
) -> String {
    json_rows(&ids.into_iter().map(hex).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_so_that_unhex_reads_them() {
        let id = JobId::from_bytes([0x00, 0x9f, 0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0xa0]);
        assert_eq!(json_ids([&id]), r#"["009fff0102030405060708090a0b0ca0"]"#);
    }

    #[test]
    fn ids_read_back_from_what_hex_writes() {
        let rows: Vec<(Hex, u8)> =
            rows_of(r#"[["009FFF0102030405060708090A0B0CA0",7]]"#).expect("well-formed");
        assert_eq!(rows[0].0.0[..3], [0x00, 0x9f, 0xff]);
        for damaged in [r#"["00"]"#, r#"["+09FFF0102030405060708090A0B0CAG"]"#, "[null]", "["] {
            let error = rows_of::<Hex>(damaged).expect_err("damaged");
            assert_eq!(error.kind, StoreErrorKind::Corrupt);
        }
    }
}
