//! Passwords: their validation, and hashing outside the async threads with bounded concurrency.

use std::fmt;
use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash as Parsed;
use argon2::password_hash::{Error, PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::runtime::Random;
use crate::store::PasswordHash;

/// The allowed length of a password, in bytes.
const LENGTH: std::ops::RangeInclusive<usize> = 10..=1_024;
/// The maximum number of concurrent hashes: each takes a core and its memory for tens of
/// milliseconds.
const AT_ONCE: usize = 2;
/// The maximum number of waiting hashes; with this bound the wait takes seconds, not minutes.
const WAITING: usize = 100;
const SALT_BYTES: usize = 16;

/// A text that can be a password. Its debug output hides the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

/// A text that cannot be a password.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a password must have 10 to 1024 bytes: choose another one")]
pub struct UnusablePassword;

impl Password {
    /// Accepts a text of 10 to 1024 bytes.
    ///
    /// # Errors
    /// If the text is shorter or longer.
    pub fn new(text: &str) -> Result<Self, UnusablePassword> {
        if LENGTH.contains(&text.len()) { Ok(Self(text.to_owned())) } else { Err(UnusablePassword) }
    }

    /// Returns the plain text, to show to its owner.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(hidden)")
    }
}

/// The work factor of a password hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashCost {
    /// The memory, in KiB.
    pub memory_kib: u32,
    /// The number of passes over the memory.
    pub passes: u32,
}

impl Default for HashCost {
    /// The minimum that OWASP recommends for argon2id with one lane.
    fn default() -> Self {
        Self { memory_kib: 19 * 1_024, passes: 2 }
    }
}

/// The reason why a password was not hashed or checked.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum HashError {
    /// Too many hashes are waiting.
    #[error("too many passwords are being checked at once: try again in a few seconds")]
    Busy,
    /// The stored hash cannot be parsed, or the hash function failed.
    #[error("a password cannot be checked: {0}")]
    Failed(String),
}

/// The result of comparing a password with a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordVerdict {
    /// The password is wrong.
    Wrong,
    /// The password is right.
    Right,
    /// The password is right, but its hash has another work factor than new hashes. It should be
    /// hashed again.
    Outdated,
}

/// Hashes and checks passwords with argon2id on blocking threads, only a few at a time.
#[derive(Clone)]
pub struct Passwords {
    admissions: Arc<Semaphore>,
    slots: Arc<Semaphore>,
    random: Random,
    cost: HashCost,
}

impl Passwords {
    /// Creates the service. New hashes have the work factor `cost` and salts from `random`.
    pub fn new(random: Random, cost: HashCost) -> Self {
        let (admissions, slots) = (Semaphore::new(AT_ONCE + WAITING), Semaphore::new(AT_ONCE));
        Self { admissions: Arc::new(admissions), slots: Arc::new(slots), random, cost }
    }

    /// Hashes a password with a new salt.
    ///
    /// # Errors
    /// `Busy` if too many hashes are waiting.
    pub async fn hash(&self, password: &Password) -> Result<PasswordHash, HashError> {
        let (cost, password) = (self.cost, password.clone());
        let mut salt = [0; SALT_BYTES];
        self.random.fill(&mut salt);
        self.apart(move || {
            let hash = hasher(cost)?.hash_password_with_salt(password.0.as_bytes(), &salt);
            hash.map(|hash| PasswordHash(hash.to_string())).map_err(failed)
        })
        .await
    }

    /// Compares a password with a hash. Without a hash it does the same work, so the duration does
    /// not reveal that the hash is missing.
    ///
    /// # Errors
    /// `Busy` if too many hashes are waiting.
    pub async fn verify(
        &self,
        password: &Password,
        hash: Option<&PasswordHash>,
    ) -> Result<PasswordVerdict, HashError> {
        let Some(hash) = hash else {
            return self.hash(password).await.map(|_| PasswordVerdict::Wrong);
        };
        let (cost, password, hash) = (self.cost, password.clone(), hash.clone());
        self.apart(move || {
            let hash = Parsed::new(&hash.0).map_err(|error| failed(error.into()))?;
            match hasher(cost)?.verify_password(password.0.as_bytes(), &hash) {
                Ok(()) if is_of(cost, &hash) => Ok(PasswordVerdict::Right),
                Ok(()) => Ok(PasswordVerdict::Outdated),
                Err(Error::PasswordInvalid) => Ok(PasswordVerdict::Wrong),
                Err(error) => Err(failed(error)),
            }
        })
        .await
    }

    /// Runs `work` on a blocking thread when a slot is free. `work` holds its permits until it is
    /// done, even if its caller stops waiting.
    async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, HashError> + Send + 'static,
    ) -> Result<T, HashError> {
        let admission = self.admissions.clone().try_acquire_owned().map_err(|_| HashError::Busy)?;
        let slot = self.slots.clone().acquire_owned().await.map_err(|_| HashError::Busy)?;
        let run = move || {
            let _held: [OwnedSemaphorePermit; 2] = [admission, slot];
            work()
        };
        let done = tokio::task::spawn_blocking(run).await;
        done.unwrap_or_else(|error| Err(HashError::Failed(error.to_string())))
    }
}

