//! What versions say that have fired, so that it need not be read when they fire again.
//!
//! A version never changes, but for the key that its secrets are sealed with: they are kept as they
//! were stored. One whose requests are signed is read each time, with what signs them.

use std::collections::HashMap;
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::domain::VersionId;
use crate::domain::schedule::Definition;
use crate::store::Claimed;

/// How many bytes are kept.
const BYTES: u64 = 32 * 1_048_576;
/// How many a definition has: with a short body, or none.
const USUAL: u64 = 512;

/// Definitions that have been read.
pub(super) struct Definitions(Cache<VersionId, Arc<Definition>, Bytes>);

/// Those of a batch.
#[derive(Default)]
pub(super) struct Known(HashMap<VersionId, Arc<Definition>>);

#[derive(Clone)]
struct Bytes;

impl Weighter<VersionId, Arc<Definition>> for Bytes {
    fn weight(&self, _: &VersionId, definition: &Arc<Definition>) -> u64 {
        let Definition { cron_expression, timezone, endpoint, body, headers, .. } = &**definition;
        let texts = [
            Some(cron_expression),
            Some(timezone),
            Some(endpoint),
            body.as_ref(),
            headers.as_ref(),
        ];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        (size_of::<Definition>() + texts) as u64
    }
}

impl Definitions {
    pub(super) fn new() -> Self {
        Self(Cache::with_weighter((BYTES / USUAL) as usize, BYTES, Bytes))
    }

    /// What is known of the versions.
    pub(super) fn known(&self, versions: impl Iterator<Item = VersionId>) -> Known {
        Known(versions.filter_map(|id| Some((id, self.0.get(&id)?))).collect())
    }

    /// Keeps what was read of these jobs' versions.
    pub(super) fn keep(&self, claimed: &[Claimed], known: &Known) {
        let read = claimed.iter().filter(|claimed| known.of(claimed.version).is_none());
        for Claimed { version, definition, .. } in
            read.filter(|read| !read.definition.sign_requests)
        {
            self.0.insert(*version, Arc::new(definition.clone()));
        }
    }
}

impl Known {
    pub(super) fn of(&self, version: VersionId) -> Option<&Definition> {
        self.0.get(&version).map(|definition| &**definition)
    }
}
