//! Import of schedules from a text: JSON as the API and an export write it, or a crontab with
//! commands that call curl or wget.
//!
//! Place in the flow: the format modules turn each line or item into the request of the API, as
//! JSON. The same rules as for the bulk API check it, and the command of the bulk API creates all
//! that are valid. Nothing is stored between the preview and the creation: the text is read again.
//!
//! Invariants: a text holds at most as many schedules as the bulk API takes. Only a few texts are
//! processed at once, because a text is copied several times and its page is longer than itself. A
//! line that has no exact counterpart is refused; it never becomes a schedule that calls something
//! else.
//!
//! On failure: each line or item has its own messages. They contain no value of the text.

mod command_request;
mod command_words;
mod crontab;
mod curl;
mod json;
mod refused_line;
mod wget;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use super::draft::ScheduleDraft;
use super::limits::check_new;
use super::requests::ScheduleCreation;
use super::{CommandError, FieldErrors, MAX_BATCH, ScheduleBatch, Schedules, rules};
use crate::domain::AccountId;
use crate::domain::call::Call;
use crate::domain::request_body::{Field, object};
use crate::domain::schedule::{HttpMethod, Schedule};

/// The maximum number of imports at once. Each occupies a core while its text is read.
const AT_ONCE: usize = 2;
/// The maximum time that an import waits for a permit.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// The number of items to check before the task yields to other requests.
const CHECKED_AT_ONCE: usize = 20;

/// The maximum size of a text in bytes, with line breaks of one byte.
pub const MAX_IMPORT: usize = 2 << 20;

/// A text with schedules to import.
#[derive(Clone, Debug)]
pub struct ImportText {
    /// JSON or a crontab.
    pub text: String,
    /// The timezone of the lines of a crontab that set none.
    pub timezone: String,
}

/// A line or an item of a text, as a format module has read it.
#[derive(Debug)]
struct ReadEntry {
    /// The number of the line or the item, from 1.
    number: usize,
    /// The request of the API as JSON, or the reasons why there is none.
    item: Result<String, Vec<String>>,
}

/// A text, as a format module has read it.
#[derive(Debug)]
struct ReadText {
    entries: Vec<ReadEntry>,
    /// The first line that sets `TZ`.
    without_effect: Option<usize>,
}

/// The schedules that an import would create.
#[derive(Clone, Debug)]
pub struct ImportPreview {
    /// The lines or items of the text.
    pub entries: Vec<ImportEntry>,
    /// The number of the first line that sets `TZ`, which has no effect on the times.
    pub without_effect: Option<usize>,
}

/// A line or an item of a text.
#[derive(Clone, Debug)]
pub struct ImportEntry {
    /// The number of the line or the item, from 1.
    pub number: usize,
    /// The schedule that it becomes, or the reasons why it becomes none.
    pub schedule: Result<ImportedSchedule, Vec<String>>,
}

/// A schedule as an import would create it, without its secrets.
#[derive(Clone, Debug)]
pub struct ImportedSchedule {
    /// The name.
    pub name: String,
    /// The cron expression.
    pub cron_expression: String,
    /// The timezone.
    pub timezone: String,
    /// The method.
    pub http_method: HttpMethod,
    /// The URL. Its query may contain secrets.
    pub endpoint: String,
    /// `true` if it runs by its cron expression.
    pub is_enabled: bool,
}

impl From<ScheduleDraft> for ImportedSchedule {
    fn from(draft: ScheduleDraft) -> Self {
        Self {
            name: draft.name,
            cron_expression: draft.definition.cron_expression,
            timezone: draft.definition.timezone,
            http_method: draft.definition.http_method,
            endpoint: draft.definition.endpoint,
            is_enabled: draft.is_enabled,
        }
    }
}

/// The service that imports schedules. It reads a limited number of texts at once.
pub struct ScheduleImports {
    schedules: Schedules,
    permits: Arc<Semaphore>,
}

