//! Deliveries: one alert to one channel, and its tries.

use std::time::Duration;

use crate::domain::Timestamp;
use crate::domain::names::names;

/// The maximum number of tries of a delivery.
pub const TRIES: u8 = 5;
/// The maximum time by which a `Retry-After` can postpone a try.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);
/// The fraction of a wait that jitter may add or remove.
const JITTER: f64 = 0.2;

names! {
    /// The status of a delivery.
    DeliveryStatus {
        /// It waits for a try, or a try is running.
        Pending = "PENDING",
        /// Final: the channel has accepted it.
        Delivered = "DELIVERED",
        /// Final: no try has succeeded, or none was possible.
        Failed = "FAILED",
        /// Final: it is part of another delivery, a digest or an incident's.
        Merged = "MERGED",
    }
}

names! {
    /// The reason why a try, or a delivery, has failed.
    DeliveryError {
        /// The channel did not answer in time.
        Timeout = "TIMEOUT",
        /// The host's name could not be resolved.
        Dns = "DNS",
        /// No connection could be made.
        Connect = "CONNECT",
        /// The TLS handshake failed or the certificate is not valid.
        Tls = "TLS",
        /// The connection broke, or the answer was not understood.
        Network = "NETWORK",
        /// Policy forbids the address or the port.
        BlockedAddress = "BLOCKED_ADDRESS",
        /// The provider answered with a status that is not a success.
        HttpStatus = "HTTP_STATUS",
        /// The provider asked to slow down.
        RateLimited = "RATE_LIMITED",
        /// The provider says that the destination is gone.
        ChannelGone = "CHANNEL_GONE",
        /// The mail server has not accepted the mail.
        Smtp = "SMTP",
        /// This installation has no mail server.
        MailNotConfigured = "MAIL_NOT_CONFIGURED",
        /// Telegram: no user has written to the bot yet, so it has no chat.
        NoChat = "NO_CHAT",
        /// The channel was deleted before the alert was delivered.
        ChannelDeleted = "CHANNEL_DELETED",
        /// The channel was not verified when the alert was due.
        ChannelUnverified = "CHANNEL_UNVERIFIED",
        /// The schedule had no verified channel.
        NoChannel = "NO_CHANNEL",
        /// The channel's configuration cannot be decrypted or read.
        ConfigUnreadable = "CONFIG_UNREADABLE",
        /// The alert's job has been pruned.
        JobPruned = "JOB_PRUNED",
        /// The notifier was lost during the try: it is unknown if the channel has accepted the
        /// alert.
        NotifierLost = "NOTIFIER_LOST",
        /// A fault of the service itself.
        Internal = "INTERNAL",
    }
}

/// The schedule of tries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrySchedule {
    /// The time of each further try, counted from the first one. There are four, in growing order.
    pub offsets: [Duration; TRIES as usize - 1],
}

impl Default for TrySchedule {
    fn default() -> Self {
        Self { offsets: [10, 60, 300, 1_800].map(Duration::from_secs) }
    }
}

impl TrySchedule {
    /// Returns the time of the try that follows try number `made` of a round; absent if that was
    /// the last one.
    ///
    /// `jitter` (0 to 1) moves the wait by up to 20 % either way. The wait from `now` is
    /// at least `retry_after`, capped at [`MAX_RETRY_AFTER`].
    pub fn next(
        &self,
        made: u8,
        first: Timestamp,
        now: Timestamp,
        jitter: f64,
        retry_after: Option<Duration>,
    ) -> Option<Timestamp> {
        let position = usize::from(made.max(1)) - 1;
        let offset = *self.offsets.get(position)?;
        let before =
            position.checked_sub(1).map_or(Duration::ZERO, |position| self.offsets[position]);
        // Jitter is a fraction of this wait only, so that tries keep their order.
        let spread = offset.saturating_sub(before).mul_f64(JITTER);
        let earliest = offset.saturating_sub(spread);
        let due = first.plus(earliest + spread.mul_f64(2.0 * jitter.clamp(0.0, 1.0)));
        let asked = now.plus(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER));
        Some(due.max(asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(made: u8, jitter: f64, retry_after_s: Option<u64>) -> Option<i64> {
        let first = Timestamp::from_millis(1_000_000);
        let asked = retry_after_s.map(Duration::from_secs);
        let due = TrySchedule::default().next(made, first, first, jitter, asked)?;
        Some(due.as_millis() - first.as_millis())
    }

    #[test]
    fn there_are_five_tries_in_half_an_hour() {
        let due: Vec<_> = (1..=5).map(|made| next(made, 0.5, None)).collect();
        assert_eq!(due, [Some(10_000), Some(60_000), Some(300_000), Some(1_800_000), None]);
    }

    #[test]
    fn jitter_moves_a_try_by_a_fifth_of_its_wait() {
        assert_eq!((next(1, 0.0, None), next(1, 1.0, None)), (Some(8_000), Some(12_000)));
        assert_eq!((next(4, 0.0, None), next(4, 1.0, None)), (Some(1_500_000), Some(2_100_000)));
    }

    #[test]
    fn the_channel_can_ask_for_more_but_not_for_less_nor_for_ever() {
        assert_eq!(next(1, 0.5, Some(90)), Some(90_000));
        assert_eq!(next(3, 0.5, Some(1)), Some(300_000));
        assert_eq!(next(1, 0.5, Some(1_000_000)), Some(3_600_000));
        assert_eq!(next(5, 0.5, Some(1)), None, "the last try stays the last");
    }
}
