//! The contract's words for the catch-up policies.

use super::fields::{Fields, Given};
use crate::domain::schedule::CatchUpPolicy;

/// The word for a policy. That none of the late ticks runs is `skip` to users.
pub fn catch_up_name(policy: CatchUpPolicy) -> &'static str {
    match policy {
        CatchUpPolicy::Last => "last",
        CatchUpPolicy::All => "all",
        CatchUpPolicy::None => "skip",
    }
}

/// Reads `catchUpPolicy`; an empty text stands for the default.
pub(super) fn read(fields: &mut Fields) -> Given<CatchUpPolicy> {
    fields.text("catchUpPolicy").and_then(|text| {
        if text.is_empty() {
            return Given::Null;
        }
        let named = CatchUpPolicy::ALL.iter().find(|policy| catch_up_name(**policy) == text);
        match named {
            Some(policy) => Given::Value(*policy),
            None => fields.refuse("catchUpPolicy", "Must be one of last, all, skip"),
        }
    })
}
