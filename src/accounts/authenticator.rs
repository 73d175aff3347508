//! Authentication of API calls: finds the account and scope of the presented key.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

use super::key_uses::{KeyUseWriter, KeyUses};
use super::limiter::{Admission, RateLimiter, RateLimits, RateWindows};
use crate::domain::key::{ApiKey, KeyDigest, Scope};
use crate::domain::plan::{Plan, Plans};
use crate::domain::{AccountId, KeyId, Timestamp};
use crate::queue::WindowState;
use crate::runtime::Clock;
use crate::store::{KnownKey, SharedStore, StoreError};

/// The maximum age at which a cached key is still used.
const FRESH: Duration = Duration::from_secs(4);
/// The age from which one call refreshes a cached key while others keep using the cached one.
const RENEW: Duration = Duration::from_secs(3);
/// The time for which an expired key is reported as expired; after that it is reported as invalid.
const EXPIRED_SHOWN: Duration = Duration::from_secs(30 * 24 * 3_600);
/// The maximum number of entries in each cache of keys and of client addresses.
const REMEMBERED: usize = 10_000;
/// The time for which an address counts as failing after a call without a valid key. It equals the
/// longest rate-limit window.
const REMEMBERED_FOR: Duration = Duration::from_secs(3_600);

/// The key that a request presents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresentedKey<'a> {
    /// No key, or only blanks.
    Nothing,
    /// A value that cannot be a key: several keys at once, or not text.
    Garbled,
    /// A text that may be a key.
    Text(&'a str),
}

/// An authenticated caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The account.
    pub account: AccountId,
    /// The key.
    pub key: KeyId,
    /// The scope of the key.
    pub scope: Scope,
}

/// The reason why a call is refused.
#[derive(Debug)]
pub enum Refusal {
    /// The request presents no key.
    Missing,
    /// The key is unknown or revoked.
    Invalid,
    /// The key has expired.
    Expired,
    /// The key, or the client address, has exceeded a rate limit.
    TooMany,
    /// The key could not be looked up in the store.
    Store(StoreError),
}

/// The result of the authentication and rate limiting of a call.
#[derive(Debug)]
pub struct AccessDecision {
    /// The caller, or the reason for the refusal.
    pub outcome: Result<Caller, Refusal>,
    /// The state of the rate-limit window that is closest to exhaustion; absent if no window is
    /// enabled.
    pub window_state: Option<WindowState>,
}

/// A cached key and the time of its lookup.
struct CachedKey {
    id: KeyId,
    key: KnownKey,
    subject: String,
    windows: RateWindows,
    asked_at: Timestamp,
    renewing: AtomicBool,
    /// `true` if a use of the key was recorded since the lookup.
    used: AtomicBool,
}

impl CachedKey {
    /// Returns the caller of the key at `now`. Revoked keys are never cached, so only the expiry
    /// remains to be checked.
    fn caller(&self, now: Timestamp) -> Result<Caller, Refusal> {
        match self.key.expires_at {
            Some(at) if now >= at.plus(EXPIRED_SHOWN) => Err(Refusal::Invalid),
            Some(at) if now >= at => Err(Refusal::Expired),
            _ => Ok(Caller { account: self.key.account, key: self.id, scope: self.key.scope }),
        }
    }
}

/// A refused call.
struct Refused {
    why: Refusal,
    /// The result of the count for the client address, if the call was already counted.
    counted: Option<Admission>,
}

impl Refused {
    fn uncounted(why: Refusal) -> Self {
        Self { why, counted: None }
    }
}

/// Authenticates API calls and applies their rate limits.
pub struct Authenticator {
    store: SharedStore,
    limiter: RateLimiter,
    clock: Clock,
    plans: Arc<Plans>,
    keys: Cache<[u8; 32], Arc<CachedKey>>,
    unknown: Cache<[u8; 32], Timestamp>,
    /// Client addresses that made calls without a valid key, with the time of the last such call.
    failing: Cache<String, Timestamp>,
    uses: KeyUses,
}

