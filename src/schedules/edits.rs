//! Checks the fields of a request and writes them over the draft of a schedule.

use super::draft::ScheduleDraft;
use super::requests::{ScheduleCreation, ScheduleUpdate};
use super::{FieldErrors, rules};
use crate::domain::request_body::Field;
use crate::domain::schedule::{CatchUpPolicy, HttpMethod, OverlapPolicy, UnreadableFields};
use crate::outbound;

impl ScheduleCreation {
    /// Returns the draft of the new schedule. Fields that are missing have their defaults.
    pub(super) fn draft(self, outbound: &outbound::Client) -> Result<ScheduleDraft, FieldErrors> {
        self.0.write_over(ScheduleDraft::blank(), true, outbound)
    }
}

impl ScheduleUpdate {
    /// Returns `draft` with the given fields changed. The errors do not depend on `draft`.
    pub(super) fn apply(
        self,
        draft: ScheduleDraft,
        outbound: &outbound::Client,
    ) -> Result<ScheduleDraft, FieldErrors> {
        self.write_over(draft, false, outbound)
    }

    /// Returns the secret fields that the request contains, including those set to `null`.
    pub(super) fn secrets_given(&self) -> UnreadableFields {
        let is_given = |field: &Field<String>| *field != Field::Absent;
        UnreadableFields { body: is_given(&self.body), headers: is_given(&self.headers) }
    }

    fn write_over(
        self,
        mut draft: ScheduleDraft,
        is_new: bool,
        outbound: &outbound::Client,
    ) -> Result<ScheduleDraft, FieldErrors> {
        let mut edit = DraftEdit { is_new, errors: FieldErrors::new() };
        let (new, default) = (&mut draft.definition, ScheduleDraft::blank());
        let usual = default.definition;
        edit.required("name", rules::name(self.name), &mut draft.name);
        edit.optional("description", rules::description(self.description), &mut draft.description);
        edit.required(
            "cronExpression",
            rules::cron_expression(self.cron_expression),
            &mut new.cron_expression,
        );
        edit.required("timezone", rules::timezone(self.timezone), &mut new.timezone);
        edit.required("endpoint", rules::endpoint(self.endpoint, outbound), &mut new.endpoint);
        edit.required("httpMethod", self.http_method.one_of(HttpMethod::ALL), &mut new.http_method);
        edit.optional("body", rules::body(self.body), &mut new.body);
        edit.optional("headers", rules::headers(self.headers), &mut new.headers);
        edit.or_default(
            "maxRetries",
            self.max_retries.clamp(1, 10),
            &mut new.max_retries,
            usual.max_retries,
        );
        edit.or_default(
            "timeoutSeconds",
            self.timeout_seconds.clamp(1, 300),
            &mut new.timeout_seconds,
            usual.timeout_seconds,
        );
        edit.optional(
            "expectedStatusCodes",
            rules::expected_status_codes(self.expected_status_codes),
            &mut new.expected_status_codes,
        );
        edit.or_default("isEnabled", self.is_enabled, &mut draft.is_enabled, default.is_enabled);
        edit.or_default(
            "overlapPolicy",
            self.overlap_policy.null_if(str::is_empty).one_of(OverlapPolicy::ALL),
            &mut draft.overlap_policy,
            default.overlap_policy,
        );
        edit.or_default(
            "catchUpPolicy",
            self.catch_up_policy.null_if(str::is_empty).one_of(CatchUpPolicy::ALL),
            &mut draft.catch_up_policy,
            default.catch_up_policy,
        );
        edit.or_default(
            "signRequests",
            self.sign_requests,
            &mut new.sign_requests,
            usual.sign_requests,
        );
        edit.errors.unless_any(draft)
    }
}

/// Writes values over a draft, and collects the errors of those that are wrong.
struct DraftEdit {
    /// `true` if a field without a default has to be given.
    is_new: bool,
    errors: FieldErrors,
}

impl DraftEdit {
    /// Writes a field that has no default.
    fn required<T>(&mut self, name: &str, given: Field<T>, current: &mut T) {
        let given = if self.is_new {
            given.required(name, &mut self.errors)
        } else {
            given.if_given(name, &mut self.errors)
        };
        if let Some(value) = given {
            *current = value;
        }
    }

    /// Writes a field that `null` clears.
    fn optional<T>(&mut self, name: &str, given: Field<T>, current: &mut Option<T>) {
        self.or_default(name, given.map(Some), current, None);
    }

    /// Writes a field that `null` resets to its default.
    fn or_default<T>(&mut self, name: &str, given: Field<T>, current: &mut T, default: T) {
        let given = match given {
            Field::Null => Some(default),
            given => given.optional(name, &mut self.errors),
        };
        if let Some(value) = given {
            *current = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};
    use utoipa::PartialSchema;

    use super::*;
    use crate::domain::request_body::object;
    use crate::runtime::{Clock, Tasks};

    /// Returns the names of the fields that are wrong in a request to create a schedule.
    fn wrong_fields(request: &Value) -> BTreeSet<String> {
        let egress = outbound::OutboundSettings::default();
        let client = outbound::Client::new(egress, Clock::system(), &Tasks::new());
        let request: ScheduleCreation = object(request.to_string().as_bytes()).expect("an object");
        let errors = request.draft(&client.expect("a client")).expect_err("a wrong field");
        let errors = serde_json::to_value(errors).expect("JSON");
        errors.as_object().expect("an object").keys().cloned().collect()
    }

    #[tokio::test]
    async fn the_fields_of_the_document_are_read_and_required_as_it_says() {
        let document = serde_json::to_value(ScheduleCreation::schema()).expect("JSON");
        let fields = document["properties"].as_object().expect("an object").keys();
        let wrong: Value = fields.clone().map(|name| (name.clone(), json!([]))).collect();
        assert_eq!(wrong_fields(&wrong), fields.cloned().collect());
        let required = document["required"].as_array().expect("an array").iter();
        let required = required.map(|name| name.as_str().expect("a name").to_owned()).collect();
        assert_eq!(wrong_fields(&json!({})), required);
    }
}
