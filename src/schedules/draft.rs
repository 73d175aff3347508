//! A schedule as a user wants it to be.

use crate::domain::cron::Cadence;
use crate::domain::endpoint::Endpoint;
use crate::domain::schedule::{CatchUpPolicy, Definition, HttpMethod, OverlapPolicy, Schedule};
use crate::domain::ticket::HostKey;
use crate::domain::{Timestamp, VersionId};
use crate::store::NewVersion;

/// Attempts in all, unless the user says otherwise.
pub(super) const DEFAULT_RETRIES: u8 = 3;
/// The limit of an attempt, unless the user says otherwise.
pub(super) const DEFAULT_TIMEOUT_SECONDS: u16 = 30;

/// A schedule as a user wants it to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) definition: Definition,
    pub(super) is_enabled: bool,
    pub(super) overlap_policy: OverlapPolicy,
    pub(super) catch_up_policy: CatchUpPolicy,
}

impl Draft {
    /// The defaults; what has none is empty and must be written over.
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
                max_retries: DEFAULT_RETRIES,
                timeout_seconds: DEFAULT_TIMEOUT_SECONDS,
                expected_status_codes: None,
                sign_requests: false,
            },
            is_enabled: true,
            overlap_policy: OverlapPolicy::Allow,
            catch_up_policy: CatchUpPolicy::Last,
        }
    }

    /// As the schedule is now.
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

    /// The version that the draft's definition makes.
    pub(super) fn version(&self, id: VersionId) -> NewVersion {
        let endpoint = Endpoint::parse(&self.definition.endpoint);
        // Endpoints are checked before they are stored, so there is always an authority.
        let host = endpoint.map_or(HostKey(0), |endpoint| HostKey::of(endpoint.authority()));
        NewVersion { id, definition: self.definition.clone(), host }
    }

    /// The first tick after `at`, while it is enabled.
    pub(super) fn next_tick(&self, at: Timestamp) -> Option<Timestamp> {
        if !self.is_enabled {
            return None;
        }
        cadence(&self.definition)?.next_after(at)
    }
}

/// When a definition ticks. Definitions are checked before they are stored; should one not be
/// readable any more, it never ticks.
pub(super) fn cadence(definition: &Definition) -> Option<Cadence> {
    Cadence::parse(&definition.cron_expression, &definition.timezone).ok()
}
