//! How often one may try to get in.

use std::net::IpAddr;

use sha2::{Digest, Sha256};

use super::authenticator::subject;
use super::limiter::{Admission, RateLimiter, RateLimits};
use crate::domain::user::EmailAddress;
use crate::domain::{AccountId, Timestamp};
use crate::queue::SharedQueue;

/// Wrong tries at the password of a user, whether there is one or not. All are counted, since what
/// is counted once it is known to be wrong is counted too late for those that are made at the same
/// time; one that was right, or could not be judged, is given back.
const SIGN_IN_USER: RateLimits = RateLimits { per_minute: 10, per_hour: 60 };
/// Tries to sign in from a client address.
const SIGN_IN_ADDRESS: RateLimits = RateLimits { per_minute: 30, per_hour: 300 };
/// Mails that let a user set the password anew.
const RESET_USER: RateLimits = RateLimits { per_minute: 2, per_hour: 5 };
/// Everything else that can be done without having signed in, from a client address.
const OPEN_ADDRESS: RateLimits = RateLimits { per_minute: 10, per_hour: 60 };
/// Invitations of an account.
const INVITATIONS: RateLimits = RateLimits { per_minute: 20, per_hour: 100 };

/// Test notifications of an account, over all of its channels: a channel that is made anew has its own
/// limit anew.
const CHANNEL_TESTS: RateLimits = RateLimits { per_minute: 20, per_hour: 60 };

/// That too many tries were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttled {
    /// From when on there may be another one.
    pub until: Timestamp,
}

/// Counts tries over all replicas; by this replica alone while the queue is away.
pub struct Throttle {
    sign_in_user: RateLimiter,
    sign_in_address: RateLimiter,
    reset_user: RateLimiter,
    open_address: RateLimiter,
    invitations: RateLimiter,
    channel_tests: RateLimiter,
}

impl Throttle {
    /// Counts in `queue`.
    pub fn new(queue: &SharedQueue) -> Self {
        let limiter = |limits| RateLimiter::new(queue.clone(), limits);
        Self {
            sign_in_user: limiter(SIGN_IN_USER),
            sign_in_address: limiter(SIGN_IN_ADDRESS),
            reset_user: limiter(RESET_USER),
            open_address: limiter(OPEN_ADDRESS),
            invitations: limiter(INVITATIONS),
            channel_tests: limiter(CHANNEL_TESTS),
        }
    }

    /// A try to sign in.
    pub(super) async fn sign_in(&self, address: IpAddr, now: Timestamp) -> Result<(), Throttled> {
        count(&self.sign_in_address, &format!("sign-in:{}", subject(address)), now).await
    }

    /// A try at the password of `email`, which is this version of it. That of nobody has version 0.
    pub(super) async fn password(
        &self,
        email: &EmailAddress,
        version: i64,
        now: Timestamp,
    ) -> Result<(), Throttled> {
        count(&self.sign_in_user, &password_of(email, version), now).await
    }

    /// The try was right, or could not be judged.
    pub(super) async fn was_not_wrong(&self, email: &EmailAddress, version: i64, now: Timestamp) {
        self.sign_in_user.give_back(&password_of(email, version), now).await;
    }

    /// A mail to set the password of `email` anew.
    pub(super) async fn reset(
        &self,
        email: &EmailAddress,
        now: Timestamp,
    ) -> Result<(), Throttled> {
        count(&self.reset_user, &format!("reset:user:{}", hidden(email)), now).await
    }

    /// Anything else that is asked for without having signed in.
    pub(super) async fn open(&self, address: IpAddr, now: Timestamp) -> Result<(), Throttled> {
        count(&self.open_address, &format!("open:{}", subject(address)), now).await
    }

    /// An invitation into an account.
    pub(super) async fn invitation(
        &self,
        account: AccountId,
        now: Timestamp,
    ) -> Result<(), Throttled> {
        count(&self.invitations, &format!("invitations:{account}"), now).await
    }

    /// A test notification to a channel of an account.
    pub async fn channel_test(&self, account: AccountId, now: Timestamp) -> Admission {
        self.channel_tests.count_subject(&format!("channel-tests:{account}"), now).await
    }
}

async fn count(limiter: &RateLimiter, subject: &str, now: Timestamp) -> Result<(), Throttled> {
    let admission = limiter.count_subject(subject, now).await;
    if admission.allowed {
        return Ok(());
    }
    Err(Throttled { until: admission.standing.map_or(now, |standing| standing.resets_at) })
}

/// What tries are counted under: anew for each password, so that nobody is kept out by tries at the
/// one before.
fn password_of(email: &EmailAddress, version: i64) -> String {
    format!("sign-in:user:{}:{version}", hidden(email))
}

/// An address as the queue may know it: the same for all spellings, and none of them.
fn hidden(email: &EmailAddress) -> String {
    let digest = Sha256::digest(email.as_str().as_bytes());
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
