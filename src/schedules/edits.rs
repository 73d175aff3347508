//! The fields that a user can write on a schedule, each checked, for creation and for changes.

use super::draft::{DEFAULT_RETRIES, DEFAULT_TIMEOUT_SECONDS, Draft};
use super::fields::{Fields, Given, Purpose};
use super::json::Object;
use super::{FieldErrors, rules};
use crate::domain::schedule::{CatchUpPolicy, HttpMethod, OverlapPolicy, UnreadableFields};
use crate::outbound;

/// The names of the writable fields of a schedule.
pub const SCHEDULE_FIELDS: &[&str] = &[
    "name",
    "description",
    "cronExpression",
    "timezone",
    "endpoint",
    "httpMethod",
    "body",
    "headers",
    "maxRetries",
    "timeoutSeconds",
    "expectedStatusCodes",
    "isEnabled",
    "overlapPolicy",
    "catchUpPolicy",
    "signRequests",
];

/// The user's input: each field is absent, reset to its default, or a checked value.
#[derive(Clone, Debug)]
pub(super) struct Edits {
    name: Given<String>,
    description: Given<String>,
    cron_expression: Given<String>,
    timezone: Given<String>,
    endpoint: Given<String>,
    http_method: Given<HttpMethod>,
    body: Given<String>,
    headers: Given<String>,
    max_retries: Given<u8>,
    timeout_seconds: Given<u16>,
    expected_status_codes: Given<String>,
    is_enabled: Given<bool>,
    overlap_policy: Given<OverlapPolicy>,
    catch_up_policy: Given<CatchUpPolicy>,
    sign_requests: Given<bool>,
}

impl Edits {
    /// Checks the fields. `prefix` precedes the field names in errors.
    pub(super) fn read(
        object: Object,
        prefix: &str,
        purpose: Purpose,
        outbound: &outbound::Client,
        errors: &mut FieldErrors,
    ) -> Self {
        let mut fields = Fields::new(object, prefix, errors);
        let edits = Self {
            name: rules::name(&mut fields),
            description: rules::description(&mut fields),
            cron_expression: rules::cron_expression(&mut fields),
            timezone: rules::timezone(&mut fields),
            endpoint: rules::endpoint(&mut fields, outbound),
            http_method: fields.one_of("httpMethod", HttpMethod::ALL),
            body: rules::body(&mut fields),
            headers: rules::headers(&mut fields),
            max_retries: fields.clamped("maxRetries", 1, 10),
            timeout_seconds: fields.clamped("timeoutSeconds", 1, 300),
            expected_status_codes: rules::expected_status_codes(&mut fields),
            is_enabled: fields.flag("isEnabled"),
            overlap_policy: fields.one_of_or_default("overlapPolicy", OverlapPolicy::ALL),
            catch_up_policy: fields.one_of_or_default("catchUpPolicy", CatchUpPolicy::ALL),
            sign_requests: fields.flag("signRequests"),
        };
        for (name, given) in [
            ("name", &edits.name),
            ("cronExpression", &edits.cron_expression),
            ("timezone", &edits.timezone),
            ("endpoint", &edits.endpoint),
        ] {
            fields.require(name, given, purpose);
        }
        fields.require("httpMethod", &edits.http_method, purpose);
        edits
    }

    /// Returns the secret fields that the input contains, including those set to `null`.
    pub(super) fn secrets_given(&self) -> UnreadableFields {
        let is_given = |field: &Given<String>| !matches!(field, Given::Absent);
        UnreadableFields { body: is_given(&self.body), headers: is_given(&self.headers) }
    }

    /// Applies the given fields to a draft.
    pub(super) fn apply(self, draft: &mut Draft) {
        let definition = &mut draft.definition;
        self.name.write_over(&mut draft.name, String::new());
        self.description.write_over_optional(&mut draft.description);
        self.cron_expression.write_over(&mut definition.cron_expression, String::new());
        self.timezone.write_over(&mut definition.timezone, String::new());
        self.endpoint.write_over(&mut definition.endpoint, String::new());
        self.http_method.write_over(&mut definition.http_method, HttpMethod::Get);
        self.body.write_over_optional(&mut definition.body);
        self.headers.write_over_optional(&mut definition.headers);
        self.max_retries.write_over(&mut definition.max_retries, DEFAULT_RETRIES);
        self.timeout_seconds.write_over(&mut definition.timeout_seconds, DEFAULT_TIMEOUT_SECONDS);
        self.expected_status_codes.write_over_optional(&mut definition.expected_status_codes);
        self.sign_requests.write_over(&mut definition.sign_requests, false);
        self.is_enabled.write_over(&mut draft.is_enabled, true);
        self.overlap_policy.write_over(&mut draft.overlap_policy, OverlapPolicy::Allow);
        self.catch_up_policy.write_over(&mut draft.catch_up_policy, CatchUpPolicy::Last);
    }
}
