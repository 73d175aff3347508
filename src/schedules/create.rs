//! Creating schedules, one or many at once.

use utoipa::ToSchema;

use super::draft::ScheduleDraft;
use super::requests::{ScheduleCreation, ScheduleName};
use super::{CommandError, FieldErrors, ScheduleParts, Schedules, limits};
use crate::domain::call::Call;
use crate::domain::plan::LimitExceeded;
use crate::domain::request_body::{Json, JsonError};
use crate::domain::schedule::{Schedule, UnreadableFields};
use crate::domain::{AccountId, ScheduleId, Timestamp, VersionId};
use crate::store::{CreationResult, NewSchedule};

/// The maximum number of schedules in a batch.
pub const MAX_BATCH: usize = 1_000;
/// The number of schedules to check before the task yields to other requests.
const CHECKED_AT_ONCE: usize = 20;

/// Schedules to be created.
#[derive(Debug, ToSchema)]
#[schema(value_type = Vec<ScheduleCreation>, min_items = 1, max_items = 1000)]
pub struct ScheduleBatch<'a>(Json<'a>);

impl<'a> ScheduleBatch<'a> {
    /// Accepts any JSON value. Later methods check that it is an array, and parse its items.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, JsonError> {
        Json::parse(bytes).map(Self)
    }

    /// Returns the names of the schedules as they would be stored; `None` if any name is missing.
    pub fn names(self) -> Option<Vec<String>> {
        let items = self.items().ok()?;
        items.into_iter().map(|item| item.object::<ScheduleName>().ok()?.name.value()).collect()
    }

    /// Returns the items if their number is allowed.
    fn items(self) -> Result<Vec<Json<'a>>, FieldErrors> {
        let refuse = |message: String| Err(FieldErrors::of("schedules", message));
        match self.0.items(MAX_BATCH) {
            Some(items) if (1..=MAX_BATCH).contains(&items.len()) => Ok(items),
            Some(_) => refuse(format!("Must hold 1 to {MAX_BATCH} schedules")),
            None => refuse("Must be an array".to_owned()),
        }
    }
}

impl Schedules {
    /// Creates a schedule.
    pub async fn create(
        &self,
        account: AccountId,
        call: Call,
        request: ScheduleCreation,
    ) -> Result<Schedule, CommandError> {
        let draft = request.draft(&self.0.outbound)?;
        let mut created = self.insert(account, call, vec![draft], false).await?;
        Ok(created.swap_remove(0))
    }

    /// Creates a batch of schedules: all of them, or none if any is refused. The errors of an item
    /// have the key `<index>.<field>`.
    pub async fn create_bulk(
        &self,
        account: AccountId,
        call: Call,
        batch: ScheduleBatch<'_>,
    ) -> Result<Vec<Schedule>, CommandError> {
        let items = batch.items()?;
        // An item is parsed when it is its turn, so that a large batch yields to other requests.
        let (mut drafts, mut errors) = (Vec::with_capacity(items.len()), FieldErrors::new());
        for (position, item) in items.into_iter().enumerate() {
            match item.object::<ScheduleCreation>().map(|item| item.draft(&self.0.outbound)) {
                Ok(Ok(draft)) => drafts.push(draft),
                Ok(Err(refused)) => errors.extend(refused.with_prefix(&format!("{position}."))),
                Err(error) => errors.add(position.to_string(), error.to_string()),
            }
            if position % CHECKED_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
        self.insert(account, call, errors.unless_any(drafts)?, true).await
    }

    async fn insert(
        &self,
        account: AccountId,
        call: Call,
        drafts: Vec<ScheduleDraft>,
        is_batch: bool,
    ) -> Result<Vec<Schedule>, CommandError> {
        let inner = self.0.clone();
        self.run(async move {
            let plan = inner.admit(account).await?;
            let now = inner.clock.now();
            for (position, draft) in drafts.iter().enumerate() {
                let judged = limits::check_new(draft, &plan, now);
                judged.map_err(|exceeded| LimitExceeded {
                    item: is_batch.then_some(position),
                    ..exceeded
                })?;
                if position % CHECKED_AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            }
            let schedules: Vec<_> =
                drafts.into_iter().map(|draft| inner.new_schedule(draft, now)).collect();
            let (write, most) = (inner.write(account, call, now), plan.schedules);
            let outcome = inner.store.create_schedules(&write, &schedules, most).await?;
            if let (CreationResult::TooMany { current }, Some(most)) = (outcome, most) {
                let requested = schedules.len() as u64;
                return Err(plan.exceeded("schedules", most, Some(current), requested).into());
            }
            let ids: Vec<_> = schedules.iter().map(|schedule| schedule.id).collect();
            inner.hint(account, &ids).await;
            Ok(schedules.into_iter().map(|new| created(new, now)).collect())
        })
        .await
    }
}

impl ScheduleParts {
    fn new_schedule(&self, draft: ScheduleDraft, now: Timestamp) -> NewSchedule {
        let id = ScheduleId::new(now, self.random.bits());
        NewSchedule {
            id,
            shard: self.shard(id),
            version: draft.version(VersionId::new(now, self.random.bits())),
            is_enabled: draft.is_enabled,
            overlap_policy: draft.overlap_policy,
            catch_up_policy: draft.catch_up_policy,
            next_tick: draft.next_tick(now),
            name: draft.name,
            description: draft.description,
        }
    }
}

/// Returns the schedule's state right after its creation.
fn created(new: NewSchedule, now: Timestamp) -> Schedule {
    Schedule {
        id: new.id,
        name: new.name,
        description: new.description,
        version: new.version.id,
        definition: new.version.definition,
        unreadable: UnreadableFields::default(),
        is_enabled: new.is_enabled,
        pause: None,
        overlap_policy: new.overlap_policy,
        catch_up_policy: new.catch_up_policy,
        next_tick: new.next_tick,
        last_run_at: None,
        last_job_status: None,
        consecutive_failures: 0,
        created_at: now,
        updated_at: now,
        revision: 0,
    }
}
