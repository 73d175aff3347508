//! Definitions in JSON results.

use serde::Deserialize;

use crate::domain::schedule::Definition;

/// A definition in a JSON result: its fields in their order.
#[derive(Deserialize)]
pub(in crate::store::sqlite) struct DefinitionRow(
    String,
    String,
    String,
    String,
    Option<String>,
    Option<String>,
    u8,
    u16,
    Option<String>,
    u8,
);

impl DefinitionRow {
    /// Returns the definition, or `None` if its HTTP method is unknown.
    pub(in crate::store::sqlite) fn definition(self) -> Option<Definition> {
        let Self(cron_expression, timezone, endpoint, method, body, headers, ..) = self;
        Some(Definition {
            cron_expression,
            timezone,
            endpoint,
            http_method: method.parse().ok()?,
            body,
            headers,
            max_retries: self.6,
            timeout_seconds: self.7,
            expected_status_codes: self.8,
            sign_requests: self.9 != 0,
        })
    }
}
