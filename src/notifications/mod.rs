//! Commands and queries on notification channels, preferences and deliveries, for the API and the
//! dashboard alike.
//!
//! Place in the flow: a front door passes on what a user wrote as a request of `requests`. A command
//! checks it, asks `channels` about configurations, and writes the store. Deliveries are made by the
//! notifier, not here; only the test notification of a verification is sent here.
//!
//! Invariants:
//! - A configuration never leaves this module, except to its channel and to the store. A generated
//!   secret is in the result of the command that generated it, and nowhere else.
//! - A channel is verified only with the configuration that the test notification was sent to. If
//!   somebody changes it meanwhile, the verification is a conflict.
//! - No transaction is open while a test notification is sent.
//! - A command runs to its end, even if its caller goes away.
//! - A plan's limits are checked by the transaction that would exceed them, or before. A suspended
//!   account changes nothing.
//! - TENANT-1: a channel, schedule or delivery of another account is answered as one that does not
//!   exist.
//!
//! On failure: a store error is passed on, and nothing has changed unless the error is transient. A
//! test notification that fails leaves the channel as it was.

mod channel_commands;
mod channel_queries;
mod deliveries;
mod error;
mod field;
mod limits;
mod preferences;
mod requests;
mod unsubscribe;
mod verification;
mod warning;

use std::future::Future;
use std::sync::Arc;

pub use channel_commands::{ChannelWithSecret, LONGEST_OVERLAP_SECONDS};
pub use channel_queries::ChannelFilter;
pub use error::NotificationError;
pub use field::{Field, FromJson};
pub use preferences::{MOST_CHANNELS, Preference};
pub use requests::{ChannelCreation, ChannelUpdate, PreferenceUpdate, SecretRotation};

use crate::channels::Channels;
use crate::domain::call::Call;
use crate::domain::plan::Plans;
use crate::domain::{AccountId, AuditId, ChannelId, Timestamp};
use crate::runtime::{Clock, Random, TaskKind, Tasks};
use crate::store::{SharedStore, StoredChannel, Write};

/// Commands and queries on channels, preferences and deliveries. Clones share everything.
#[derive(Clone)]
pub struct Notifications(Arc<NotificationParts>);

/// What the commands work with.
pub struct NotificationParts {
    /// Keeps channels, preferences and deliveries.
    pub store: SharedStore,
    /// Checks configurations and sends test notifications.
    pub channels: Channels,
    /// Tells the time.
    pub clock: Clock,
    /// Draws ids.
    pub random: Random,
    /// Runs commands to their end.
    pub tasks: Tasks,
    /// What accounts are allowed.
    pub plans: Arc<Plans>,
}

impl Notifications {
    /// Works with `parts`.
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
    fn write(&self, account: AccountId, call: Call, now: Timestamp) -> Write {
        let (Call { author, once }, entry) = (call, AuditId::new(now, self.random.bits()));
        Write { account, now, author, entry, once }
    }

    async fn stored(
        &self,
        account: AccountId,
        id: ChannelId,
    ) -> Result<StoredChannel, NotificationError> {
        self.store.channel(account, id).await?.ok_or(NotificationError::NoSuchChannel)
    }
}
