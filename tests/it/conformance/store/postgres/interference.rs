//! Changes of a running job that another session makes while the end of its attempt is committed.
//! Each is the SET clause of an UPDATE of `runs`.

use crate::harness::states::waiting;

/// The job stays as it is.
pub const TOUCHED: &str = "updated_at = 1";
/// The schedule is deleted: no attempt follows the present one.
pub const STOPPED: &str = "stop = 1";
/// A user cancels the job.
pub const CANCELLED: &str = "stop = 2";
/// The claim is closed, and the job waits again.
pub const RELEASED: &str = concat!(waiting!(), ", claimed_by = NULL");
/// Another executor has the claim.
pub const CLAIMED_BY_OTHER: &str = "claimed_by = id";
/// A later attempt runs.
pub const NEXT_ATTEMPT: &str = "attempt_number = 2";
