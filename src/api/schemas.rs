//! The schemas of enumerations and instants in answers and in query parameters.

use utoipa::openapi::{Object, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::domain::alert::AlertKind;
use crate::domain::alert::delivery::{DeliveryError, DeliveryStatus};
use crate::domain::audit::Action;
use crate::domain::job::{JobStatus, Trigger};
use crate::domain::outcome::ErrorCode;
use crate::domain::plan::{ChannelType, NotifyOn};
use crate::domain::request_body::{self, one_of};
use crate::domain::schedule::{CatchUpPolicy, HttpMethod, OverlapPolicy, SkipReason};
use crate::store::SortField;

/// The values of `sort` and their fields. A `-` may precede a value, for descending order.
pub(super) const SORTS: [(&str, SortField); 4] = [
    ("name", SortField::Name),
    ("nextRunAtUtc", SortField::NextTick),
    ("lastRunAtUtc", SortField::LastRun),
    ("createdAt", SortField::CreatedAt),
];

pub(super) fn http_method() -> Object {
    one_of(HttpMethod::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn overlap_policy() -> Object {
    one_of(OverlapPolicy::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn catch_up_policy() -> Object {
    one_of(CatchUpPolicy::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn skip_reason() -> Object {
    one_of(SkipReason::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn action() -> Object {
    one_of(Action::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn job_status() -> Object {
    one_of(JobStatus::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn final_status_or_null() -> Object {
    let all = JobStatus::ALL.iter().filter(|item| item.is_final());
    one_of(all.map(|item| item.as_str()), true)
}

pub(super) fn trigger() -> Object {
    one_of(Trigger::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn error_code_or_null() -> Object {
    one_of(ErrorCode::ALL.iter().map(|item| item.as_str()), true)
}

pub(super) fn channel_type() -> Object {
    one_of(ChannelType::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn channel_type_or_null() -> Object {
    one_of(ChannelType::ALL.iter().map(|item| item.as_str()), true)
}

pub(super) fn notify_on() -> Object {
    one_of(NotifyOn::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn alert_kind() -> Object {
    one_of(AlertKind::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn delivery_status() -> Object {
    one_of(DeliveryStatus::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn delivery_error_or_null() -> Object {
    one_of(DeliveryError::ALL.iter().map(|item| item.as_str()), true)
}

fn sort() -> Object {
    let both = SORTS.iter().flat_map(|(name, _)| [(*name).to_owned(), format!("-{name}")]);
    one_of(both, false)
}

pub(super) fn instant() -> Object {
    request_body::instant(false)
}

pub(super) fn instant_or_null() -> Object {
    request_body::instant(true)
}

macro_rules! parameters {
    ($($(#[$doc:meta])* $type:ident = $schema:expr;)*) => {$(
        $(#[$doc])*
        pub(super) enum $type {}

        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                $schema.into()
            }
        }

        impl ToSchema for $type {}
    )*};
}

parameters! {
    /// An HTTP method, as a query parameter.
    HttpMethodName = http_method();
    /// The status of a job, as a query parameter.
    JobStatusName = job_status();
    /// The trigger of a job, as a query parameter.
    TriggerName = trigger();
    /// The type of a channel, as a query parameter.
    ChannelTypeName = channel_type();
    /// The status of a delivery, as a query parameter.
    DeliveryStatusName = delivery_status();
    /// The action of an audit entry, as a query parameter.
    ActionName = action();
    /// The sort order of schedules, as a query parameter.
    SortName = sort();
}
