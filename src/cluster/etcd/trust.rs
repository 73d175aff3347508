//! The terms of this replica, and the time until which it trusts them.
//!
//! Trust is measured on the monotonic clock from the moment when the renewal of the lease was
//! requested, and is shorter than the lease. So it ends before another replica can get the shards,
//! whatever etcd or the network do. The monotonic clock stands still while the machine is
//! suspended, so trust also ends when the wall clock has run ahead of it.
//!
//! A term continues after its trust has ended, until etcd reports that the lease has ended: etcd
//! may be unavailable to all replicas, and then no other replica can lead. A replica that continues
//! proves its leadership by the epoch in the store. It takes over no shards, with one exception: if
//! the store shows that the leader of a shard has died meanwhile, this replica may replace it until
//! etcd names another leader.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::watch;

use crate::cluster::{Replacement, Term, Terms};
use crate::domain::shard::ShardId;
use crate::runtime::{Clock, Mutex};
use crate::telemetry::metrics::{DEGRADED, Server};

/// The interval at which the trust and the clocks are checked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The source of this replica's terms.
pub struct Trust {
    clock: Clock,
    terms: watch::Sender<Terms>,
    state: Mutex<TrustState>,
}

#[derive(Default)]
struct TrustState {
    /// The shards whose keys belong to this replica.
    held: BTreeSet<ShardId>,
    /// The shards whose dead leaders this replica replaces.
    replaced: BTreeMap<ShardId, Replacement>,
    /// The end of the trust, on the monotonic clock.
    until: Duration,
    last_number: u64,
    closed: bool,
}

impl TrustState {
    /// Returns the term of a shard that is held or whose leader is replaced, given the `last` term.
    /// A shard that is held with a trusted key needs no replacement.
    fn term(&mut self, shard: ShardId, last: Option<Term>, is_trusted: bool) -> Option<Term> {
        let is_by_right = is_trusted && self.held.contains(&shard);
        let replaced = self.replaced.get(&shard).filter(|_| !is_by_right);
        let replaces = replaced.map(|replaced| replaced.epoch);
        let trusted_until = if replaces.is_none() { Some(self.until) } else { None };
        let goes_on = |last: &Term| replaces.is_none() || last.replaces == replaces || is_trusted;
        if let Some(last) = last.filter(goes_on) {
            return Some(Term { trusted_until, replaces, ..last });
        }
        if replaces.is_none() && !is_trusted {
            return None;
        }
        self.last_number += 1;
        Some(Term { number: self.last_number, trusted_until, replaces })
    }
}

impl Trust {
    /// Creates the source of a replica that holds no shard and trusts nothing yet.
    pub fn new(clock: Clock) -> Self {
        Self { clock, terms: watch::Sender::new(Terms::new()), state: Mutex::default() }
    }

    /// Returns a receiver of the shards that this replica is to lead.
    pub fn terms(&self) -> watch::Receiver<Terms> {
        self.terms.subscribe()
    }

    /// Extends the trust after a renewal of the lease, until `until` on the monotonic clock.
    pub fn renew(&self, until: Duration) {
        let mut state = self.state.lock();
        state.until = until;
        self.publish(&mut state);
    }

    /// Sets the shards whose keys belong to this replica.
    pub fn hold(&self, held: BTreeSet<ShardId>) {
        let mut state = self.state.lock();
        state.held = held;
        self.publish(&mut state);
    }

    /// Sets the dead leaders that this replica replaces.
    pub fn replace(&self, replacements: Vec<Replacement>) {
        let mut state = self.state.lock();
        let replaced = replacements.into_iter().map(|one| (one.shard, one));
        state.replaced = replaced.collect();
        self.publish(&mut state);
    }

