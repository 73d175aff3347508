//! The bodies of requests, with their OpenAPI schemas.
//!
//! The fields are private to the module, so the compiler reports one that is documented but not
//! read.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::openapi::{Object, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::domain::request_body::{Field, instant, one_of};
use crate::domain::schedule::{CatchUpPolicy, HttpMethod, OverlapPolicy};

/// The fields of a schedule to change; other fields stay as they are. `null` means the default and,
/// like an empty text, clears an optional field.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ScheduleChange, examples(json!({ "cronExpression": "0 3 * * *" })))]
pub struct ScheduleUpdate {
    #[serde(default)]
    #[schema(value_type = String, min_length = 1, max_length = 255)]
    pub(super) name: Field<String>,
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 1000)]
    pub(super) description: Field<String>,
    /// Five fields: minute, hour, day of month, month, day of week.
    #[serde(default)]
    #[schema(value_type = String, max_length = 255, examples("*/5 * * * *"))]
    pub(super) cron_expression: Field<String>,
    /// An IANA name.
    #[serde(default)]
    #[schema(value_type = String, examples("Europe/Berlin"))]
    pub(super) timezone: Field<String>,
    /// An absolute http or https URL.
    #[serde(default)]
    #[schema(
        value_type = String,
        format = "uri",
        max_length = 2048,
        examples("https://example.com/hook")
    )]
    pub(super) endpoint: Field<String>,
    #[serde(default)]
    #[schema(schema_with = http_method)]
    pub(super) http_method: Field<String>,
    /// At most 256 KiB. Not sent with GET.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub(super) body: Field<String>,
    /// A JSON object of strings, encoded as a string; at most 64 names and 16 KiB.
    #[serde(default)]
    #[schema(value_type = Option<String>, examples("{\"Authorization\":\"Bearer ...\"}"))]
    pub(super) headers: Field<String>,
    /// The maximum number of attempts, including the first; clamped to 1 to 10.
    #[serde(default)]
    #[schema(value_type = Option<i64>)]
    pub(super) max_retries: Field<i64>,
    /// The timeout of one attempt, in seconds; clamped to 1 to 300.
    #[serde(default)]
    #[schema(value_type = Option<i64>)]
    pub(super) timeout_seconds: Field<i64>,
    /// Codes and ranges that count as success.
    #[serde(default)]
    #[schema(value_type = Option<String>, examples("200-299,410"))]
    pub(super) expected_status_codes: Field<String>,
    /// `true` if the schedule runs by its cron expression.
    #[serde(default)]
    #[schema(value_type = Option<bool>)]
    pub(super) is_enabled: Field<bool>,
    /// The handling of a tick while an earlier job has not finished.
    #[serde(default)]
    #[schema(schema_with = overlap_policy)]
    pub(super) overlap_policy: Field<String>,
    /// The handling of ticks that are over 60 s late.
    #[serde(default)]
    #[schema(schema_with = catch_up_policy)]
    pub(super) catch_up_policy: Field<String>,
    /// `true` if requests carry the headers of Standard Webhooks, signed with the secrets of the
    /// account.
    #[serde(default)]
    #[schema(value_type = Option<bool>)]
    pub(super) sign_requests: Field<bool>,
}

/// A schedule to be created: the fields of an update, some of them required.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct ScheduleCreation(pub(super) ScheduleUpdate);

/// The fields that have no default.
const REQUIRED: [&str; 5] = ["name", "cronExpression", "timezone", "endpoint", "httpMethod"];
/// The descriptions of fields that have one, where they differ from those of an update.
const WITH_DEFAULT: [(&str, &str); 5] = [
    (
        "maxRetries",
        "The maximum number of attempts, including the first; 3 by default, clamped to 1 to 10.",
    ),
    (
        "timeoutSeconds",
        "The timeout of one attempt, in seconds; 30 by default, clamped to 1 to 300.",
    ),
    (
        "expectedStatusCodes",
        "Codes and ranges that count as success; by default every status below 400.",
    ),
    ("isEnabled", "`true` if the schedule runs by its cron expression; `true` by default."),
    (
        "signRequests",
        "`true` if requests carry the headers of Standard Webhooks, signed with the secrets of the\n\
         account; `false` by default. They replace headers of the same names.",
    ),
];

impl PartialSchema for ScheduleCreation {
    fn schema() -> RefOr<Schema> {
        let mut schema = ScheduleUpdate::schema();
        let RefOr::T(Schema::Object(creation)) = &mut schema else { return schema };
        let description = "The schedule to create. Fields that are not listed are ignored; `null` means the default.";
        creation.description = Some(description.to_owned());
        creation.required = REQUIRED.map(str::to_owned).to_vec();
        creation.examples = vec![example()];
        for (name, description) in WITH_DEFAULT {
            if let Some(RefOr::T(Schema::Object(field))) = creation.properties.get_mut(name) {
                field.description = Some(description.to_owned());
            }
        }
        schema
    }
}

impl ToSchema for ScheduleCreation {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("NewSchedule")
    }
}

fn example() -> Value {
    json!({
        "name": "Nightly report",
        "cronExpression": "0 2 * * *",
        "timezone": "Europe/Berlin",
        "endpoint": "https://example.com/reports",
        "httpMethod": "POST",
        "body": "{\"kind\":\"nightly\"}",
        "headers": "{\"Authorization\":\"Bearer ...\"}",
    })
}

/// The name of a schedule to be created, without its other fields.
#[derive(Deserialize)]
pub(super) struct ScheduleName {
    #[serde(default)]
    pub(super) name: Field<String>,
}

/// The request to enable or disable a schedule.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[schema(as = Switch, examples(json!({ "enabled": false })))]
pub struct ScheduleSwitch {
    #[serde(default)]
    #[schema(required, value_type = bool)]
    pub(super) enabled: Field<bool>,
}

/// The expression to preview.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Question, examples(json!({
    "cronExpression": "30 2 * * *",
    "timezone": "Europe/Berlin",
})))]
pub struct PreviewRequest {
    /// Five fields: minute, hour, day of month, month, day of week.
    #[serde(default)]
    #[schema(required, value_type = String, max_length = 255, examples("30 2 * * *"))]
    pub(super) cron_expression: Field<String>,
    /// An IANA name.
    #[serde(default)]
    #[schema(required, value_type = String, examples("Europe/Berlin"))]
    pub(super) timezone: Field<String>,
    /// The number of runs; 10 by default, clamped to 1 to 100.
    #[serde(default)]
    #[schema(value_type = Option<i64>)]
    pub(super) count: Field<i64>,
    /// The start of the preview; now by default.
    #[serde(default)]
    #[schema(schema_with = instant_or_null)]
    pub(super) from: Field<String>,
}

fn http_method() -> Object {
    one_of(HttpMethod::ALL.iter().map(|method| method.as_str()), false)
}

fn overlap_policy() -> Object {
    one_of(OverlapPolicy::ALL.iter().map(|policy| policy.as_str()), true)
}

fn catch_up_policy() -> Object {
    one_of(CatchUpPolicy::ALL.iter().map(|policy| policy.as_str()), true)
}

fn instant_or_null() -> Object {
    instant(true)
}
