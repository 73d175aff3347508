//! Which of the due deliveries a claim takes: some of each channel, account and type of channel.

use std::collections::{BTreeSet, HashMap};

use crate::domain::plan::ChannelType;
use crate::domain::{AccountId, ChannelId, DeliveryId};
use crate::store::DeliveryClaim;

/// A due delivery, whose and where to; the type is absent if the channel is gone. Then how many were
/// looked at.
pub(in crate::store) type Found = (DeliveryId, AccountId, ChannelId, Option<ChannelType>, i64);

/// What a claim may still take, and what it has taken.
pub(in crate::store) struct Shares {
    pub(in crate::store) left: u32,
    pub(in crate::store) picked: Vec<DeliveryId>,
    pub(in crate::store) busy: BTreeSet<ChannelId>,
    pub(in crate::store) busy_accounts: BTreeSet<AccountId>,
    per_account: u32,
    accounts: HashMap<AccountId, u32>,
    types: Vec<(ChannelType, u32)>,
}

impl Shares {
    pub(in crate::store) fn of(claim: &DeliveryClaim) -> Self {
        Self {
            left: claim.limit,
            picked: Vec::new(),
            busy: claim.busy.iter().copied().collect(),
            busy_accounts: claim.busy_accounts.iter().copied().collect(),
            per_account: claim.per_account,
            accounts: HashMap::new(),
            types: claim.per_type.clone(),
        }
    }

    /// The types of which nothing more may be taken.
    pub(in crate::store) fn full_types(&self) -> Vec<&'static str> {
        let full = self.types.iter().filter(|(_, left)| *left == 0);
        full.map(|(kind, _)| kind.as_str()).collect()
    }

    /// Takes what there is room for.
    pub(in crate::store) fn take(&mut self, found: Vec<Found>) {
        for (delivery, account, channel, kind, _) in found {
            let of_account = self.accounts.entry(account).or_default();
            let of_type = self.types.iter_mut().find(|(known, _)| Some(*known) == kind);
            let of_type = of_type.map(|(_, left)| left);
            let type_is_full = of_type.as_ref().is_some_and(|left| **left == 0);
            if self.left == 0 || *of_account >= self.per_account || type_is_full {
                continue;
            }
            self.left -= 1;
            *of_account += 1;
            if let Some(left) = of_type {
                *left -= 1;
            }
            self.picked.push(delivery);
            // It has had its share.
            self.busy.insert(channel);
        }
        let full = self.accounts.iter().filter(|(_, count)| **count >= self.per_account);
        self.busy_accounts.extend(full.map(|(account, _)| *account));
    }
}