    /// Applies the holders of shards that etcd names. A replacement ends if etcd names a replica
    /// other than the dead leader.
    pub fn record_holders<'a>(&self, holders: impl Iterator<Item = (ShardId, &'a str)>) {
        let mut state = self.state.lock();
        for (shard, holder) in holders {
            if state.replaced.get(&shard).is_some_and(|replaced| replaced.of != holder) {
                state.replaced.remove(&shard);
            }
        }
        self.publish(&mut state);
    }

    /// Returns `true` if the terms are trusted now.
    pub fn is_trusted_now(&self) -> bool {
        self.is_trusted(&self.state.lock())
    }

    /// Ends the trust until the next renewal.
    pub(super) fn suspend(&self) {
        let mut state = self.state.lock();
        state.until = Duration::ZERO;
        self.publish(&mut state);
    }

    /// Drops all held shards after the lease, and with it all keys, has ended.
    pub fn lose(&self) {
        let mut state = self.state.lock();
        state.held.clear();
        state.until = Duration::ZERO;
        self.publish(&mut state);
    }

    /// Ends all terms for good.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        self.publish(&mut state);
    }

    /// Updates the terms from the state. Receivers are woken only if a term began or ended.
    fn publish(&self, state: &mut TrustState) {
        let is_trusted = self.is_trusted(state);
        self.terms.send_if_modified(|terms| {
            let before: Vec<_> = terms.iter().map(|(shard, term)| (*shard, term.number)).collect();
            let mut last = std::mem::take(terms);
            if !state.closed {
                let mut shards = state.held.clone();
                shards.extend(state.replaced.keys());
                for shard in shards {
                    let term = state.term(shard, last.remove(&shard), is_trusted);
                    terms.extend(term.map(|term| (shard, term)));
                }
            }
            !terms.iter().map(|(shard, term)| (*shard, term.number)).eq(before)
        });
    }

    fn is_trusted(&self, state: &TrustState) -> bool {
        !state.closed && self.clock.monotonic() < state.until
    }

    /// Ends the trust when the machine was suspended, and reports when trust ends or returns.
    pub(super) async fn watch_over(&self) {
        let mut last = self.clock.moment();
        let mut was_trusted = false;
        loop {
            self.clock.sleep(LOOK_EVERY).await;
            was_trusted = self.report_trust(was_trusted);
            let now = self.clock.moment();
            if now.has_jumped_since(last) {
                tracing::warn!(
                    "the machine's clock has jumped, trusting no term until the lease is renewed"
                );
                self.suspend();
            }
            last = now;
        }
    }

    /// Reports in a metric if the terms are trusted, and logs a change. Returns the new state.
    fn report_trust(&self, was_trusted: bool) -> bool {
        let state = self.state.lock();
        let (is_trusted, shards) = (self.is_trusted(&state), state.held.len());
        DEGRADED.with(Server::Cluster).set(usize::from(!is_trusted));
        match (was_trusted, is_trusted) {
            (true, false) => tracing::warn!(
                shards,
                "etcd unreachable, keeping the led shards; the store's epochs decide (cluster.url)"
            ),
            (false, true) => {
                tracing::info!(shards, "etcd reachable, etcd assigns the shard leaders");
            }
            _ => {}
        }
        is_trusted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;
    use crate::domain::shard::Epoch;

    fn shards(ids: &[u16]) -> BTreeSet<ShardId> {
        ids.iter().copied().map(ShardId).collect()
    }

    #[test]
    fn terms_are_held_and_trusted_shards() {
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        let trust = Trust::new(clock.clone());
        let mut terms = trust.terms();
        trust.hold(shards(&[1, 2]));
        assert!(terms.borrow().is_empty(), "no lease yet");
        trust.renew(Duration::from_secs(5));
        let first = terms.borrow_and_update().clone();
        assert_eq!(first.keys().copied().collect::<BTreeSet<_>>(), shards(&[1, 2]));
        trust.renew(Duration::from_secs(6));
        assert!(!terms.has_changed().expect("it lives"), "a renewal wakes no task");
        let renewed = terms.borrow()[&ShardId(1)];
        assert_eq!(renewed.number, first[&ShardId(1)].number);
        assert_eq!(renewed.trusted_until, Some(Duration::from_secs(6)));
        trust.hold(shards(&[2]));
        assert!(terms.has_changed().expect("it lives"));
        clock.advance(Duration::from_secs(6));
        trust.hold(shards(&[2, 3]));
        let untrusted = terms.borrow_and_update().clone();
        assert_eq!(untrusted.keys().copied().collect::<BTreeSet<_>>(), shards(&[2]), "no new one");
        assert_eq!(untrusted[&ShardId(2)].trusted_until, Some(Duration::from_secs(6)));
        trust.renew(Duration::from_secs(20));
        assert_eq!(terms.borrow()[&ShardId(2)].number, first[&ShardId(2)].number, "the same lease");
        assert!(terms.borrow().contains_key(&ShardId(3)));
        trust.lose();
        assert!(terms.borrow().is_empty(), "the lease has ended");
        trust.renew(Duration::from_secs(30));
        trust.hold(shards(&[2]));
        assert!(terms.borrow()[&ShardId(2)].number > first[&ShardId(2)].number, "a new term");
        trust.close();
        trust.renew(Duration::from_secs(30));
        assert!(terms.borrow().is_empty());
    }

    #[test]
    fn a_leader_is_replaced_until_etcd_names_another_one() {
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        let trust = Trust::new(clock.clone());
        let replacement = |shard, epoch| Replacement {
            shard: ShardId(shard),
            epoch: Epoch(epoch),
            of: "dead".to_owned(),
        };
        let term = |shard| trust.terms().borrow().get(&ShardId(shard)).copied();
        trust.renew(Duration::from_secs(5));
        trust.hold(shards(&[1]));
        clock.advance(Duration::from_secs(6));
        trust.replace(vec![replacement(2, 7), replacement(3, 8)]);
        let two = term(2).expect("led by the store's word");
        assert_eq!((two.replaces, two.trusted_until), (Some(Epoch(7)), None));
        trust.replace(vec![replacement(2, 7), replacement(3, 9)]);
        assert_eq!(term(2), Some(two), "it goes on");
        assert_eq!(term(3).map(|term| (term.number, term.replaces)), Some((4, Some(Epoch(9)))));
        // This replica's own shard, which another replica has led since, and died.
        trust.replace(vec![replacement(1, 3), replacement(2, 7)]);
        assert_eq!(term(1).map(|term| (term.number, term.replaces)), Some((5, Some(Epoch(3)))));
        assert_eq!(term(3), None, "another replica was faster");
        trust.renew(Duration::from_secs(20));
        let one = term(1).expect("its key is there");
        assert_eq!((one.replaces, one.number), (None, 5), "etcd confirms the term again");
        trust.record_holders([(ShardId(2), "dead")].into_iter());
        assert_eq!(term(2), Some(two), "etcd does not know yet that it has died");
        trust.record_holders([(ShardId(2), "other")].into_iter());
        assert_eq!(term(2), None);
    }
}
