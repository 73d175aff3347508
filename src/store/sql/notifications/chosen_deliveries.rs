//! Chooses the due deliveries that a claim takes: some of each channel, account and channel type.

use std::collections::{BTreeSet, HashMap};

use crate::domain::plan::ChannelType;
use crate::domain::{AccountId, ChannelId, DeliveryId};
use crate::store::DeliveryClaim;

/// A due delivery with its account, its channel and the channel's type, which is absent if the
/// channel is deleted; then the number of rows that the query has read.
pub(in crate::store) type FoundDelivery =
    (DeliveryId, AccountId, ChannelId, Option<ChannelType>, i64);

/// The deliveries that a claim has chosen, and the limits for further ones.
pub(in crate::store) struct ChosenDeliveries {
    pub(in crate::store) left: u32,
    pub(in crate::store) picked: Vec<DeliveryId>,
    pub(in crate::store) busy: BTreeSet<ChannelId>,
    pub(in crate::store) busy_accounts: BTreeSet<AccountId>,
    per_account: u32,
    accounts: HashMap<AccountId, u32>,
    types: Vec<(ChannelType, u32)>,
}

impl ChosenDeliveries {
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

    /// Returns the channel types of which no more deliveries may be taken.
    pub(in crate::store) fn full_types(&self) -> Vec<&'static str> {
        let full = self.types.iter().filter(|(_, left)| *left == 0);
        full.map(|(kind, _)| kind.as_str()).collect()
    }

    /// Takes as many deliveries as the limits allow.
    pub(in crate::store) fn take(&mut self, found: Vec<FoundDelivery>) {
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
            // The query returned the share of this channel; the next query leaves the channel out.
            self.busy.insert(channel);
        }
        let full = self.accounts.iter().filter(|(_, count)| **count >= self.per_account);
        self.busy_accounts.extend(full.map(|(account, _)| *account));
    }
}
