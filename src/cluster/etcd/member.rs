//! The membership of this replica: its lease, the keys that are attached to the lease, and its part
//! in the distribution of the shards.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp, WatchOptions, WatchStream,
};
use futures_util::StreamExt;
use futures_util::stream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::connection::{
    GET, GRANT, KEEP_ALIVE, PUT, REVOKE, TXN, WATCH, answer, connect, written,
};
use super::failure::EtcdFailure;
use super::membership::{ClusterView, EtcdKeys, Holder, Presence};
use super::settings::EtcdSettings;
use super::trust::Trust;
use crate::domain::shard::ShardId;
use crate::runtime::{Clock, Random};

/// The maximum number of concurrent requests when shards change owners.
const AT_ONCE: usize = 32;
/// The number of renewals within the time of a lease.
const RENEWALS: u32 = 4;
/// The delay before the first retry; it doubles with every retry.
const FASTEST_RETRY: Duration = Duration::from_millis(50);
/// The maximum delay between retries.
const SLOWEST_RETRY: Duration = Duration::from_secs(1);

/// The last known view of the cluster, or the reason why this replica is not a member.
pub(super) type KnownMembership = Result<ClusterView, String>;

/// The membership of a replica.
pub(super) struct EtcdMember {
    pub(super) settings: EtcdSettings,
    pub(super) keys: EtcdKeys,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) trust: Arc<Trust>,
    pub(super) known: watch::Sender<KnownMembership>,
    pub(super) leaving: CancellationToken,
    /// The index of the next server to try.
    pub(super) turn: usize,
    /// The lease, from its grant until it is known to have ended.
    pub(super) lease: Option<i64>,
}

impl EtcdMember {
    /// Stays in the cluster until `leaving` is cancelled. Failures of etcd are retried.
    pub(super) async fn run(mut self) {
        let (trust, leaving) = (self.trust.clone(), self.leaving.clone());
        tokio::select! {
            () = self.stay() => {}
            () = trust.watch_over() => {}
            () = leaving.cancelled() => {}
        }
        self.trust.close();
        self.give_up_lease().await;
    }

    async fn stay(&mut self) {
        let mut said = None;
        let mut retry = FASTEST_RETRY;
        loop {
            let joined = self.known.subscribe();
            let Err(failure) = Box::pin(self.take_part()).await;
            if joined.has_changed().unwrap_or(true) && joined.borrow().is_ok() {
                (said, retry) = (None, FASTEST_RETRY);
            }
            if matches!(failure, EtcdFailure::LeaseEnded) {
                self.lease = None;
                self.trust.lose();
            } else {
                self.turn += 1;
            }
            if said != Some(failure.remedy()) {
                said = Some(failure.remedy());
                tracing::warn!(error = %failure, "cannot take part in the cluster, trying again");
            }
            self.known.send_modify(|known| *known = Err(failure.to_string()));
            self.clock.sleep(retry.mul_f64(0.5 + self.random.unit() / 2.0)).await;
            retry = (retry * 2).min(SLOWEST_RETRY);
        }
    }

    /// Takes part in the cluster over one connection, until a failure.
    async fn take_part(&mut self) -> Result<std::convert::Infallible, EtcdFailure> {
        let client = connect(&self.clock, &self.settings.servers, self.turn).await?;
        self.check_installation(client.clone()).await?;
        let lease = match self.lease {
            Some(lease) => lease,
            None => self.grant(client.clone()).await?,
        };
        tokio::select! {
            ended = self.renew(client.clone(), lease) => ended,
            ended = self.share(client, lease) => ended,
        }
    }

    /// Checks that the members under the prefix use the same store. The first replica writes the id
    /// of its installation.
    async fn check_installation(&self, mut client: Client) -> Result<(), EtcdFailure> {
        let (key, own) = (self.keys.installation(), self.settings.installation.as_str());
        // If two replicas find no id, the transaction of only one of them succeeds. Both find the
        // id in the second pass.
        for _ in 0..2 {
            let found = answer(&self.clock, GET, client.get(key.clone(), None)).await?;
            if let Some(found) = found.kvs().first() {
                if found.value() == own.as_bytes() {
                    return Ok(());
                }
                self.trust.lose();
                let theirs = String::from_utf8_lossy(found.value()).into_owned();
                return Err(EtcdFailure::Foreign(theirs));
            }
            let claim = Txn::new()
                .when([Compare::version(key.clone(), CompareOp::Equal, 0)])
                .and_then([TxnOp::put(key.clone(), own, None)]);
            written(&self.clock, TXN, client.txn(claim)).await?;
        }
        Err(EtcdFailure::Ended)
    }

