//! From the key that a caller shows to the account it opens.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

use super::key_uses::{KeyUseWriter, KeyUses};
use super::limiter::{Admission, RateLimiter, RateLimits, Windows};
use crate::domain::key::{ApiKey, KeyDigest, Scope};
use crate::domain::plan::{Plan, Plans};
use crate::domain::{AccountId, KeyId, Timestamp};
use crate::queue::Standing;
use crate::runtime::Clock;
use crate::store::{KnownKey, SharedStore, StoreError};

/// How long what is known of a key is used.
const FRESH: Duration = Duration::from_secs(4);
/// From when on one call asks again while others go on with what is known.
const RENEW: Duration = Duration::from_secs(3);
/// How long an expired key is told apart from one that never was.
const EXPIRED_SHOWN: Duration = Duration::from_secs(30 * 24 * 3_600);
/// How many keys of each kind, and addresses, are remembered.
const REMEMBERED: usize = 10_000;
/// For how long an address is known for calls without a valid key: the longest window.
const REMEMBERED_FOR: Duration = Duration::from_secs(3_600);

/// What a request shows as its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presented<'a> {
    /// Nothing, or blanks.
    Nothing,
    /// Something that cannot be a key: several at once, or not text.
    Garbled,
    /// A text.
    Text(&'a str),
}

/// Who makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The account.
    pub account: AccountId,
    /// The key.
    pub key: KeyId,
    /// What the key may do.
    pub scope: Scope,
}

/// Why a call is not let through.
#[derive(Debug)]
pub enum Refusal {
    /// No key was shown.
    Missing,
    /// The key is unknown or revoked.
    Invalid,
    /// The key has expired.
    Expired,
    /// The key, or the client address, has made too many calls.
    TooMany,
    /// The key could not be looked up.
    Store(StoreError),
}

/// What becomes of a call.
#[derive(Debug)]
pub struct Decision {
    /// Who makes it, or why it ends here.
    pub outcome: Result<Caller, Refusal>,
    /// Where the caller stands in the window nearer to exhaustion, if any is switched on.
    pub standing: Option<Standing>,
}

/// What the store said of a key, and when it was asked.
struct Known {
    id: KeyId,
    key: KnownKey,
    subject: String,
    windows: Windows,
    asked_at: Timestamp,
    renewing: AtomicBool,
    /// Whether a use was noted since then.
    used: AtomicBool,
}

impl Known {
    /// Whom the key lets in at `now`. Revoked keys are not remembered, so only the expiry is left
    /// to be judged.
    fn caller(&self, now: Timestamp) -> Result<Caller, Refusal> {
        match self.key.expires_at {
            Some(at) if now >= at.plus(EXPIRED_SHOWN) => Err(Refusal::Invalid),
            Some(at) if now >= at => Err(Refusal::Expired),
            _ => Ok(Caller { account: self.key.account, key: self.id, scope: self.key.scope }),
        }
    }
}

/// A call that is not let through.
struct Refused {
    why: Refusal,
    /// What its client address was told, if it was counted for that already.
    counted: Option<Admission>,
}

impl Refused {
    fn uncounted(why: Refusal) -> Self {
        Self { why, counted: None }
    }
}

/// Lets calls through, or not.
pub struct Authenticator {
    store: SharedStore,
    limiter: RateLimiter,
    clock: Clock,
    plans: Arc<Plans>,
    known: Cache<[u8; 32], Arc<Known>>,
    unknown: Cache<[u8; 32], Timestamp>,
    /// Client addresses that have made calls without a valid key, and when the last one was.
    failing: Cache<String, Timestamp>,
    uses: KeyUses,
}

impl Authenticator {
    /// Looks keys up in `store` and counts calls with `limiter`: for a key within what its
    /// account's plan, one of `plans`, allows.
    pub fn new(store: SharedStore, limiter: RateLimiter, clock: Clock, plans: Arc<Plans>) -> Self {
        let (known, unknown) = (Cache::new(REMEMBERED), Cache::new(REMEMBERED));
        let (failing, uses) = (Cache::new(REMEMBERED), KeyUses::default());
        Self { store, limiter, clock, plans, known, unknown, failing, uses }
    }

    /// Writes when keys were used last.
    pub fn use_writer(&self) -> KeyUseWriter {
        KeyUseWriter::new(self.store.clone(), self.uses.clone())
    }

    /// How many calls a key may make whose account is on this plan.
    pub fn rates(&self, plan: &Plan) -> RateLimits {
        self.limiter.limits_of(plan)
    }

