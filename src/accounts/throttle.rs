//! The rate limits for attempts without a session, for pages, invitations, test notifications and
//! test requests.

use std::net::IpAddr;

use sha2::{Digest, Sha256};

use super::authenticator::subject;
use super::limiter::{Admission, RateLimiter, RateLimits};
use crate::domain::user::EmailAddress;
use crate::domain::{AccountId, Timestamp};
use crate::queue::SharedQueue;

/// Wrong passwords for a user, whether or not the user exists. Every attempt is counted before the
/// check, because concurrent guesses would otherwise pass before the first one is counted. The
/// count is given back if the password was right or could not be checked.
const SIGN_IN_USER: RateLimits = RateLimits { per_minute: 10, per_hour: 60 };
/// Sign-in attempts from a client address.
const SIGN_IN_ADDRESS: RateLimits = RateLimits { per_minute: 30, per_hour: 300 };
/// Password reset mails to a user.
const RESET_USER: RateLimits = RateLimits { per_minute: 2, per_hour: 5 };
/// All other requests without a session, from a client address.
const OPEN_ADDRESS: RateLimits = RateLimits { per_minute: 10, per_hour: 60 };
/// Invitations of an account.
const INVITATIONS: RateLimits = RateLimits { per_minute: 20, per_hour: 100 };

/// Test notifications of an account, over all its channels. A recreated channel would otherwise get
/// a new limit.
const CHANNEL_TESTS: RateLimits = RateLimits { per_minute: 20, per_hour: 60 };
/// Test requests of an account, over all its schedules. They are not jobs, so no quota counts them.
const TEST_REQUESTS: RateLimits = RateLimits { per_minute: 10, per_hour: 100 };

/// Requests for pages of the dashboard, from a client address. People of one office share one, and
/// the page of a running job without a stream asks every 3 seconds.
const PAGES: RateLimits = RateLimits { per_minute: 1_200, per_hour: 20_000 };

/// The error for too many attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttled {
    /// The time at which another attempt is allowed.
    pub until: Timestamp,
}

/// Counts attempts over all replicas, or on this replica alone while the queue is unavailable.
pub struct Throttle {
    sign_in_user: RateLimiter,
    sign_in_address: RateLimiter,
    reset_user: RateLimiter,
    open_address: RateLimiter,
    invitations: RateLimiter,
    channel_tests: RateLimiter,
    test_requests: RateLimiter,
    pages: RateLimiter,
}

impl Throttle {
    /// Creates a throttle that counts in `queue`.
    pub fn new(queue: &SharedQueue) -> Self {
        let limiter = |limits| RateLimiter::new(queue.clone(), limits);
        Self {
            sign_in_user: limiter(SIGN_IN_USER),
            sign_in_address: limiter(SIGN_IN_ADDRESS),
            reset_user: limiter(RESET_USER),
            open_address: limiter(OPEN_ADDRESS),
            invitations: limiter(INVITATIONS),
            channel_tests: limiter(CHANNEL_TESTS),
            test_requests: limiter(TEST_REQUESTS),
            pages: limiter(PAGES),
        }
    }

    /// Counts a sign-in attempt from a client address.
    pub(super) async fn sign_in(&self, address: IpAddr, now: Timestamp) -> Result<(), Throttled> {
        count(&self.sign_in_address, &format!("sign-in:{}", subject(address)), now).await
    }

    /// Counts an attempt at version `version` of the password of `email`. An unknown user has
    /// version 0.
    pub(super) async fn password(
        &self,
        email: &EmailAddress,
        version: i64,
        now: Timestamp,
    ) -> Result<(), Throttled> {
        count(&self.sign_in_user, &password_of(email, version), now).await
    }

    /// Gives back an attempt that was right or could not be checked.
    pub(super) async fn refund_sign_in(&self, email: &EmailAddress, version: i64, now: Timestamp) {
        self.sign_in_user.give_back(&password_of(email, version), now).await;
    }

    /// Counts a password reset mail to `email`.
    pub(super) async fn reset(
        &self,
        email: &EmailAddress,
        now: Timestamp,
    ) -> Result<(), Throttled> {
        count(&self.reset_user, &format!("reset:user:{}", hidden(email)), now).await
    }

    /// Counts any other request without a session.
    pub(super) async fn open(&self, address: IpAddr, now: Timestamp) -> Result<(), Throttled> {
        count(&self.open_address, &format!("open:{}", subject(address)), now).await
    }

    /// Counts an invitation into an account.
    pub(super) async fn invitation(
        &self,
        account: AccountId,
        now: Timestamp,
    ) -> Result<(), Throttled> {
        count(&self.invitations, &format!("invitations:{account}"), now).await
    }

    /// Counts a request for a page.
    pub async fn page(&self, address: IpAddr, now: Timestamp) -> Result<(), Throttled> {
        count(&self.pages, &format!("pages:{}", subject(address)), now).await
    }

    /// Counts a test notification to a channel of an account.
    pub async fn channel_test(&self, account: AccountId, now: Timestamp) -> Admission {
        self.channel_tests.count_subject(&format!("channel-tests:{account}"), now).await
    }

    /// Counts a test request of an account.
    pub async fn test_request(&self, account: AccountId, now: Timestamp) -> Result<(), Throttled> {
        count(&self.test_requests, &format!("test-requests:{account}"), now).await
    }
}

async fn count(limiter: &RateLimiter, subject: &str, now: Timestamp) -> Result<(), Throttled> {
    let admission = limiter.count_subject(subject, now).await;
    if admission.allowed {
        return Ok(());
    }
    Err(Throttled {
        until: admission.window_state.map_or(now, |window_state| window_state.resets_at),
    })
}

/// Returns the subject of password attempts. Each password version has its own count, so attempts
/// at an old password do not lock out the user.
fn password_of(email: &EmailAddress, version: i64) -> String {
    format!("sign-in:user:{}:{version}", hidden(email))
}

/// Returns a digest of an address, because the queue must not store addresses. All spellings of an
/// address have the same digest.
fn hidden(email: &EmailAddress) -> String {
    let digest = Sha256::digest(email.as_str().as_bytes());
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
