//! Commands and queries on notification channels, preferences and deliveries. The API and the
//! dashboard both use them.
//!
//! Place in the flow: the API or the dashboard turns user input into a request of `requests`. A
//! command validates the request, asks `channels` to check the configuration, and writes to the
//! store. The notifier makes the deliveries; this module sends only the test notification of a
//! verification.
//!
//! Invariants:
//! - A configuration leaves this module only towards its channel and the store. A generated secret
//!   is returned by the command that generated it, and appears nowhere else.
//! - A verification is valid only for the configuration that the test notification was sent with.
//!   If the configuration changes in the meantime, the verification is answered as a conflict.
//! - No transaction is open while a test notification is sent.
//! - A command runs to its end, even if its caller disconnects.
//! - The limits of a plan are checked before or inside the transaction that could exceed them. A
//!   suspended account cannot change anything.
//! - TENANT-1: a channel, schedule or delivery of another account is answered like one that does
//!   not exist.
//!
//! On failure: store errors are returned to the caller. Unless such an error is transient, nothing
//! has changed. A failed test notification leaves the channel unchanged.

mod channel_commands;
mod channel_queries;
mod deliveries;
mod error;
mod limits;
mod preferences;
mod requests;
mod unsubscribe;
mod verification;
mod warning;

use std::future::Future;
use std::sync::Arc;

pub use channel_commands::{ChannelWithSecret, MAX_OVERLAP_SECONDS};
pub use channel_queries::ChannelFilter;
pub use error::NotificationError;
pub use preferences::{MAX_CHANNELS, Preference};
pub use requests::{ChannelCreation, ChannelUpdate, PreferenceUpdate, SecretRotation};

use crate::channels::Channels;
use crate::domain::call::Call;
use crate::domain::plan::Plans;
use crate::domain::{AccountId, AuditId, ChannelId, Timestamp};
use crate::runtime::{Clock, Random, TaskKind, Tasks};
use crate::store::{SharedStore, StoredChannel, WriteContext};

/// Commands and queries on channels, preferences and deliveries. Clones share the same state.
#[derive(Clone)]
pub struct Notifications(Arc<NotificationParts>);

/// The dependencies of the commands.
pub struct NotificationParts {
    /// Stores channels, preferences and deliveries.
    pub store: SharedStore,
    /// Checks configurations and sends test notifications.
    pub channels: Channels,
    /// The source of the current time.
    pub clock: Clock,
    /// The source of random bits for ids.
    pub random: Random,
    /// Runs commands to their end.
    pub tasks: Tasks,
    /// The configured plans, which limit accounts.
    pub plans: Arc<Plans>,
}

impl Notifications {
    /// Creates the commands with `parts` as their dependencies.
    pub fn new(parts: NotificationParts) -> Self {
        Self(Arc::new(parts))
    }

    /// Runs a command to its end, even if the caller stops waiting.
    async fn run<T: Send + 'static>(
        &self,
        command: impl Future<Output = Result<T, NotificationError>> + Send + 'static,
    ) -> Result<T, NotificationError> {
        match self.0.tasks.spawn(TaskKind::Command, command).await {
            Ok(Some(result)) => result,
            _ if self.0.tasks.aborting().is_cancelled() => Err(NotificationError::Stopping),
            _ => Err(NotificationError::Panicked),
        }
    }
}

impl NotificationParts {
    fn write(&self, account: AccountId, call: Call, now: Timestamp) -> WriteContext {
        let (Call { author, idempotency }, entry) = (call, AuditId::new(now, self.random.bits()));
        WriteContext { account, now, author, entry, idempotency }
    }

    async fn stored(
        &self,
        account: AccountId,
        id: ChannelId,
    ) -> Result<StoredChannel, NotificationError> {
        self.store.channel(account, id).await?.ok_or(NotificationError::NoSuchChannel)
    }
}
