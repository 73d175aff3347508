//! Creating schedules, one or many at once.

use super::draft::Draft;
use super::edits::{Edits, NAMES, Purpose};
use super::json::{self, Json, JsonError, Object};
use super::{CommandError, FieldErrors, Inner, Schedules};
use crate::domain::schedule::Schedule;
use crate::domain::{AccountId, ScheduleId, Timestamp, VersionId};
use crate::store::NewSchedule;

/// How many schedules can be created at once.
pub const LARGEST_BATCH: usize = 1_000;

/// How many are checked before other requests get their turn.
const CHECKED_AT_ONCE: usize = 20;

/// Why what a user sent makes no schedules.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// It could not be read at all.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// It was read, and refused.
    #[error(transparent)]
    Command(#[from] CommandError),
}

impl From<FieldErrors> for CreateError {
    fn from(errors: FieldErrors) -> Self {
        Self::Command(errors.into())
    }
}

impl Schedules {
    /// Creates a schedule from a JSON object.
    pub async fn create(&self, account: AccountId, body: &[u8]) -> Result<Schedule, CreateError> {
        let object = Object::parse(body, NAMES)?;
        let mut errors = FieldErrors::new();
        let draft = self.0.draft(object, "", &mut errors);
        let created = self.store(account, vec![errors.unless_any(draft)?]).await?;
        let created = created.into_iter().next();
        created.ok_or_else(|| unreachable!("one draft makes one schedule"))
    }
}
