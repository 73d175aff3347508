//! Counts the tries under way: in total, by channel, by account and by type of channel. A try
//! counts from its claim until its result is recorded.

use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::plan::ChannelType;
use crate::domain::{AccountId, ChannelId};
use crate::runtime::{Mutex, count_down};

/// The maximum numbers of concurrent tries.
#[derive(Clone, Debug)]
pub(super) struct TryLimits {
    /// The maximum in total.
    pub(super) total: usize,
    /// The maximum to one channel.
    pub(super) per_channel: usize,
    /// The maximum for one account.
    pub(super) per_account: usize,
    /// The maximum for each type of channel.
    pub(super) per_type: Vec<(ChannelType, usize)>,
}

/// Counts tries under way. Clones share the counts.
#[derive(Clone)]
pub(super) struct OngoingTries(Arc<TryCounts>);

struct TryCounts {
    limits: TryLimits,
    under_way: Mutex<UnderWay>,
}

#[derive(Default)]
struct UnderWay {
    total: usize,
    channels: HashMap<ChannelId, usize>,
    accounts: HashMap<AccountId, usize>,
    types: Vec<(ChannelType, usize)>,
}

/// The channel and account that a try counts against.
#[derive(Clone, Copy, Debug)]
pub(super) struct TryOwner {
    pub(super) channel: ChannelId,
    pub(super) account: AccountId,
    pub(super) kind: ChannelType,
}

/// A try under way. Dropping it ends the try in the counts.
pub(super) struct OngoingTry {
    inner: Arc<TryCounts>,
    owner: TryOwner,
}

/// The limits of the next claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClaimLimits {
    /// The maximum number of deliveries in total.
    pub(super) total: usize,
    /// The maximum number of deliveries of one channel.
    pub(super) per_channel: usize,
    /// The channels whose deliveries must not be claimed.
    pub(super) busy: Vec<ChannelId>,
    /// The maximum number of deliveries of one account.
    pub(super) per_account: usize,
    /// The accounts whose deliveries must not be claimed.
    pub(super) busy_accounts: Vec<AccountId>,
    /// The maximum number of deliveries of each type of channel.
    pub(super) per_type: Vec<(ChannelType, usize)>,
}

impl OngoingTries {
    /// Creates the counts, all of them zero.
    pub(super) fn new(limits: TryLimits) -> Self {
        Self(Arc::new(TryCounts { limits, under_way: Mutex::default() }))
    }

    /// Returns the limits of a claim that is made now. A claim takes at most half of the limit of a
    /// channel or account. A channel or account with half of its tries under way can therefore
    /// still be claimed for, and none exceeds its limit.
    pub(super) fn claim_limits(&self) -> ClaimLimits {
        let TryLimits { total, per_channel, per_account, per_type } = &self.0.limits;
        let under_way = self.0.under_way.lock();
        let left = |(kind, most): &(ChannelType, usize)| {
            let of_kind = under_way.types.iter().find(|(known, _)| known == kind);
            (*kind, most.saturating_sub(of_kind.map_or(0, |(_, count)| *count)))
        };
        ClaimLimits {
            total: total.saturating_sub(under_way.total),
            per_channel: per_channel.div_ceil(2),
            busy: full(&under_way.channels, *per_channel),
            per_account: per_account.div_ceil(2),
            busy_accounts: full(&under_way.accounts, *per_account),
            per_type: per_type.iter().map(left).collect(),
        }
    }

    /// Returns the number of tries under way.
    pub(super) fn under_way(&self) -> usize {
        self.0.under_way.lock().total
    }

    /// Counts a try until the returned guard is dropped.
    pub(super) fn begin(&self, owner: TryOwner) -> OngoingTry {
        let mut under_way = self.0.under_way.lock();
        under_way.total += 1;
        *under_way.channels.entry(owner.channel).or_default() += 1;
        *under_way.accounts.entry(owner.account).or_default() += 1;
        match under_way.types.iter_mut().find(|(kind, _)| *kind == owner.kind) {
            Some((_, count)) => *count += 1,
            None => under_way.types.push((owner.kind, 1)),
        }
        OngoingTry { inner: self.0.clone(), owner }
    }
}

/// Returns the keys that have no room for half of `most` more tries.
fn full<K: Copy>(under_way: &HashMap<K, usize>, most: usize) -> Vec<K> {
    let is_full = |(_, count): &(&K, &usize)| **count + most.div_ceil(2) > most;
    under_way.iter().filter(is_full).map(|(key, _)| *key).collect()
}

impl Drop for OngoingTry {
    fn drop(&mut self) {
        let mut under_way = self.inner.under_way.lock();
        under_way.total -= 1;
        count_down(&mut under_way.channels, self.owner.channel);
        count_down(&mut under_way.accounts, self.owner.account);
        let of_kind = under_way.types.iter_mut().find(|(kind, _)| *kind == self.owner.kind);
        if let Some((_, count)) = of_kind {
            *count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(channel: u8, account: u8, kind: ChannelType) -> TryOwner {
        let account = AccountId::from_bytes([account; 16]);
        TryOwner { channel: ChannelId::from_bytes([channel; 16]), account, kind }
    }

    #[test]
    fn no_channel_account_or_type_has_more_than_its_share() {
        let tries = OngoingTries::new(TryLimits {
            total: 10,
            per_channel: 3,
            per_account: 4,
            per_type: vec![(ChannelType::Email, 1)],
        });
        let empty = ClaimLimits {
            total: 10,
            per_channel: 2,
            busy: Vec::new(),
            per_account: 2,
            busy_accounts: Vec::new(),
            per_type: vec![(ChannelType::Email, 1)],
        };
        assert_eq!(tries.claim_limits(), empty);
        let (one, two) = (owner(1, 1, ChannelType::Slack), owner(2, 1, ChannelType::Email));
        let first = tries.begin(one);
        assert_eq!(tries.claim_limits(), ClaimLimits { total: 9, ..empty });
        let second = tries.begin(one);
        let third = tries.begin(two);
        let limits = tries.claim_limits();
        assert_eq!((limits.total, limits.busy), (7, vec![one.channel]));
        assert_eq!(limits.busy_accounts, [one.account]);
        assert_eq!(limits.per_type, [(ChannelType::Email, 0)]);
        drop((first, third));
        let limits = tries.claim_limits();
        assert_eq!((limits.total, limits.busy, limits.busy_accounts), (9, Vec::new(), Vec::new()));
        assert_eq!(limits.per_type, [(ChannelType::Email, 1)]);
        drop(second);
        assert_eq!(tries.under_way(), 0);
    }
}