    /// Judges a call from `address` by the key it shows, and counts it: for the key if that is
    /// valid, else for the address.
    pub async fn admit(&self, presented: Presented<'_>, address: IpAddr) -> Decision {
        let now = self.clock.now();
        let text = match presented {
            Presented::Nothing => return self.refuse(Refusal::Missing, address, now).await,
            Presented::Garbled => return self.refuse(Refusal::Invalid, address, now).await,
            Presented::Text(text) => text,
        };
        let digest = KeyDigest(Sha256::digest(text.as_bytes()).into());
        let known = match self.known.get(&digest.0) {
            Some(known) => self.renewed(known, digest, now).await.map_err(Refused::uncounted),
            None => self.first_seen(text, digest, address, now).await,
        };
        let judged =
            known.and_then(|known| Ok((known.caller(now).map_err(Refused::uncounted)?, known)));
        match judged {
            Ok((caller, known)) => {
                let counted = self.limiter.count(&known.subject, &known.windows, now).await;
                let Admission { allowed, standing } = counted;
                if allowed && !known.used.swap(true, Ordering::Relaxed) {
                    self.uses.note((caller.account, caller.key), now);
                }
                let outcome = if allowed { Ok(caller) } else { Err(Refusal::TooMany) };
                Decision { outcome, standing }
            }
            Err(Refused { why, counted: Some(counted) }) => decide(why, counted),
            Err(Refused { why: why @ Refusal::Store(_), .. }) => {
                let standing = self.limiter.peek_subject(&subject(address), now).await.standing;
                Decision { outcome: Err(why), standing }
            }
            Err(Refused { why, .. }) => self.refuse(why, address, now).await,
        }
    }

    /// Counts a call that needs no key for its client address.
    pub async fn admit_without_key(&self, address: IpAddr) -> Admission {
        self.limiter.count_subject(&subject(address), self.clock.now()).await
    }

    /// A key that has worked here before: asks again if what is known of it is too old.
    async fn renewed(
        &self,
        known: Arc<Known>,
        digest: KeyDigest,
        now: Timestamp,
    ) -> Result<Arc<Known>, Refusal> {
        let age = now.since(known.asked_at);
        if age < RENEW || (age < FRESH && known.renewing.swap(true, Ordering::Relaxed)) {
            return Ok(known);
        }
        match self.look_up(known.id, digest, now).await {
            Err(Refusal::Store(_)) if age < FRESH => Ok(known),
            Err(Refusal::Invalid) => {
                self.known.remove(&digest.0);
                Err(Refusal::Invalid)
            }
            renewed => renewed,
        }
    }

    /// A key that has not worked here, or not lately. It is looked up only while its address has not
    /// shown too many keys, on all replicas, that did not work. At an address that is known here for
    /// these it is taken for another one until it is found; at others it is only asked whether there
    /// is room, so that who starts to use many keys at once is not held up by them.
    async fn first_seen(
        &self,
        text: &str,
        digest: KeyDigest,
        address: IpAddr,
        now: Timestamp,
    ) -> Result<Arc<Known>, Refused> {
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

    /// Asks the store; remembers what it says of a key that is not refused for good.
    async fn look_up(
        &self,
        id: KeyId,
        digest: KeyDigest,
        now: Timestamp,
    ) -> Result<Arc<Known>, Refusal> {
        let found = self.store.key(id).await.map_err(Refusal::Store)?;
        let key = found
            .filter(|key| key.digest.matches(&digest) && key.revoked_at.is_none())
            .ok_or(Refusal::Invalid)?;
        let subject = subject_of_key(key.account, id);
        let (renewing, used) = (AtomicBool::new(false), AtomicBool::new(false));
        let windows = Windows::of(self.limiter.limits_of(&self.plans.of(&key.plan)));
        let known = Arc::new(Known { id, key, subject, windows, asked_at: now, renewing, used });
        self.known.insert(digest.0, known.clone());
        Ok(known)
    }

    /// Counts a call that has no valid key.
    async fn refuse(&self, refusal: Refusal, address: IpAddr, now: Timestamp) -> Decision {
        let address = subject(address);
        let counted = self.limiter.count_subject(&address, now).await;
        self.failing.insert(address, now);
        decide(refusal, counted)
    }
}

/// What becomes of a call that has no valid key and was counted.
fn decide(why: Refusal, Admission { allowed, standing }: Admission) -> Decision {
    Decision { outcome: Err(if allowed { why } else { Refusal::TooMany }), standing }
}

/// What the calls of a key are counted under.
fn subject_of_key(account: AccountId, key: KeyId) -> String {
    format!("key:{account}:{key}")
}

/// What the calls of a client address are counted under. A client on IPv6 has at least a /64 to
/// choose addresses from, so these are counted together.
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
    fn what_is_counted_for_a_key_names_its_account() {
        let [account, key] = [[1; 16], [2; 16]];
        let (account, key) = (AccountId::from_bytes(account), KeyId::from_bytes(key));
        assert_eq!(subject_of_key(account, key), format!("key:{account}:{key}"));
    }
}
