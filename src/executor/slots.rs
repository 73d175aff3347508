//! Slots: how many attempts may be under way, in all, per account and per host.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::Settings;
use crate::domain::AccountId;
use crate::domain::ticket::{HostKey, Ticket};
use crate::queue::Room;

/// The slots of an executor.
pub(super) struct Slots {
    total: usize,
    per_account: usize,
    per_host: usize,
    state: Mutex<State>,
    hint: Arc<Notify>,
}

#[derive(Default)]
struct State {
    used: usize,
    accounts: HashMap<AccountId, usize>,
    hosts: HashMap<HostKey, usize>,
    /// Whether the dispatcher found less room than tickets and waits for more.
    wanted: bool,
}

/// A slot in use; dropping it frees it, however the attempt ended.
pub(super) struct Slot {
    slots: Arc<Slots>,
    account: AccountId,
    host: HostKey,
}

impl Slots {
    /// `hint` is notified when a slot is freed that the dispatcher waits for.
    pub(super) fn new(settings: &Settings, hint: Arc<Notify>) -> Self {
        Self {
            total: settings.slots,
            per_account: settings.per_account,
            per_host: settings.per_host,
            state: Mutex::default(),
            hint,
        }
    }

    /// The room there is now.
    pub(super) fn room(&self) -> Room {
        let state = self.lock();
        Room {
            total: self.total.saturating_sub(state.used),
            per_account: self.per_account,
            accounts: left(&state.accounts, self.per_account),
            per_host: self.per_host,
            hosts: left(&state.hosts, self.per_host),
        }
    }

    /// Takes the slot for a ticket. More than there is room for is the caller's fault only for a
    /// moment: the next room is smaller by as much.
    pub(super) fn take(self: &Arc<Self>, ticket: &Ticket) -> Slot {
        let mut state = self.lock();
        state.used += 1;
        *state.accounts.entry(ticket.account).or_default() += 1;
        *state.hosts.entry(ticket.host).or_default() += 1;
        Slot { slots: self.clone(), account: ticket.account, host: ticket.host }
    }

    /// Asks for a hint at the next freed slot.
    pub(super) fn want_more(&self) {
        self.lock().wanted = true;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        state.used -= 1;
        release(&mut state.accounts, self.account);
        release(&mut state.hosts, self.host);
        if std::mem::take(&mut state.wanted) {
            self.slots.hint.notify_one();
        }
    }
}

fn left<K: Copy + Eq + Hash>(used: &HashMap<K, usize>, cap: usize) -> HashMap<K, usize> {
    used.iter().map(|(key, used)| (*key, cap.saturating_sub(*used))).collect()
}

fn release<K: Eq + Hash>(used: &mut HashMap<K, usize>, key: K) {
    use std::collections::hash_map::Entry;
    if let Entry::Occupied(mut entry) = used.entry(key) {
        *entry.get_mut() -= 1;
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::shard::ShardId;
    use crate::domain::{JobId, Timestamp};

    #[test]
    fn room_shrinks_with_use_and_grows_back() {
        let settings = Settings { slots: 3, per_account: 2, per_host: 2, ..Settings::default() };
        let slots = Arc::new(Slots::new(&settings, Arc::default()));
        let at = Timestamp::from_millis(0);
        let ticket = Ticket {
            job: JobId::new(at, 1),
            shard: ShardId(0),
            account: AccountId::new(at, 1),
            host: HostKey(1),
            start: at,
        };
        let slot = slots.take(&ticket);
        let room = slots.room();
        assert_eq!(
            (room.total, room.accounts[&ticket.account], room.hosts[&HostKey(1)]),
            (2, 1, 1)
        );
        drop(slot);
        let room = slots.room();
        assert_eq!((room.total, room.accounts.len(), room.hosts.len()), (3, 0, 0));
    }
}
