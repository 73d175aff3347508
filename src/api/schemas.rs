//! Parts of schemas that utoipa cannot derive from Rust types: the names of enumerations, and
//! instants.

use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{Object, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::domain::alert::AlertKind;
use crate::domain::alert::delivery::{DeliveryError, DeliveryStatus};
use crate::domain::audit::Action;
use crate::domain::job::{JobStatus, Trigger};
use crate::domain::outcome::ErrorCode;
use crate::domain::plan::{ChannelType, NotifyOn};
use crate::domain::schedule::{CatchUpPolicy, HttpMethod, OverlapPolicy, SkipReason};

pub(super) fn http_method() -> Object {
    names(HttpMethod::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn overlap_policy() -> Object {
    names(OverlapPolicy::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn overlap_policy_or_null() -> Object {
    names(OverlapPolicy::ALL.iter().map(|item| item.as_str()), true)
}

pub(super) fn catch_up_policy() -> Object {
    names(CatchUpPolicy::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn catch_up_policy_or_null() -> Object {
    names(CatchUpPolicy::ALL.iter().map(|item| item.as_str()), true)
}

pub(super) fn skip_reason() -> Object {
    names(SkipReason::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn action() -> Object {
    names(Action::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn job_status() -> Object {
    names(JobStatus::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn final_status_or_null() -> Object {
    let all = JobStatus::ALL.iter().filter(|item| item.is_final());
    names(all.map(|item| item.as_str()), true)
}

pub(super) fn trigger() -> Object {
    names(Trigger::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn error_code_or_null() -> Object {
    names(ErrorCode::ALL.iter().map(|item| item.as_str()), true)
}

pub(super) fn channel_type() -> Object {
    names(ChannelType::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn channel_type_or_null() -> Object {
    names(ChannelType::ALL.iter().map(|item| item.as_str()), true)
}

pub(super) fn notify_on() -> Object {
    names(NotifyOn::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn alert_kind() -> Object {
    names(AlertKind::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn delivery_status() -> Object {
    names(DeliveryStatus::ALL.iter().map(|item| item.as_str()), false)
}

pub(super) fn delivery_error_or_null() -> Object {
    names(DeliveryError::ALL.iter().map(|item| item.as_str()), true)
}

pub(super) fn instant() -> Object {
    string(false)
}

pub(super) fn instant_or_null() -> Object {
    string(true)
}

fn string(or_null: bool) -> Object {
    let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
    ObjectBuilder::new().schema_type(text(or_null)).format(Some(format)).build()
}

fn names(all: impl Iterator<Item = &'static str>, or_null: bool) -> Object {
    let all = all.map(serde_json::Value::from);
    let all = all.chain(or_null.then_some(serde_json::Value::Null));
    ObjectBuilder::new().schema_type(text(or_null)).enum_values(Some(all)).build()
}

fn text(or_null: bool) -> SchemaType {
    if or_null {
        SchemaType::from_iter([Type::String, Type::Null])
    } else {
        SchemaType::from(Type::String)
    }
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
    SortName = names(SORTS.into_iter(), false);
}

const SORTS: [&str; 8] = [
    "name",
    "-name",
    "nextRunAtUtc",
    "-nextRunAtUtc",
    "lastRunAtUtc",
    "-lastRunAtUtc",
    "createdAt",
    "-createdAt",
];
