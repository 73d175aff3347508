//! Changes of schedules.

use super::draft::{ScheduleDraft, recurrence};
use super::requests::{ScheduleSwitch, ScheduleUpdate};
use super::{CommandError, FieldErrors, ScheduleParts, Schedules, limits, rules};
use crate::domain::audit::Action;
use crate::domain::call::Call;
use crate::domain::request_body::Field;
use crate::domain::schedule::{PauseNote, SKIP_COUNT_CAP, Schedule, UnreadableFields};
use crate::domain::{AccountId, ScheduleId, Timestamp, VersionId};
use crate::store::{ExpectedState, ScheduleChangeResult, ScheduleState, TickRange};

/// The maximum number of tries of a change when other writers change the schedule first.
const TRIES: usize = 5;

/// The requested change of a schedule.
#[derive(Clone, Debug)]
enum RequestedChange {
    Update(Box<ScheduleUpdate>),
    Switch(bool),
    /// Switches off, with a note.
    Pause(String),
}

impl RequestedChange {
    /// Returns the secret fields that the change sets, including those set to `null`.
    fn gives(&self) -> UnreadableFields {
        match self {
            Self::Update(request) => request.secrets_given(),
            Self::Switch(_) | Self::Pause(_) => UnreadableFields::default(),
        }
    }

    fn action(&self) -> Action {
        match self {
            Self::Update(_) => Action::ScheduleUpdated,
            Self::Switch(true) => Action::ScheduleEnabled,
            Self::Switch(false) | Self::Pause(_) => Action::ScheduleDisabled,
        }
    }

    /// Returns the note of the pause after the change, which the author of `call` makes at `now`.
    fn pause(
        &self,
        current: &Schedule,
        is_enabled: bool,
        call: Call,
        now: Timestamp,
    ) -> Option<PauseNote> {
        match self {
            _ if is_enabled => None,
            Self::Pause(text) => Some(PauseNote {
                text: text.clone(),
                author: call.author.actor.to_string(),
                at: now,
            }),
            Self::Update(_) | Self::Switch(_) => current.pause.clone(),
        }
    }
}

impl Schedules {
    /// Changes the given fields. If the recurrence changes or the schedule is switched on, the next
    /// tick is after now. Due ticks that had not fired are recorded as superseded.
    pub async fn update(
        &self,
        account: AccountId,
        call: Call,
        id: ScheduleId,
        request: ScheduleUpdate,
    ) -> Result<Schedule, CommandError> {
        // A request that is not valid for one schedule is not valid for any.
        match request.clone().apply(ScheduleDraft::blank(), &self.0.outbound) {
            Ok(_) => {
                self.change(account, call, id, RequestedChange::Update(Box::new(request))).await
            }
            Err(errors) => Err(self.refuse(account, id, errors).await),
        }
    }

    /// Switches a schedule on or off.
    pub async fn toggle(
        &self,
        account: AccountId,
        call: Call,
        id: ScheduleId,
        request: ScheduleSwitch,
    ) -> Result<Schedule, CommandError> {
        let mut errors = FieldErrors::new();
        match request.enabled.required("enabled", &mut errors) {
            Some(enabled) => self.change(account, call, id, RequestedChange::Switch(enabled)).await,
            None => Err(self.refuse(account, id, errors).await),
        }
    }

    /// Pauses a schedule with a note. Enabling the schedule removes the note. An empty note counts
    /// as none. The note of a schedule that is paused already is replaced.
    pub async fn pause(
        &self,
        account: AccountId,
        call: Call,
        id: ScheduleId,
        note: Field<String>,
    ) -> Result<Schedule, CommandError> {
        let mut errors = FieldErrors::new();
        let note = rules::pause_note(note).optional("note", &mut errors);
        match errors.unless_any(note) {
            Ok(Some(note)) => self.change(account, call, id, RequestedChange::Pause(note)).await,
            Ok(None) => self.change(account, call, id, RequestedChange::Switch(false)).await,
            Err(errors) => Err(self.refuse(account, id, errors).await),
        }
    }

    /// Returns the error for an invalid change. If the schedule does not exist, the error says only
    /// that.
    async fn refuse(
        &self,
        account: AccountId,
        id: ScheduleId,
        errors: FieldErrors,
    ) -> CommandError {
        match self.get(account, id).await {
            Ok(_) => errors.into(),
            Err(error) => error,
        }
    }