fn hasher(cost: HashCost) -> Result<Argon2<'static>, HashError> {
    let params = Params::new(cost.memory_kib, cost.passes, 1, None);
    let params = params.map_err(|error| HashError::Failed(error.to_string()))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn is_of(cost: HashCost, hash: &Parsed) -> bool {
    let same = |params: Params| {
        (params.m_cost(), params.t_cost(), params.p_cost()) == (cost.memory_kib, cost.passes, 1)
    };
    hash.algorithm.as_str() == "argon2id" && Params::try_from(hash).is_ok_and(same)
}

fn failed(error: Error) -> HashError {
    HashError::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;

    use super::*;
    use crate::runtime::Clock;

    const LIGHT: HashCost = HashCost { memory_kib: 64, passes: 1 };

    fn password(text: &str) -> Password {
        Password::new(text).expect("long enough")
    }

    #[test]
    fn lengths_are_bounded_in_bytes() {
        for (length, ok) in
            [(9, false), (10, true), (1_024, true), (1_025, false), (1 << 20, false)]
        {
            assert_eq!(Password::new(&"a".repeat(length)).is_ok(), ok, "{length}");
        }
        assert!(Password::new("ééééé").is_ok(), "ten bytes");
        assert_eq!(format!("{:?}", password("correct horse")), "Password(hidden)");
    }

    #[tokio::test]
    async fn a_hash_is_argon2id_as_owasp_recommends_and_salted() {
        let passwords = Passwords::new(Random::seeded(1), HashCost::default());
        let [one, two] = [passwords.hash(&password("correct horse")).await.expect("hashed"), {
            passwords.hash(&password("correct horse")).await.expect("hashed")
        }];
        assert!(one.0.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", one.0);
        assert_ne!(one, two);
        let verify = async |text: &str, hash| passwords.verify(&password(text), hash).await;
        assert_eq!(verify("correct horse", Some(&one)).await, Ok(PasswordVerdict::Right));
        assert_eq!(verify("incorrect horse", Some(&one)).await, Ok(PasswordVerdict::Wrong));
        assert_eq!(verify("correct horse", None).await, Ok(PasswordVerdict::Wrong));
    }

    #[tokio::test]
    async fn a_hash_of_other_work_is_outdated() {
        let light = Passwords::new(Random::seeded(1), LIGHT);
        let heavier = HashCost { passes: 2, ..LIGHT };
        let heavy = Passwords::new(Random::seeded(1), heavier);
        let hash = light.hash(&password("correct horse")).await.expect("hashed");
        let verify = async |text: &str| heavy.verify(&password(text), Some(&hash)).await;
        assert_eq!(verify("correct horse").await, Ok(PasswordVerdict::Outdated));
        assert_eq!(verify("incorrect horse").await, Ok(PasswordVerdict::Wrong));
        let damaged = PasswordHash("$argon2id$x".to_owned());
        let failed = heavy.verify(&password("correct horse"), Some(&damaged)).await;
        assert!(matches!(failed, Err(HashError::Failed(_))));
    }

    #[tokio::test]
    async fn a_call_without_an_admission_is_refused_at_once() {
        let passwords = Passwords::new(Random::seeded(1), LIGHT);
        // No hash ends before the last call has begun.
        let slots = passwords.slots.acquire_many(2).await.expect("all slots");
        let all = (0..AT_ONCE + WAITING + 3)
            .map(|_| async { passwords.hash(&password("correct horse")).await });
        let mut all = std::pin::pin!(join_all(all));
        assert!(futures_util::poll!(all.as_mut()).is_pending());
        drop(slots);
        let refused = all.await.iter().filter(|one| **one == Err(HashError::Busy)).count();
        assert_eq!(refused, 3);
        assert!(passwords.hash(&password("correct horse")).await.is_ok(), "there is room again");
    }

    #[tokio::test]
    async fn fifty_at_once_do_not_keep_others_waiting() {
        let (passwords, clock) =
            (Passwords::new(Random::seeded(1), HashCost::default()), Clock::system());
        let all =
            join_all((0..50).map(|_| async { passwords.hash(&password("correct horse")).await }));
        let (done, mut longest) = (std::cell::Cell::new(false), Duration::ZERO);
        let beside = async {
            while !done.get() {
                let asked = clock.monotonic();
                tokio::task::yield_now().await;
                longest = longest.max(clock.monotonic() - asked);
            }
        };
        let ((), hashed) = tokio::join!(beside, async {
            let hashed = all.await;
            done.set(true);
            hashed
        });
        assert!(hashed.iter().all(Result::is_ok));
        // A single hash on the one thread of this test would block it for about that long.
        assert!(longest < Duration::from_millis(200), "{longest:?}");
    }
}
