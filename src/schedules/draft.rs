//! The state of a schedule as a user requests it.

use crate::domain::cron::Recurrence;
use crate::domain::endpoint::Endpoint;
use crate::domain::schedule::{CatchUpPolicy, Definition, HttpMethod, OverlapPolicy, Schedule};
use crate::domain::ticket::HostKey;
use crate::domain::{Timestamp, VersionId};
use crate::store::NewVersion;

/// The state of a schedule as a user requests it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScheduleDraft {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) definition: Definition,
    pub(super) is_enabled: bool,
    pub(super) overlap_policy: OverlapPolicy,
    pub(super) catch_up_policy: CatchUpPolicy,
}

impl ScheduleDraft {
    /// Returns a draft with all defaults. Required fields are empty and must be overwritten.
    pub(super) fn blank() -> Self {
        Self {
            name: String::new(),
            description: None,
            definition: Definition {
                cron_expression: String::new(),
                timezone: String::new(),
                endpoint: String::new(),
                http_method: HttpMethod::Get,
                body: None,
                headers: None,
                max_retries: 3,
                timeout_seconds: 30,
                expected_status_codes: None,
                sign_requests: false,
            },
            is_enabled: true,
            overlap_policy: OverlapPolicy::Allow,
            catch_up_policy: CatchUpPolicy::Last,
        }
    }

    /// Returns a draft with the schedule's current state.
    pub(super) fn of(schedule: &Schedule) -> Self {
        Self {
            name: schedule.name.clone(),
            description: schedule.description.clone(),
            definition: schedule.definition.clone(),
            is_enabled: schedule.is_enabled,
            overlap_policy: schedule.overlap_policy,
            catch_up_policy: schedule.catch_up_policy,
        }
    }

    /// Returns the new version for the draft's definition.
    pub(super) fn version(&self, id: VersionId) -> NewVersion {
        let endpoint = Endpoint::parse(&self.definition.endpoint);
        // Endpoints are validated before they are stored, so there is always an authority.
        let host = endpoint.map_or(HostKey(0), |endpoint| HostKey::of(endpoint.authority()));
        NewVersion { id, definition: self.definition.clone(), host }
    }

    /// Returns the first tick after `at`; `None` while the schedule is disabled.
    pub(super) fn next_tick(&self, at: Timestamp) -> Option<Timestamp> {
        if !self.is_enabled {
            return None;
        }
        recurrence(&self.definition)?.next_after(at)
    }
}

/// Returns the recurrence of a definition. Definitions are validated before they are stored. If one
/// cannot be parsed any more, the schedule never ticks.
pub(super) fn recurrence(definition: &Definition) -> Option<Recurrence> {
    Recurrence::parse(&definition.cron_expression, &definition.timezone).ok()
}