impl ScheduleImports {
    /// Creates the service.
    pub fn new(schedules: Schedules) -> Self {
        Self { schedules, permits: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Begins an import. Returns `None` if others take all permits for a second.
    pub async fn begin(&self) -> Option<ScheduleImport> {
        let schedules = self.schedules.clone();
        let permit = tokio::select! {
            biased;
            permit = self.permits.clone().acquire_owned() => permit.ok()?,
            () = schedules.0.clock.sleep(MAX_WAIT) => return None,
        };
        Some(ScheduleImport { schedules, permit: Arc::new(permit) })
    }
}

/// An import. It holds a permit until it is dropped and its text has been read.
pub struct ScheduleImport {
    schedules: Schedules,
    permit: Arc<OwnedSemaphorePermit>,
}

impl ScheduleImport {
    /// Returns the schedules that an import would create, without any change.
    pub async fn preview(
        &self,
        account: AccountId,
        text: &Arc<ImportText>,
    ) -> Result<ImportPreview, CommandError> {
        let ReadText { entries, without_effect } = self.read(text).await?;
        let checked = self.checked(account, entries).await?;
        let entries = checked.into_iter().map(|(entry, _)| entry).collect();
        Ok(ImportPreview { entries, without_effect })
    }

    /// Creates the schedules of all valid entries, like a batch of the bulk API: all or none.
    pub async fn create(
        &self,
        account: AccountId,
        call: Call,
        text: &Arc<ImportText>,
    ) -> Result<Vec<Schedule>, CommandError> {
        let checked = self.checked(account, self.read(text).await?.entries).await?;
        let items: Vec<_> = checked.into_iter().filter_map(|(_, item)| item).collect();
        if items.is_empty() {
            return Err(FieldErrors::of("text", "No line can be imported").into());
        }
        let batch = format!("[{}]", items.join(","));
        let batch = ScheduleBatch::parse(batch.as_bytes());
        let batch = batch.map_err(|error| FieldErrors::of("text", error.to_string()))?;
        self.schedules.create_bulk(account, call, batch).await
    }

    /// Checks the entries of a text. Returns each with its item, if that is valid.
    async fn checked(
        &self,
        account: AccountId,
        entries: Vec<ReadEntry>,
    ) -> Result<Vec<(ImportEntry, Option<String>)>, CommandError> {
        let parts = &self.schedules.0;
        let plan = parts.admit(account).await?;
        let now = parts.clock.now();
        let mut checked = Vec::new();
        for ReadEntry { number, item } in entries {
            let drafted = item.and_then(|item| {
                let creation = object::<ScheduleCreation>(item.as_bytes());
                let creation = creation.map_err(|error| vec![error.to_string()])?;
                let draft = creation.draft(&parts.outbound).map_err(sentences)?;
                let within = check_new(&draft, &plan, now);
                within.map_err(|exceeded| vec![exceeded.to_string()])?;
                Ok((ImportedSchedule::from(draft), item))
            });
            let (schedule, item) = match drafted {
                Ok((schedule, item)) => (Ok(schedule), Some(item)),
                Err(messages) => (Err(messages), None),
            };
            checked.push((ImportEntry { number, schedule }, item));
            if checked.len() % CHECKED_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(checked)
    }

    /// Reads a text where it delays no other task.
    async fn read(&self, text: &Arc<ImportText>) -> Result<ReadText, CommandError> {
        let (text, permit) = (text.clone(), self.permit.clone());
        let entries = spawn_blocking(move || {
            // The permit is free again at the end, even if the client has disconnected.
            let _permit = permit;
            read(&text)
        });
        Ok(entries.await.map_err(|_| CommandError::Panicked)??)
    }
}

/// Reads a text: JSON if it begins with a bracket, else a crontab.
fn read(ImportText { text, timezone }: &ImportText) -> Result<ReadText, FieldErrors> {
    // A browser sends each line break as CR LF.
    if text.len() - text.matches("\r\n").count() > MAX_IMPORT {
        let most = MAX_IMPORT >> 20;
        return Err(FieldErrors::of("text", format!("Must be at most {most} MiB")));
    }
    let text = text.trim_start_matches('\u{feff}');
    let read = if text.trim_start().starts_with(['[', '{']) {
        ReadText { entries: json::read(text, MAX_BATCH)?, without_effect: None }
    } else {
        let mut errors = FieldErrors::new();
        let zone =
            rules::timezone(Field::Value(timezone.clone())).optional("timezone", &mut errors);
        crontab::read(text, &errors.unless_any(zone)?.unwrap_or_default(), MAX_BATCH)
    };
    match read.entries.len() {
        0 => Err(FieldErrors::of("text", "The text has no schedules")),
        1..=MAX_BATCH => Ok(read),
        _ => Err(FieldErrors::of("text", format!("Must hold 1 to {MAX_BATCH} schedules"))),
    }
}

/// Returns the errors of an item as sentences that name the fields.
fn sentences(errors: FieldErrors) -> Vec<String> {
    let of_field =
        |(field, messages): (String, Vec<String>)| format!("{field}: {}", messages.join(", "));
    errors.into_iter().map(of_field).collect()
}
