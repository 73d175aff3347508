//! A cache of the definitions of versions that have fired, so that the next ticks need not read
//! them.
//!
//! A version never changes, except for the key that its secrets are encrypted with. So the cache
//! holds definitions as they are stored, with encrypted secrets. A version whose requests are
//! signed is not cached: it is read each time, together with the signing secrets. Damage to the row
//! of a cached version is noticed when the row is read again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::domain::schedule::Definition;
use crate::domain::{JobId, VersionId};
use crate::runtime::Clock;
use crate::runtime::Mutex;
use crate::store::{ClaimedJob, UnreadableJob};

/// The maximum size of the cache, in bytes: 32 MiB.
const BYTES: u64 = 32 * 1_048_576;
/// The estimated size of a definition in bytes, with a short body or none.
const USUAL: usize = 512;
/// The cache is cleared at this interval, so that definitions of deleted accounts do not stay.
const KEPT: Duration = Duration::from_mins(10);

/// The cache of definitions.
pub(in crate::store::postgres) struct DefinitionCache {
    read: Cache<VersionId, Arc<Definition>, DefinitionBytes>,
    /// The time of the last clearing, on the monotonic clock.
    begun: Mutex<Duration>,
    clock: Clock,
}

/// The cached definitions of a batch.
#[derive(Default)]
pub(in crate::store::postgres) struct CachedDefinitions(HashMap<VersionId, Arc<Definition>>);

/// A definition that was read for a job.
pub(in crate::store::postgres) struct NewDefinition {
    job: JobId,
    version: VersionId,
    definition: Arc<Definition>,
}

#[derive(Clone)]
struct DefinitionBytes;

impl Weighter<VersionId, Arc<Definition>> for DefinitionBytes {
    fn weight(&self, _: &VersionId, definition: &Arc<Definition>) -> u64 {
        let Definition { cron_expression, timezone, endpoint, body, headers, .. } = &**definition;
        let optional = [body, headers, &definition.expected_status_codes];
        let texts = [cron_expression, timezone, endpoint].into_iter();
        let texts: usize = texts.chain(optional.into_iter().flatten()).map(String::len).sum();
        (size_of::<Definition>() + texts) as u64
    }
}

impl DefinitionCache {
    pub(in crate::store::postgres) fn new(clock: Clock) -> Self {
        let begun = Mutex::new(clock.monotonic());
        let usual = usize::try_from(BYTES).map_or(0, |bytes| bytes / USUAL);
        Self { read: Cache::with_weighter(usual, BYTES, DefinitionBytes), begun, clock }
    }

    /// Returns the cached definitions of these versions.
    pub(in crate::store::postgres) fn cached(
        &self,
        versions: impl Iterator<Item = VersionId>,
    ) -> CachedDefinitions {
        self.begin_anew();
        CachedDefinitions(versions.filter_map(|id| Some((id, self.read.get(&id)?))).collect())
    }

    /// Caches definitions that were read, except those of damaged jobs.
    pub(in crate::store::postgres) fn keep(
        &self,
        new: Vec<NewDefinition>,
        damaged: &[UnreadableJob],
    ) {
        for NewDefinition { job, version, definition } in new {
            if damaged.iter().all(|damaged| damaged.job != job) {
                self.read.insert(version, definition);
            }
        }
    }

    fn begin_anew(&self) {
        let now = self.clock.monotonic();
        let mut begun = self.begun.lock();
        if now.saturating_sub(*begun) >= KEPT {
            *begun = now;
            self.read.clear();
        }
    }
}

impl CachedDefinitions {
    pub(in crate::store::postgres) fn of(&self, version: VersionId) -> Option<&Definition> {
        self.0.get(&version).map(|definition| &**definition)
    }

    /// Returns the definitions that were read for these jobs, with secrets encrypted as they are
    /// stored. Leaves out cached versions, and those whose requests are signed.
    pub(in crate::store::postgres) fn new_of(&self, claimed: &[ClaimedJob]) -> Vec<NewDefinition> {
        let is_new = |claimed: &&ClaimedJob| {
            !claimed.definition.sign_requests && self.of(claimed.version).is_none()
        };
        let new = |ClaimedJob { job, version, definition, .. }: &ClaimedJob| NewDefinition {
            job: *job,
            version: *version,
            definition: Arc::new(definition.clone()),
        };
        claimed.iter().filter(is_new).map(new).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;
    use crate::domain::schedule::HttpMethod;

    fn new(version: u8) -> NewDefinition {
        let definition = Definition {
            cron_expression: "* * * * *".to_owned(),
            timezone: "UTC".to_owned(),
            endpoint: "https://example.com/".to_owned(),
            http_method: HttpMethod::Get,
            body: None,
            headers: None,
            max_retries: 1,
            timeout_seconds: 30,
            expected_status_codes: None,
            sign_requests: false,
        };
        let version = VersionId::from_bytes([version; 16]);
        NewDefinition { job: JobId::from_bytes([1; 16]), version, definition: Arc::new(definition) }
    }

    #[test]
    fn they_are_known_for_a_while() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let definitions = DefinitionCache::new(clock.clone());
        let is_cached = || {
            let version = VersionId::from_bytes([1; 16]);
            definitions.cached([version].into_iter()).of(version).is_some()
        };
        for _ in 0..2 {
            definitions.keep(vec![new(1)], &[]);
            clock.advance(KEPT / 2);
            assert!(is_cached());
            clock.advance(KEPT / 2);
            assert!(!is_cached());
        }
    }

    #[test]
    fn a_long_text_weighs_more() {
        let mut long = new(1);
        let short = DefinitionBytes.weight(&long.version, &long.definition);
        Arc::make_mut(&mut long.definition).body = Some("x".repeat(1_000));
        assert_eq!(DefinitionBytes.weight(&long.version, &long.definition), short + 1_000);
    }
}
