//! Creating schedules, one or many at once.

use super::draft::Draft;
use super::edits::{Edits, SCHEDULE_FIELDS};
use super::fields::Purpose;
use super::json::{self, Json, JsonError, Object};
use super::{CommandError, FieldErrors, Parts, Schedules, limits};
use crate::domain::call::Call;
use crate::domain::plan::LimitExceeded;
use crate::domain::schedule::{Schedule, UnreadableFields};
use crate::domain::{AccountId, ScheduleId, Timestamp, VersionId};
use crate::store::{Created, NewSchedule};

/// The maximum number of schedules in a batch.
pub const LARGEST_BATCH: usize = 1_000;
/// The number of schedules to check before the task yields to other requests.
const CHECKED_AT_ONCE: usize = 20;

/// A batch of schedules as a user wrote it.
#[derive(Debug)]
pub struct Batch(Json);

impl Batch {
    /// Parses any JSON value. Later methods check that it is an array.
    pub fn parse(bytes: &[u8]) -> Result<Self, JsonError> {
        json::parse(bytes, SCHEDULE_FIELDS, LARGEST_BATCH).map(Self)
    }

    /// Returns the names of the schedules as they would be stored; `None` if any name is missing.
    pub fn names(self) -> Option<Vec<String>> {
        let items = self.items().ok()?;
        let name = |item| match item {
            Json::Object(mut fields) => fields.take("name"),
            _ => None,
        };
        let text = |name| if let Json::Text(text) = name { Some(text) } else { None };
        items.into_iter().map(|item| name(item).and_then(text)).collect()
    }

    /// Returns the items if their number is allowed.
    fn items(self) -> Result<Vec<Json>, FieldErrors> {
        let refuse = |message: String| Err(FieldErrors::of("schedules", message));
        match self.0 {
            Json::Array(items, 1..=LARGEST_BATCH) => Ok(items),
            Json::Array(..) => refuse(format!("Must hold 1 to {LARGEST_BATCH} schedules")),
            _ => refuse("Must be an array".to_owned()),
        }
    }
}

impl Schedules {
    /// Creates a schedule. `fields` holds values for [`SCHEDULE_FIELDS`].
    pub async fn create(
        &self,
        account: AccountId,
        call: Call,
        fields: Object,
    ) -> Result<Schedule, CommandError> {
        let mut errors = FieldErrors::new();
        let draft = self.0.check(fields, "", &mut errors);
        let mut created =
            self.insert(account, call, vec![errors.unless_any(draft)?], false).await?;
        Ok(created.swap_remove(0))
    }

    /// Creates a batch of schedules: all of them, or none if any is refused. The errors of an item
    /// have the key `<index>.<field>`.
    pub async fn create_bulk(
        &self,
        account: AccountId,
        call: Call,
        batch: Batch,
    ) -> Result<Vec<Schedule>, CommandError> {
        let items = batch.items()?;
        let (mut drafts, mut errors) = (Vec::with_capacity(items.len()), FieldErrors::new());
        for (place, item) in items.into_iter().enumerate() {
            match item {
                Json::Object(fields) => {
                    drafts.push(self.0.check(fields, &format!("{place}."), &mut errors));
                }
                _ => errors.add(place.to_string(), JsonError::NotAnObject.to_string()),
            }
            if place % CHECKED_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
        self.insert(account, call, errors.unless_any(drafts)?, true).await
    }

    async fn insert(
        &self,
        account: AccountId,
        call: Call,
        drafts: Vec<Draft>,
        is_batch: bool,
    ) -> Result<Vec<Schedule>, CommandError> {
        let inner = self.0.clone();
        self.run(async move {
            let plan = inner.admit(account).await?;
            let now = inner.clock.now();
            for (place, draft) in drafts.iter().enumerate() {
                let judged = limits::check_new(draft, &plan, now);
                judged.map_err(|exceeded| LimitExceeded {
                    item: is_batch.then_some(place),
                    ..exceeded
                })?;
                if place % CHECKED_AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            }
            let schedules: Vec<_> =
                drafts.into_iter().map(|draft| inner.new_schedule(draft, now)).collect();
            let (write, most) = (inner.write(account, call, now), plan.schedules);
            let outcome = inner.store.create_schedules(&write, &schedules, most).await?;
            if let (Created::TooMany { current }, Some(most)) = (outcome, most) {
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

impl Parts {
    fn check(&self, fields: Object, prefix: &str, errors: &mut FieldErrors) -> Draft {
        let mut draft = Draft::blank();
        let edits = Edits::read(fields, prefix, Purpose::Creation, &self.outbound, errors);
        edits.apply(&mut draft);
        draft
    }

    fn new_schedule(&self, draft: Draft, now: Timestamp) -> NewSchedule {
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
