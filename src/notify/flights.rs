//! Tries under way, in all and by channel: from the claim until their end is recorded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::ChannelId;

/// Counts tries under way. Clones share the counts.
#[derive(Clone)]
pub(super) struct Flights(Arc<Inner>);

struct Inner {
    most: usize,
    per_channel: usize,
    under_way: Mutex<UnderWay>,
}

#[derive(Default)]
struct UnderWay {
    total: usize,
    channels: HashMap<ChannelId, usize>,
}

/// A try under way; dropped when it has ended.
pub(super) struct Flight {
    inner: Arc<Inner>,
    channel: ChannelId,
}

/// What may be claimed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Deliveries in all.
    pub(super) total: usize,
    /// Deliveries of one channel.
    pub(super) per_channel: usize,
    /// The channels that have no room.
    pub(super) busy: Vec<ChannelId>,
}

impl Flights {
    /// None yet; at most `most` in all and `per_channel` of a channel.
    pub(super) fn new(most: usize, per_channel: usize) -> Self {
        Self(Arc::new(Inner { most, per_channel, under_way: Mutex::default() }))
    }

    /// What may be claimed now. A claim takes half of a channel's room, so that a channel whose tries are
    /// half done goes on and none is over its limit.
    pub(super) fn room(&self) -> Room {
        let inner = &self.0;
        let step = inner.per_channel.div_ceil(2);
        let under_way = inner.lock();
        let full = |(_, count): &(&ChannelId, &usize)| **count + step > inner.per_channel;
        Room {
            total: inner.most.saturating_sub(under_way.total),
            per_channel: step,
            busy: under_way.channels.iter().filter(full).map(|(channel, _)| *channel).collect(),
        }
    }

    /// How many there are.
    pub(super) fn under_way(&self) -> usize {
        self.0.lock().total
    }

    /// Begins a try.
    pub(super) fn begin(&self, channel: ChannelId) -> Flight {
        let mut under_way = self.0.lock();
        under_way.total += 1;
        *under_way.channels.entry(channel).or_default() += 1;
        Flight { inner: self.0.clone(), channel }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut under_way = self.inner.lock();
        under_way.total -= 1;
        let left = under_way.channels.get_mut(&self.channel).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            under_way.channels.remove(&self.channel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_never_has_more_than_its_share() {
        let flights = Flights::new(10, 3);
        let [one, two] = [1, 2].map(|byte| ChannelId::from_bytes([byte; 16]));
        assert_eq!(flights.room(), Room { total: 10, per_channel: 2, busy: Vec::new() });
        let first = flights.begin(one);
        assert_eq!(flights.room(), Room { total: 9, per_channel: 2, busy: Vec::new() });
        let _second = flights.begin(one);
        let _third = flights.begin(two);
        assert_eq!(flights.room(), Room { total: 7, per_channel: 2, busy: vec![one] });
        drop(first);
        assert_eq!(flights.room(), Room { total: 8, per_channel: 2, busy: Vec::new() });
    }
}