impl Authenticator {
    /// Creates an authenticator that looks up keys in `store` and counts calls with `limiter`. The
    /// limits of a key come from its account's plan, one of `plans`.
    pub fn new(store: SharedStore, limiter: RateLimiter, clock: Clock, plans: Arc<Plans>) -> Self {
        let (keys, unknown) = (Cache::new(REMEMBERED), Cache::new(REMEMBERED));
        let (failing, uses) = (Cache::new(REMEMBERED), KeyUses::default());
        Self { store, limiter, clock, plans, keys, unknown, failing, uses }
    }

    /// Returns the worker that writes the last use of each key to the store.
    pub fn use_writer(&self) -> KeyUseWriter {
        KeyUseWriter::new(self.store.clone(), self.uses.clone())
    }

    /// Returns the rate limits of a key whose account has this plan.
    pub fn rates(&self, plan: &Plan) -> RateLimits {
        self.limiter.limits_of(plan)
    }

    /// Authenticates a call from `address` and counts it: for its key if the key is valid, else for
    /// the address.
    pub async fn admit(&self, presented: PresentedKey<'_>, address: IpAddr) -> AccessDecision {
        let now = self.clock.now();
        let text = match presented {
            PresentedKey::Nothing => return self.refuse(Refusal::Missing, address, now).await,
            PresentedKey::Garbled => return self.refuse(Refusal::Invalid, address, now).await,
            PresentedKey::Text(text) => text,
        };
        let digest = KeyDigest(Sha256::digest(text.as_bytes()).into());
        let cached = match self.keys.get(&digest.0) {
            Some(cached) => self.renewed(cached, digest, now).await.map_err(Refused::uncounted),
            None => self.first_seen(text, digest, address, now).await,
        };
        let judged =
            cached.and_then(|cached| Ok((cached.caller(now).map_err(Refused::uncounted)?, cached)));
        match judged {
            Ok((caller, cached)) => {
                let counted = self.limiter.count(&cached.subject, &cached.windows, now).await;
                let Admission { allowed, window_state } = counted;
                if allowed && !cached.used.swap(true, Ordering::Relaxed) {
                    self.uses.note((caller.account, caller.key), now);
                }
                let outcome = if allowed { Ok(caller) } else { Err(Refusal::TooMany) };
                AccessDecision { outcome, window_state }
            }
            Err(Refused { why, counted: Some(counted) }) => decide(why, counted),
            Err(Refused { why: why @ Refusal::Store(_), .. }) => {
                let window_state =
                    self.limiter.peek_subject(&subject(address), now).await.window_state;
                AccessDecision { outcome: Err(why), window_state }
            }
            Err(Refused { why, .. }) => self.refuse(why, address, now).await,
        }
    }

    /// Counts a call that needs no key, for its client address.
    pub async fn admit_without_key(&self, address: IpAddr) -> Admission {
        self.limiter.count_subject(&subject(address), self.clock.now()).await
    }

    /// Returns a cached key, refreshed from the store if the cached entry is too old.
    async fn renewed(
        &self,
        cached: Arc<CachedKey>,
        digest: KeyDigest,
        now: Timestamp,
    ) -> Result<Arc<CachedKey>, Refusal> {
        let age = now.since(cached.asked_at);
        if age < RENEW || (age < FRESH && cached.renewing.swap(true, Ordering::Relaxed)) {
            return Ok(cached);
        }
        match self.look_up(cached.id, digest, now).await {
            Err(Refusal::Store(_)) if age < FRESH => Ok(cached),
            Err(Refusal::Invalid) => {
                self.keys.remove(&digest.0);
                Err(Refusal::Invalid)
            }
            renewed => renewed,
        }
    }

