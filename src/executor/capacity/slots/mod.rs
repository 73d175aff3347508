//! Slots: they limit the attempts under way, in all, per account and per host.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, JobId};
use crate::executor::settings::ExecutorSettings;
use crate::queue::Capacity;
use crate::runtime::{Mutex, count_down};
use crate::telemetry::metrics::{self, CAPS_REACHED};

/// The slots of an executor.
pub(in crate::executor) struct Slots {
    total: usize,
    per_account: usize,
    per_host: usize,
    state: Mutex<SlotState>,
    /// Locked from reading the capacity until taking the slots, so that no other task takes them in
    /// between.
    turn: tokio::sync::Mutex<()>,
    hint: Arc<Notify>,
}

/// The time for which an account that wanted more than its share is remembered. Meanwhile the queue
/// is not asked for tickets of it that would only be put back.
const NARROW_FOR: Duration = Duration::from_secs(2);
/// The time for which tickets of an account or host that was at its cap are assumed to wait in the
/// queue. Meanwhile the queue hands them out in their order, and no job of that account or host
/// starts past the queue.
const FULL_FOR: Duration = Duration::from_secs(1);
/// One in this many slots is left to the queue's tickets.
const FOR_TICKETS: usize = 8;
/// The maximum number of accounts in `narrow`, because each `take` sends all of them to the queue.
const MAX_NARROW: usize = 256;

#[derive(Default)]
struct SlotState {
    used: usize,
    accounts: HashMap<AccountId, usize>,
    hosts: HashMap<HostKey, usize>,
    /// Accounts that want more than their share.
    narrow: HashMap<AccountId, NarrowShare>,
    /// Set if the dispatcher found less capacity than tickets and waits for more.
    wanted: bool,
    /// The number of slots freed so far.
    freed: u64,
    /// Set while tickets may wait for capacity. Meanwhile nothing starts past them.
    queued: bool,
    /// Accounts and hosts that have been at their caps, each with the end of the time in which
    /// tickets of it are assumed to wait, on the monotonic clock.
    full: HashMap<CappedParty, Duration>,
}

/// An account or a host, whose attempts are capped.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum CappedParty {
    Account(AccountId),
    Host(HostKey),
}

/// The right to take slots according to the capacity that was read. Only one task has it at a time.
pub(in crate::executor) type SlotTurn<'a> = tokio::sync::MutexGuard<'a, ()>;

/// A share that is smaller than what its account wants.
struct NarrowShare {
    share: usize,
    /// The end of this limit, on the monotonic clock.
    until: Duration,
}

/// A slot in use; dropping it frees it, however the attempt ended.
pub(in crate::executor) struct Slot {
    slots: Arc<Slots>,
    account: AccountId,
    host: HostKey,
}

impl Slots {
    /// Creates the slots. `hint` is notified when a slot that the dispatcher waits for is freed.
    pub(in crate::executor) fn new(settings: &ExecutorSettings, hint: Arc<Notify>) -> Self {
        Self {
            total: settings.slots,
            per_account: settings.per_account,
            per_host: settings.per_host,
            state: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            hint,
        }
    }

    /// Returns the capacity at `now`, on the monotonic clock.
    pub(in crate::executor) fn capacity(&self, now: Duration) -> Capacity {
        let mut state = self.state.lock();
        state.narrow.retain(|_, narrow| narrow.until > now);
        state.full.retain(|_, until| *until > now);
        state.note_full(self, now);
        let mut accounts = left(&state.accounts, self.per_account);
        for (account, narrow) in &state.narrow {
            let used = state.accounts.get(account).copied().unwrap_or_default();
            accounts.insert(*account, narrow.share.saturating_sub(used));
        }
        Capacity {
            total: self.total.saturating_sub(state.used),
            per_account: self.per_account,
            accounts,
            per_host: self.per_host,
            hosts: left(&state.hosts, self.per_host),
        }
    }