    fn trusted_from(&self, asked: Duration) -> Duration {
        asked + self.settings.lease_time.mul_f64(0.8)
    }

    async fn grant(&mut self, mut client: Client) -> Result<i64, EtcdFailure> {
        let seconds = self.settings.lease_time.as_secs_f64().ceil();
        #[expect(clippy::cast_possible_truncation, reason = "a lease of seconds")]
        let seconds = seconds as i64;
        let asked = self.clock.monotonic();
        let granted = written(&self.clock, GRANT, client.lease_grant(seconds, None)).await?;
        self.lease = Some(granted.id());
        self.trust.lose();
        self.trust.renew(self.trusted_from(asked));
        Ok(granted.id())
    }

    /// Keeps the lease alive. A sent request does not count as a renewal; only an answer with
    /// remaining time does.
    async fn renew(
        &self,
        mut client: Client,
        lease: i64,
    ) -> Result<std::convert::Infallible, EtcdFailure> {
        let every = self.settings.lease_time / RENEWALS;
        let asked = self.clock.monotonic();
        let begun = answer(&self.clock, KEEP_ALIVE, client.lease_keep_alive(lease)).await;
        let (mut requests, mut answers) = begun.map_err(|failure| match failure {
            // The error of the library for an answer without remaining time.
            EtcdFailure::Other(what) if what.contains("lease not found") => EtcdFailure::LeaseEnded,
            other => other,
        })?;
        self.trust.renew(self.trusted_from(asked));
        loop {
            self.clock.sleep(every).await;
            let asked = self.clock.monotonic();
            let renewed = answer(&self.clock, KEEP_ALIVE, async {
                requests.keep_alive().await?;
                answers.message().await
            });
            let renewed = renewed.await?.ok_or(EtcdFailure::Ended)?;
            if renewed.ttl() <= 0 {
                return Err(EtcdFailure::LeaseEnded);
            }
            self.trust.renew(self.trusted_from(asked));
        }
    }

    /// Registers this replica, watches the other members, and takes and releases shards.
    async fn share(
        &self,
        mut client: Client,
        lease: i64,
    ) -> Result<std::convert::Infallible, EtcdFailure> {
        self.present(&mut client, lease).await?;
        loop {
            let all = Some(GetOptions::new().with_prefix());
            let listed = answer(&self.clock, GET, client.get(self.keys.all(), all)).await?;
            let mut view = ClusterView::of(&self.keys, listed.kvs());
            let revision = listed.header().map_or(0, |header| header.revision());
            let from = WatchOptions::new().with_prefix().with_start_revision(revision + 1);
            let watching = client.watch(self.keys.all(), Some(from.with_progress_notify()));
            let mut changes = answer(&self.clock, WATCH, watching).await?;
            tracing::info!(members = view.members.len(), "taking part in the cluster");
            loop {
                self.reconcile(&mut client, &mut view, lease).await?;
                self.known.send_modify(|known| *known = Ok(view.clone()));
                if !self.follow(&mut changes, &mut view).await? {
                    break;
                }
            }
        }
    }

    async fn present(&self, client: &mut Client, lease: i64) -> Result<(), EtcdFailure> {
        let EtcdSettings { name, leads, executes, .. } = &self.settings;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let presence = Presence { name: name.clone(), version, leads: *leads, executes: *executes };
        let presence = serde_json::to_vec(&presence).expect("strings can be written");
        let with_lease = PutOptions::new().with_lease(lease);
        written(&self.clock, PUT, client.put(self.keys.member(name), presence, Some(with_lease)))
            .await
            .map(drop)
    }

    /// Waits for changes and applies them. Returns `false` if the keys must be listed again.
    async fn follow(
        &self,
        changes: &mut WatchStream,
        view: &mut ClusterView,
    ) -> Result<bool, EtcdFailure> {
        loop {
            let response = changes.message().await?.ok_or(EtcdFailure::Ended)?;
            if response.canceled() || response.compact_revision() > 0 {
                tracing::debug!(error = response.cancel_reason(), "etcd ended the watch");
                return Ok(false);
            }
            for event in response.events() {
                view.apply(&self.keys, event);
            }
            if !response.events().is_empty() {
                return Ok(true);
            }
        }
    }