    /// Looks up a key that is not in the cache, but only while its address has not presented too
    /// many invalid keys on all replicas. If the address has failed on this replica before, the
    /// call is counted in advance and the count is given back if the key is not invalid. Otherwise
    /// the count is only read, so that a client that starts to use many valid keys at once is not
    /// throttled.
    async fn first_seen(
        &self,
        text: &str,
        digest: KeyDigest,
        address: IpAddr,
        now: Timestamp,
    ) -> Result<Arc<CachedKey>, Refused> {
        let key: ApiKey = text.parse().map_err(|_| Refused::uncounted(Refusal::Invalid))?;
        let refused_at = self.unknown.get(&digest.0);
        if refused_at.is_some_and(|refused_at| now.since(refused_at) < FRESH) {
            return Err(Refused::uncounted(Refusal::Invalid));
        }
        let address = subject(address);
        let failed_at = self.failing.get(&address);
        let is_failing = failed_at.is_some_and(|at| now.since(at) < REMEMBERED_FOR);
        let asked = if is_failing {
            self.limiter.count_subject(&address, now).await
        } else {
            self.limiter.peek_subject(&address, now).await
        };
        if !asked.allowed {
            return Err(Refused { why: Refusal::TooMany, counted: Some(asked) });
        }
        let counted = is_failing.then_some(asked);
        let found = self.look_up(key.id(), digest, now).await;
        if matches!(found, Err(Refusal::Invalid)) {
            self.unknown.insert(digest.0, now);
            if counted.is_some() {
                self.failing.insert(address, now);
            }
            return found.map_err(|why| Refused { why, counted });
        }
        if counted.is_some() {
            self.limiter.give_back(&address, now).await;
        }
        found.map_err(Refused::uncounted)
    }

    /// Looks up a key in the store and caches it unless it is invalid.
    async fn look_up(
        &self,
        id: KeyId,
        digest: KeyDigest,
        now: Timestamp,
    ) -> Result<Arc<CachedKey>, Refusal> {
        let found = self.store.key(id).await.map_err(Refusal::Store)?;
        let key = found
            .filter(|key| key.digest.matches(&digest) && key.revoked_at.is_none())
            .ok_or(Refusal::Invalid)?;
        let subject = subject_of_key(key.account, id);
        let (renewing, used) = (AtomicBool::new(false), AtomicBool::new(false));
        let windows = RateWindows::of(self.limiter.limits_of(&self.plans.of(&key.plan)));
        let cached =
            Arc::new(CachedKey { id, key, subject, windows, asked_at: now, renewing, used });
        self.keys.insert(digest.0, cached.clone());
        Ok(cached)
    }

    /// Counts a call without a valid key for its address and refuses it.
    async fn refuse(&self, refusal: Refusal, address: IpAddr, now: Timestamp) -> AccessDecision {
        let address = subject(address);
        let counted = self.limiter.count_subject(&address, now).await;
        self.failing.insert(address, now);
        decide(refusal, counted)
    }
}

/// Returns the decision on a counted call without a valid key.
fn decide(why: Refusal, Admission { allowed, window_state }: Admission) -> AccessDecision {
    AccessDecision { outcome: Err(if allowed { why } else { Refusal::TooMany }), window_state }
}

/// Returns the subject under which the calls of a key are counted.
fn subject_of_key(account: AccountId, key: KeyId) -> String {
    format!("key:{account}:{key}")
}

/// Returns the subject under which the calls of a client address are counted. An IPv6 client
/// usually controls at least a /64 network, so the whole /64 is counted together.
pub(super) fn subject(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => format!("address:{address}"),
        IpAddr::V6(address) => {
            let network = Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX));
            format!("address:{network}/64")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_key_name_its_account() {
        let [account, key] = [[1; 16], [2; 16]];
        let (account, key) = (AccountId::from_bytes(account), KeyId::from_bytes(key));
        assert_eq!(subject_of_key(account, key), format!("key:{account}:{key}"));
    }
}
