//! Unsubscribing: the recipient of a mail opts out of further mails.

use super::{NotificationError, NotificationParts, Notifications};
use crate::domain::audit::Author;
use crate::domain::{AccountId, ChannelId};

/// The reason that the account sees on the channel.
const TROUBLE: &str = "Its reader has unsubscribed";

impl Notifications {
    /// Resets `verified` of the channel that a link in a mail names, so that the channel receives
    /// no more alerts. The three texts are the parts of the link. An invalid link is ignored
    /// without an error, so that the response does not reveal whether an account or a channel
    /// exists.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn unsubscribe(
        &self,
        account: &str,
        channel: &str,
        token: String,
    ) -> Result<(), NotificationError> {
        let (Ok(account), Ok(channel)) = (account.parse(), channel.parse()) else { return Ok(()) };
        let parts = self.0.clone();
        self.run(async move {
            match parts.unverify(account, channel, &token).await {
                Err(NotificationError::Suspended | NotificationError::NoSuchAccount) => Ok(()),
                done => done,
            }
        })
        .await
    }
}

impl NotificationParts {
    async fn unverify(
        &self,
        account: AccountId,
        id: ChannelId,
        token: &str,
    ) -> Result<(), NotificationError> {
        let Some(stored) = self.store.channel(account, id).await? else { return Ok(()) };
        let is_valid =
            stored.config.is_some_and(|config| self.channels.unsubscribes(&config, token));
        if is_valid && stored.channel.verified {
            let write = self.write(account, Author::SERVICE.into(), self.clock.now());
            self.store.unverify_channel(&write, id, TROUBLE).await?;
        }
        Ok(())
    }
}