    /// Releases the shards that other replicas are to lead, and takes this replica's own shards
    /// that are free.
    async fn reconcile(
        &self,
        client: &mut Client,
        view: &mut ClusterView,
        lease: i64,
    ) -> Result<(), EtcdFailure> {
        let name = &self.settings.name;
        if !view.members.contains_key(name) {
            // Either the key was deleted, or the lease has ended. In the second case, this write
            // fails and reports it.
            self.present(client, lease).await?;
            return Ok(());
        }
        let own = view.shall_lead(name, self.settings.shards);
        let held = view.held_by(lease);
        // The replica stops leading a shard before it deletes the key.
        self.trust.hold(held.intersection(&own).copied().collect());
        let give = held.difference(&own).map(|shard| (*shard, view.shards[shard].created));
        let give: Vec<_> = give.collect();
        let requests = give.into_iter().map(|(shard, created)| {
            let (mut client, key) = (client.clone(), self.keys.shard(shard));
            async move {
                let unchanged = Compare::create_revision(key.clone(), CompareOp::Equal, created);
                let give = Txn::new().when([unchanged]).and_then([TxnOp::delete(key, None)]);
                written(&self.clock, TXN, client.txn(give)).await.map(|given| (shard, given))
            }
        });
        let mut given = stream::iter(requests).buffer_unordered(AT_ONCE);
        while let Some(given) = given.next().await {
            let (shard, given) = given?;
            let revision = given.header().map_or(0, |header| header.revision());
            if given.succeeded() {
                view.change(shard, None, revision);
            }
        }
        let free: Vec<_> =
            own.iter().filter(|shard| !view.shards.contains_key(shard)).copied().collect();
        self.take(client, view, lease, &free).await?;
        let held = view.held_by(lease);
        self.trust.hold(held.intersection(&own).copied().collect());
        let others = view.shards.iter().filter(|(_, holder)| holder.lease != lease);
        self.trust.record_holders(others.map(|(shard, holder)| (*shard, holder.name.as_str())));
        Ok(())
    }

    async fn take(
        &self,
        client: &Client,
        view: &mut ClusterView,
        lease: i64,
        free: &[ShardId],
    ) -> Result<(), EtcdFailure> {
        let name = self.settings.name.as_str();
        let requests = free.iter().map(|shard| {
            let (mut client, key) = (client.clone(), self.keys.shard(*shard));
            async move {
                let with_lease = PutOptions::new().with_lease(lease);
                let take = Txn::new()
                    .when([Compare::create_revision(key.clone(), CompareOp::Equal, 0)])
                    .and_then([TxnOp::put(key, name, Some(with_lease))]);
                written(&self.clock, TXN, client.txn(take)).await.map(|taken| (*shard, taken))
            }
        });
        let mut taken = stream::iter(requests).buffer_unordered(AT_ONCE);
        while let Some(taken) = taken.next().await {
            let (shard, taken) = taken?;
            // Otherwise another replica was faster, and the watch reports its name.
            if taken.succeeded() {
                let created = taken.header().map_or(0, |header| header.revision());
                let holder = Holder { name: name.to_owned(), lease, created };
                view.change(shard, Some(holder), created);
            }
        }
        Ok(())
    }

    /// Revokes the lease, which deletes all its keys, so that other replicas need not wait for its
    /// expiry.
    async fn give_up_lease(&self) {
        let Some(lease) = self.lease else { return };
        for turn in self.turn..self.turn + self.settings.servers.endpoints.len() {
            let revoked = async {
                let mut client = connect(&self.clock, &self.settings.servers, turn).await?;
                written(&self.clock, REVOKE, client.lease_revoke(lease)).await
            };
            match revoked.await {
                Ok(_) => return,
                Err(EtcdFailure::LeaseEnded) => return,
                Err(error) => tracing::debug!(%error, "could not revoke the lease"),
            }
        }
        tracing::warn!("could not revoke the lease: other replicas wait until it expires");
    }
}
