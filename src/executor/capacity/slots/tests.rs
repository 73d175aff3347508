//! Tests of the slots: the capacity, what starts past the queue, and the shares of accounts.

use super::*;
use crate::domain::Timestamp;
use crate::domain::shard::ShardId;

const NOW: Duration = Duration::from_secs(1);

fn slots() -> Arc<Slots> {
    let settings =
        ExecutorSettings { slots: 3, per_account: 2, per_host: 2, ..ExecutorSettings::default() };
    Arc::new(Slots::new(&settings, Arc::default()))
}

fn ticket(job: u128, account: u128) -> Ticket {
    let at = Timestamp::from_millis(0);
    Ticket {
        job: JobId::new(at, job),
        shard: ShardId(0),
        account: AccountId::new(at, account),
        host: HostKey(1),
        start: at,
    }
}

#[test]
fn capacity_shrinks_with_use_and_grows_back() {
    let (slots, ticket) = (slots(), ticket(1, 1));
    let slot = slots.take(&ticket, NOW);
    let capacity = slots.capacity(NOW);
    assert_eq!(
        (capacity.total, capacity.accounts[&ticket.account], capacity.hosts[&HostKey(1)]),
        (2, 1, 1)
    );
    drop(slot);
    let capacity = slots.capacity(NOW);
    assert_eq!((capacity.total, capacity.accounts.len(), capacity.hosts.len()), (3, 0, 0));
}

fn reserve(slots: &Arc<Slots>, tickets: &[Ticket], now: Duration) -> HashMap<JobId, Slot> {
    let turn = slots.turn.try_lock().expect("no other task has the turn");
    slots.reserve(tickets, now, &turn)
}

#[test]
fn an_eighth_of_the_slots_is_left_to_the_queue() {
    let settings = ExecutorSettings {
        slots: 16,
        per_account: 99,
        per_host: 99,
        ..ExecutorSettings::default()
    };
    let slots = Arc::new(Slots::new(&settings, Arc::default()));
    let wanted: Vec<Ticket> = (0..20).map(|job| ticket(job, 1)).collect();
    let reserved = reserve(&slots, &wanted, NOW);
    assert_eq!((reserved.len(), slots.free(), slots.capacity(NOW).total), (14, 0, 2));
    assert!(wanted[..14].iter().all(|ticket| reserved.contains_key(&ticket.job)), "in turn");
    drop(reserved);
    assert_eq!(slots.free(), 14);
}

#[test]
fn nothing_starts_past_waiting_tickets() {
    let slots = slots();
    slots.set_queued(true);
    assert!(reserve(&slots, &[ticket(1, 1)], NOW).is_empty(), "of this executor");
    slots.set_queued(false);
    // An account that has been at its cap may have tickets in the queue, and so may a host.
    let full = [ticket(1, 1), ticket(2, 1)].map(|ticket| slots.take(&ticket, NOW));
    let late = NOW + FULL_FOR * 9;
    slots.capacity(late);
    drop(full);
    let other = Ticket { host: HostKey(2), ..ticket(3, 2) };
    let wanted = [Ticket { host: HostKey(2), ..ticket(4, 1) }, ticket(5, 2), other];
    let reserved = reserve(&slots, &wanted, late);
    assert_eq!(reserved.into_keys().collect::<Vec<_>>(), [other.job]);
    assert_eq!(reserve(&slots, &wanted[..1], late + FULL_FOR).len(), 1, "for a while");
}

#[test]
fn an_account_has_no_more_under_way_than_its_share() {
    let (slots, account) = (slots(), ticket(0, 1).account);
    let limits = HashMap::from([(account, 1)]);
    let wanted = vec![ticket(1, 1), ticket(2, 2), ticket(3, 1)];
    let (within, beyond) = slots.within(&limits, wanted, NOW);
    assert_eq!((within, beyond), (vec![ticket(1, 1), ticket(2, 2)], vec![ticket(3, 1)]));
    let slot = slots.take(&ticket(1, 1), NOW);
    assert_eq!(slots.capacity(NOW).accounts[&account], 0);
    let (within, _) = slots.within(&limits, vec![ticket(3, 1)], NOW);
    assert_eq!(within, [], "the first one is under way");
    drop(slot);
    assert_eq!(slots.capacity(NOW).accounts[&account], 1, "one more, not as many as others may");
    let later = NOW + NARROW_FOR;
    assert_eq!(slots.capacity(later).accounts.get(&account), None, "forgotten");
}
