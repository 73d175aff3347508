//! Verification of a channel. A channel is verified when a test notification has been delivered to
//! it.

use std::time::Duration;

use super::{NotificationError, NotificationParts, Notifications};
use crate::channels::{Destination, SendError};
use crate::domain::alert::AlertKind;
use crate::domain::alert::content::{Alert, Subject};
use crate::domain::alert::delivery::DeliveryError;
use crate::domain::call::Call;
use crate::domain::channel::Channel;
use crate::domain::{AccountId, ChannelId, EventId};
use crate::store::{ChannelChanged, StoredChannel, TestAllowance};

/// The timeout of a test notification.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Notifications {
    /// Sends one test notification and marks the channel as verified if it is delivered. If it
    /// fails, the channel stays unchanged.
    pub async fn verify_channel(
        &self,
        account: AccountId,
        call: Call,
        id: ChannelId,
    ) -> Result<Channel, NotificationError> {
        let parts = self.0.clone();
        self.run(async move {
            parts.admit(account).await?;
            // The test is counted before it is sent, so that concurrent calls cannot exceed the
            // limit.
            parts.count_test(account, id).await?;
            let StoredChannel { channel, config, revision } = parts.stored(account, id).await?;
            let Some(config) = config else {
                return Err(NotificationError::VerificationFailed {
                    code: DeliveryError::ConfigUnreadable,
                    message: "The channel's configuration cannot be decrypted, set it again".into(),
                    status: None,
                });
            };
            let to = Destination { account, channel: id, kind: channel.kind, config };
            let test = parts.test(account, channel.label);
            let sent = parts.channels.send(&to, &test, TIMEOUT).await.map_err(failed)?;
            let write = parts.write(account, call, parts.clock.now());
            let completed = sent.config.as_ref();
            match parts.store.verify_channel(&write, id, revision, completed).await? {
                ChannelChanged::Done => Ok(parts.stored(account, id).await?.channel),
                ChannelChanged::NotFound => Err(NotificationError::NoSuchChannel),
                // The test proved only that the old configuration works, not the current one.
                ChannelChanged::Stale => Err(NotificationError::Conflict(
                    "The channel was changed during the test, verify it again",
                )),
            }
        })
        .await
    }
}

impl NotificationParts {
    async fn count_test(&self, account: AccountId, id: ChannelId) -> Result<(), NotificationError> {
        let now = self.clock.now();
        match self.store.count_test(account, id, now).await? {
            TestAllowance::Yes => Ok(()),
            TestAllowance::NotFound => Err(NotificationError::NoSuchChannel),
            TestAllowance::No { reset_at } => {
                Err(NotificationError::TooManyTests { reset_at, wait: reset_at.since(now) })
            }
        }
    }

    fn test(&self, account: AccountId, label: String) -> Alert {
        let now = self.clock.now();
        Alert {
            id: EventId::new(now, self.random.bits()),
            kind: AlertKind::ChannelTest,
            created_at: now,
            account,
            subject: Subject::Test { label },
            link: None,
        }
    }
}

fn failed(error: SendError) -> NotificationError {
    let SendError { code, message, status, .. } = error;
    NotificationError::VerificationFailed { code, message, status }
}