    async fn change(
        &self,
        account: AccountId,
        call: Call,
        id: ScheduleId,
        wish: RequestedChange,
    ) -> Result<Schedule, CommandError> {
        let inner = self.0.clone();
        self.run(async move {
            let plan = inner.admit(account).await?;
            for _ in 0..TRIES {
                let found = inner.store.schedule(account, id).await?;
                let current = found.ok_or(CommandError::NoSuchSchedule)?;
                let (draft, given) = (ScheduleDraft::of(&current), wish.gives());
                let draft = match wish.clone() {
                    RequestedChange::Update(request) => request.apply(draft, &inner.outbound)?,
                    RequestedChange::Switch(is_enabled) => ScheduleDraft { is_enabled, ..draft },
                    RequestedChange::Pause(_) => ScheduleDraft { is_enabled: false, ..draft },
                };
                let redefined = is_redefined(&current, &draft, given)?;
                let now = inner.clock.now();
                let pause = wish.pause(&current, draft.is_enabled, call, now);
                if !redefined && pause == current.pause && draft == ScheduleDraft::of(&current) {
                    return Ok(current);
                }
                limits::check_change(&draft, &current, &plan, now)?;
                let draft = (draft, pause);
                let change = inner.work_out(&current, draft, redefined, wish.action(), now);
                let write = inner.write(account, call, now);
                match inner.store.change_schedule(&write, id, &change).await? {
                    ScheduleChangeResult::Done(tickets) => {
                        inner.start(&tickets).await;
                        if change.next_tick != current.next_tick {
                            inner.hint(account, &[id]).await;
                        }
                        return Ok(changed(current, change, now));
                    }
                    ScheduleChangeResult::Stale => {}
                    ScheduleChangeResult::NotFound => return Err(CommandError::NoSuchSchedule),
                }
            }
            Err(CommandError::Contended)
        })
        .await
    }
}

impl ScheduleParts {
    fn work_out(
        &self,
        current: &Schedule,
        (draft, pause): (ScheduleDraft, Option<PauseNote>),
        redefined: bool,
        action: Action,
        now: Timestamp,
    ) -> ScheduleState {
        let (old, new) = (&current.definition, &draft.definition);
        let retimed = (&old.cron_expression, &old.timezone)
            != (&new.cron_expression, &new.timezone)
            || current.is_enabled != draft.is_enabled;
        let new_id = || VersionId::new(now, self.random.bits());
        ScheduleState {
            action,
            expected: ExpectedState { revision: current.revision, next_tick: current.next_tick },
            version: redefined.then(|| draft.version(new_id())),
            is_enabled: draft.is_enabled,
            pause,
            overlap_policy: draft.overlap_policy,
            catch_up_policy: draft.catch_up_policy,
            next_tick: if retimed { draft.next_tick(now) } else { current.next_tick },
            superseded: if retimed { superseded(current, now) } else { None },
            name: draft.name,
            description: draft.description,
        }
    }
}

/// Returns `true` if a new version is needed: the definition differs, or the change replaces a
/// secret that cannot be decrypted. The new version must set every such secret, because the stored
/// one is lost.
fn is_redefined(
    current: &Schedule,
    draft: &ScheduleDraft,
    given: UnreadableFields,
) -> Result<bool, FieldErrors> {
    let lost = current.unreadable;
    let replaced = (lost.body && given.body) || (lost.headers && given.headers);
    if !replaced && draft.definition == current.definition {
        return Ok(false);
    }
    check_unreadable(lost, given)?;
    Ok(true)
}

/// Checks that each secret that cannot be decrypted is given anew.
pub(super) fn check_unreadable(
    lost: UnreadableFields,
    given: UnreadableFields,
) -> Result<(), FieldErrors> {
    let mut errors = FieldErrors::new();
    for (field, lost, given) in
        [("body", lost.body, given.body), ("headers", lost.headers, given.headers)]
    {
        if lost && !given {
            errors.add(field, "The stored value cannot be decrypted; send it anew, or null");
        }
    }
    errors.unless_any(())
}

/// Returns the ticks that are due at `now` and have not fired (TICK-2).
fn superseded(current: &Schedule, now: Timestamp) -> Option<TickRange> {
    let first = current.next_tick.filter(|tick| *tick <= now)?;
    let recurrence = recurrence(&current.definition)?;
    let last = recurrence.latest_within(first, now).unwrap_or(first);
    let count = recurrence.count_within(first, now, u64::from(SKIP_COUNT_CAP)).max(1);
    Some(TickRange { first, last, count: u32::try_from(count).unwrap_or(SKIP_COUNT_CAP) })
}

/// Returns the schedule's state right after a change.
fn changed(current: Schedule, change: ScheduleState, now: Timestamp) -> Schedule {
    let (version, definition, unreadable) = match change.version {
        Some(version) => (version.id, version.definition, UnreadableFields::default()),
        None => (current.version, current.definition, current.unreadable),
    };
    Schedule {
        name: change.name,
        description: change.description,
        version,
        definition,
        unreadable,
        is_enabled: change.is_enabled,
        pause: change.pause,
        overlap_policy: change.overlap_policy,
        catch_up_policy: change.catch_up_policy,
        next_tick: change.next_tick,
        updated_at: now,
        revision: current.revision + 1,
        ..current
    }
}
