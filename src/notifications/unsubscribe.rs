//! Unsubscribing: the reader of a mail wants no more of them.

use super::{NotificationError, NotificationParts, Notifications};
use crate::domain::audit::Author;
use crate::domain::{AccountId, ChannelId};

/// What the account is told of the channel.
const TROUBLE: &str = "Its reader has unsubscribed";

impl Notifications {
    /// Takes `verified` away from the channel that the link in a mail names, so that it gets no more
    /// alerts. The three texts are the parts of the link. A link that is not valid does nothing: the
    /// result does not tell whether an account or a channel exists.
    ///
    /// # Errors
    /// If the store fails.
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