    /// Divides tickets into those that fit into their accounts' `account_concurrency`, and the
    /// rest. The tickets of an account without a share all fit.
    pub(in crate::executor) fn within(
        &self,
        limits: &HashMap<AccountId, usize>,
        tickets: Vec<Ticket>,
        now: Duration,
    ) -> (Vec<Ticket>, Vec<Ticket>) {
        if limits.is_empty() {
            return (tickets, Vec::new());
        }
        let mut state = self.state.lock();
        let mut left: HashMap<AccountId, usize> = HashMap::new();
        for (account, share) in limits {
            let used = state.accounts.get(account).copied().unwrap_or_default();
            left.insert(*account, share.saturating_sub(used));
        }
        let (within, beyond): (Vec<_>, Vec<_>) =
            tickets.into_iter().partition(|ticket| match left.get_mut(&ticket.account) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    true
                }
                Some(_) => false,
                None => true,
            });
        for Ticket { account, .. } in &beyond {
            if state.narrow.len() < MAX_NARROW || state.narrow.contains_key(account) {
                let share = limits[account].min(self.per_account);
                state.narrow.insert(*account, NarrowShare { share, until: now + NARROW_FOR });
            }
        }
        (within, beyond)
    }

    /// Takes the slot for a ticket that was handed out for the capacity of this turn.
    pub(in crate::executor) fn take(self: &Arc<Self>, ticket: &Ticket, now: Duration) -> Slot {
        self.state.lock().enter(ticket, self, now);
        self.slot(ticket)
    }

    fn slot(self: &Arc<Self>, ticket: &Ticket) -> Slot {
        Slot { slots: self.clone(), account: ticket.account, host: ticket.host }
    }

    /// Waits for the turn. Until the returned guard is dropped, no other task takes slots.
    pub(in crate::executor) async fn turn(&self) -> SlotTurn<'_> {
        self.turn.lock().await
    }

    /// Takes slots for those of the tickets that may start past the queue: there is capacity for
    /// them, and no ticket waits for it. A part of the slots stays free: with these the dispatcher
    /// takes tickets, and so finds out when the queue is empty.
    pub(in crate::executor) fn reserve(
        self: &Arc<Self>,
        tickets: &[Ticket],
        now: Duration,
        _turn: &SlotTurn<'_>,
    ) -> HashMap<JobId, Slot> {
        let mut state = self.state.lock();
        let mut slots = HashMap::with_capacity(tickets.len());
        for ticket in tickets {
            if state.free(self) > 0
                && state.has_capacity(ticket, self, now)
                // A second slot for the same job must not be made: dropping it takes the lock held
                // here.
                && let Entry::Vacant(vacant) = slots.entry(ticket.job)
            {
                state.enter(ticket, self, now);
                vacant.insert(self.slot(ticket));
            }
        }
        slots
    }

    /// Returns the number of slots that are free for jobs that start past the queue.
    pub(in crate::executor) fn free(&self) -> usize {
        self.state.lock().free(self)
    }

    /// Returns the maximum number of slots in use at which jobs may start past the queue.
    pub(in crate::executor) fn most(&self) -> usize {
        self.total - self.total / FOR_TICKETS
    }

    /// Returns how many slots must be freed before `wanted` jobs can start past the queue.
    pub(in crate::executor) fn lacking(&self, wanted: usize) -> usize {
        (self.state.lock().used + wanted).saturating_sub(self.most())
    }

    /// Returns the number of slots freed so far.
    pub(in crate::executor) fn freed(&self) -> u64 {
        self.state.lock().freed
    }

    /// Sets whether tickets may wait for capacity.
    pub(in crate::executor) fn set_queued(&self, queued: bool) {
        self.state.lock().queued = queued;
    }

    /// Returns `true` if `used` attempts keep tickets of the same account or host waiting while
    /// there are free slots. A cap that is not below the total never does.
    fn are_capped(&self, cap: usize, used: usize) -> bool {
        cap < self.total && used >= cap
    }

    /// Asks for a hint at the next freed slot.
    pub(in crate::executor) fn want_more(&self) {
        self.state.lock().wanted = true;
    }
}

impl SlotState {
    /// Counts a slot as taken for a ticket.
    fn enter(&mut self, ticket: &Ticket, slots: &Slots, now: Duration) {
        self.used += 1;
        if self.used == slots.total {
            CAPS_REACHED.with(metrics::Cap::Slots).add(1);
        }
        let of_account = self.accounts.entry(ticket.account).or_default();
        *of_account += 1;
        if slots.are_capped(slots.per_account, *of_account) {
            self.full.insert(CappedParty::Account(ticket.account), now + FULL_FOR);
            CAPS_REACHED.with(metrics::Cap::Account).add(1);
        }
        let of_host = self.hosts.entry(ticket.host).or_default();
        *of_host += 1;
        if slots.are_capped(slots.per_host, *of_host) {
            self.full.insert(CappedParty::Host(ticket.host), now + FULL_FOR);
            CAPS_REACHED.with(metrics::Cap::Host).add(1);
        }
    }

    /// Returns the number of slots that are free for jobs that start past the queue.
    fn free(&self, slots: &Slots) -> usize {
        if self.queued { 0 } else { slots.most().saturating_sub(self.used) }
    }

    /// Returns `true` if the ticket's account and host have capacity that no other ticket of theirs
    /// waits for.
    fn has_capacity(&self, ticket: &Ticket, slots: &Slots, now: Duration) -> bool {
        let used = |used: Option<&usize>, cap| used.copied().unwrap_or_default() < cap;
        let caps = [CappedParty::Account(ticket.account), CappedParty::Host(ticket.host)];
        used(self.accounts.get(&ticket.account), slots.per_account)
            && used(self.hosts.get(&ticket.host), slots.per_host)
            && caps.iter().all(|cap| self.full.get(cap).is_none_or(|until| *until <= now))
    }

    /// Notes that tickets may wait of every account and host that is at its cap.
    fn note_full(&mut self, slots: &Slots, now: Duration) {
        let is_full = |cap| move |used: &usize| slots.are_capped(cap, *used);
        let (account, host) = (is_full(slots.per_account), is_full(slots.per_host));
        let accounts = self.accounts.iter().filter(|(_, used)| account(used));
        let hosts = self.hosts.iter().filter(|(_, used)| host(used));
        let caps = accounts.map(|(account, _)| CappedParty::Account(*account));
        let caps = caps.chain(hosts.map(|(host, _)| CappedParty::Host(*host)));
        self.full.extend(caps.map(|cap| (cap, now + FULL_FOR)));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state.lock();
        state.used -= 1;
        state.freed += 1;
        count_down(&mut state.accounts, self.account);
        count_down(&mut state.hosts, self.host);
        if std::mem::take(&mut state.wanted) {
            self.slots.hint.notify_one();
        }
    }
}

fn left<K: Copy + Eq + Hash>(used: &HashMap<K, usize>, cap: usize) -> HashMap<K, usize> {
    used.iter().map(|(key, used)| (*key, cap.saturating_sub(*used))).collect()
}

#[cfg(test)]
mod tests;
