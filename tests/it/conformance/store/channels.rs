use std::time::Duration;

use futures_util::future::join_all;
use punctual::domain::alert::delivery::{DeliveryError, DeliveryStatus};
use punctual::domain::alert::policy::AlertPolicy;
use punctual::domain::audit::Action;
use punctual::domain::channel::{Channel, ChannelConfig};
use punctual::domain::plan::{ChannelType, NotifyOn};
use punctual::domain::{AccountId, ChannelId, ScheduleId, Timestamp};
use punctual::store::{
    AuditQuery, ChannelChange, ChannelChanged, ChannelCreated, NewChannel, NewPreference,
    PreferenceSet, SealedTable, SecretCipher, SharedStore, StoreErrorKind, StoredChannel,
    TESTS_PER_HOUR, TestAllowance,
};

use super::alerts::ONE_BY_ONE;
use super::world::{World, minute};
use crate::harness::keys::cipher_of;

pub fn config(host: &str) -> ChannelConfig {
    ChannelConfig::new(format!(r#"{{"url":"https://{host}.example/hidden"}}"#))
}

pub fn new_channel(w: &World, label: &str) -> NewChannel {
    let channel = Channel {
        id: ChannelId::new(minute(0), w.random.bits()),
        kind: ChannelType::Slack,
        label: label.into(),
        verified: false,
        created_at: minute(1),
        updated_at: minute(1),
    };
    NewChannel { channel, config: config("first") }
}

impl World {
    /// Stores an unverified channel of an account.
    pub async fn unverified_channel(&self, account: AccountId, label: &str) -> ChannelId {
        let (write, new) = (self.write_for(account, minute(1)), new_channel(self, label));
        let made = self.store.create_channel(&write, &new, None).await.expect("create");
        assert_eq!(made, ChannelCreated::Done);
        new.channel.id
    }

    /// Stores a verified channel.
    pub async fn channel(&self, label: &str) -> ChannelId {
        let id = self.unverified_channel(self.account, label).await;
        self.verify(id).await;
        id
    }

    pub async fn verify(&self, id: ChannelId) {
        let revision = self.stored(id).await.revision;
        let write = self.write(minute(1));
        let verified = self.store.verify_channel(&write, id, revision, None).await;
        assert_eq!(verified.expect("verify"), ChannelChanged::Done);
    }

    pub async fn stored(&self, id: ChannelId) -> StoredChannel {
        self.store.channel(self.account, id).await.expect("read").expect("a channel")
    }

    /// Alerts these channels about all failures of a schedule.
    pub async fn tell_failures(&self, schedule: ScheduleId, channels: &[ChannelId]) {
        let policy = AlertPolicy { notify_on: NotifyOn::Failure, ..AlertPolicy::default() };
        self.tell(schedule, policy, channels).await;
    }

    pub async fn tell(&self, schedule: ScheduleId, policy: AlertPolicy, channels: &[ChannelId]) {
        let new = NewPreference { policy, channels: channels.to_vec() };
        let set = self.store.set_preference(&self.write(minute(1)), schedule, &new).await;
        assert_eq!(set.expect("set"), PreferenceSet::Done);
    }
}

async fn labels(w: &World, account: AccountId) -> Vec<String> {
    let channels = w.store.channels(account).await.expect("list");
    channels.into_iter().map(|channel| channel.label).collect()
}

/// Returns the objects of the entries with this action, oldest first.
async fn entered(w: &World, action: Action) -> Vec<String> {
    let action = Some(action);
    let query = AuditQuery { from: None, to: None, actor: None, action, after: None, limit: 99 };
    let log = w.store.audit_log(w.account, &query).await.expect("list").entries;
    log.into_iter().rev().map(|entry| entry.object).collect()
}

pub async fn one_reads_back_and_is_listed_newest_first(w: &World) {
    let mut old = new_channel(w, "old");
    old.channel.id = ChannelId::new(minute(0).minus(Duration::from_secs(1)), 1);
    let new = new_channel(w, "nëw");
    for (channel, at) in [(&old, minute(1)), (&new, minute(1))] {
        let made = w.store.create_channel(&w.write(at), channel, None).await.expect("create");
        assert_eq!(made, ChannelCreated::Done);
    }
    let id = new.channel.id;
    let stored = w.stored(id).await;
    assert_eq!((&stored.channel, stored.config), (&new.channel, Some(config("first"))));
    assert_eq!(labels(w, w.account).await, ["nëw", "old"]);
    assert_eq!(entered(w, Action::ChannelCreated).await.len(), 2);

    // Other accounts cannot see it.
    assert_eq!(w.store.channels(w.foreign).await.expect("list"), []);
    assert_eq!(w.store.channel(w.foreign, id).await.expect("read"), None);
    let theirs = w.write_for(w.foreign, minute(2));
    let change = ChannelChange { label: Some("stolen".into()), ..ChannelChange::default() };
    let changed = w.store.change_channel(&theirs, id, stored.revision, &change).await;
    assert_eq!(changed.expect("change"), ChannelChanged::NotFound);
    let verified = w.store.verify_channel(&theirs, id, stored.revision, None).await;
    assert_eq!(verified.expect("verify"), ChannelChanged::NotFound);
    assert!(!w.store.unverify_channel(&theirs, id, "stolen").await.expect("unverify"));
    assert!(!w.store.delete_channel(&theirs, id).await.expect("delete"));
    let counted = w.store.count_test(w.foreign, id, minute(2)).await.expect("count");
    assert_eq!(counted, TestAllowance::NotFound);
    assert_eq!(w.stored(id).await.channel, new.channel);

    assert!(w.store.delete_channel(&w.write(minute(3)), id).await.expect("delete"));
    assert!(!w.store.delete_channel(&w.write(minute(3)), id).await.expect("delete"));
    assert_eq!(w.store.channel(w.account, id).await.expect("read"), None);
    assert_eq!(labels(w, w.account).await, ["old"]);
    assert_eq!(entered(w, Action::ChannelDeleted).await, [id.to_string()]);
}

pub async fn of_many_at_once_none_is_too_much(w: &World) {
    let creations = (0..6).map(|n| {
        let (store, write) = (w.store.clone(), w.write(minute(1)));
        let new = new_channel(w, &n.to_string());
        w.spawn(async move { store.create_channel(&write, &new, Some(2)).await.expect("create") })
    });
    let outcomes = join_all(creations).await;
    let done = outcomes.iter().filter(|made| **made == ChannelCreated::Done);
    assert_eq!(done.count(), 2, "{outcomes:?}");
    let refused = ChannelCreated::TooMany { current: 2 };
    assert_eq!(outcomes.iter().filter(|made| **made == refused).count(), 4, "{outcomes:?}");
    let create = async |account, most| {
        let (write, new) = (w.write_for(account, minute(2)), new_channel(w, "another"));
        w.store.create_channel(&write, &new, Some(most)).await.expect("create")
    };
    assert_eq!(create(w.foreign, 1).await, ChannelCreated::Done, "each account has its own");
    assert_eq!(create(w.account, 0).await, refused);
    let listed = w.store.channels(w.account).await.expect("list");
    assert!(w.store.delete_channel(&w.write(minute(2)), listed[0].id).await.expect("delete"));
    assert_eq!(create(w.account, 2).await, ChannelCreated::Done, "a deleted channel makes room");
}

pub async fn a_change_of_the_destination_resets_verified(w: &World) {
    let id = w.channel("ops").await;
    let change = async |revision, change: ChannelChange| {
        let write = w.write(minute(2));
        w.store.change_channel(&write, id, revision, &change).await.expect("change")
    };
    let to = |host| ChannelChange { config: Some(config(host)), ..ChannelChange::default() };
    let first = w.stored(id).await;
    assert!(first.channel.verified);
    assert_eq!(first.channel.updated_at, minute(1));

    let label = ChannelChange { label: Some("night".into()), ..ChannelChange::default() };
    assert_eq!(change(first.revision, label.clone()).await, ChannelChanged::Done);
    let labelled = w.stored(id).await;
    assert_eq!((labelled.channel.label.as_str(), labelled.channel.verified), ("night", true));
    assert_eq!((labelled.revision, labelled.config), (first.revision, Some(config("first"))));
    assert_eq!(labelled.channel.updated_at, minute(2));

    let rotated = ChannelChange { keeps_verified: true, ..to("second") };
    assert_eq!(change(first.revision, rotated).await, ChannelChanged::Done);
    let second = w.stored(id).await;
    assert!(second.channel.verified && second.revision > first.revision);
    assert_eq!(second.config, Some(config("second")));
    assert_eq!(entered(w, Action::ChannelSecretRotated).await, [id.to_string()]);

    // This change was computed from a replaced configuration.
    assert_eq!(change(first.revision, to("third")).await, ChannelChanged::Stale);
    assert_eq!(w.stored(id).await, second);
    let done = change(first.revision, label).await;
    assert_eq!(done, ChannelChanged::Done, "a label needs no revision");

    assert_eq!(change(second.revision, to("third")).await, ChannelChanged::Done);
    let third = w.stored(id).await;
    assert!(!third.channel.verified && third.revision > second.revision);
    assert_eq!(third.config, Some(config("third")));
    let verify = async |revision, completed: Option<ChannelConfig>| {
        let write = w.write(minute(3));
        let verified = w.store.verify_channel(&write, id, revision, completed.as_ref()).await;
        verified.expect("verify")
    };
    assert_eq!(verify(second.revision, None).await, ChannelChanged::Stale);
    assert!(!w.stored(id).await.channel.verified, "the test went to another URL");
    assert_eq!(verify(third.revision, Some(config("chat"))).await, ChannelChanged::Done);
    let verified = w.stored(id).await;
    assert!(verified.channel.verified && verified.revision > third.revision);
    assert_eq!(verified.config, Some(config("chat")), "the configuration that the test returned");
    assert_eq!(entered(w, Action::ChannelVerified).await.len(), 2);

    // The recipient unsubscribes, once or twice.
    for _ in 0..2 {
        let write = w.write(minute(4));
        assert!(w.store.unverify_channel(&write, id, "unsubscribed").await.expect("unverify"));
        assert!(!w.stored(id).await.channel.verified);
    }
    assert_eq!(entered(w, Action::ChannelUnverified).await, [id.to_string()]);
}

pub async fn tests_are_counted_for_an_hour(w: &World) {
    let id = w.unverified_channel(w.account, "ops").await;
    // A count with a lost response is counted again.
    let count = async |at| w.steady.count_test(w.account, id, at).await.expect("count");
    for n in 0..TESTS_PER_HOUR {
        assert_eq!(count(minute(n.into())).await, TestAllowance::Yes);
    }
    for at in [5, 59] {
        assert_eq!(count(minute(at)).await, TestAllowance::No { reset_at: minute(60) });
    }
    assert_eq!(count(minute(60)).await, TestAllowance::Yes);
    let other = w.unverified_channel(w.account, "other").await;
    let counted = w.store.count_test(w.account, other, minute(10)).await.expect("count");
    assert_eq!(counted, TestAllowance::Yes, "each channel has its own");
    let nothing = w.store.count_test(w.account, ChannelId::new(minute(0), 1), minute(10)).await;
    assert_eq!(nothing.expect("count"), TestAllowance::NotFound);
    let later = (0..30).map(|_| {
        let (store, account) = (w.steady.clone(), w.account);
        w.spawn(async move { store.count_test(account, id, minute(61)).await.expect("count") })
    });
    let allowed =
        join_all(later).await.into_iter().filter(|allowed| *allowed == TestAllowance::Yes);
    assert_eq!(allowed.count(), 4, "exact, too, if many ask at once");
}

/// Returns the status and the error of each delivery to a channel, by time.
async fn stand(w: &World, channel: ChannelId) -> Vec<(DeliveryStatus, Option<DeliveryError>)> {
    let all = w.deliveries().await;
    let of = all.into_iter().filter(|delivery| delivery.channel == Some(channel));
    of.map(|delivery| (delivery.status, delivery.error_code)).collect()
}

pub async fn deleting_a_channel_detaches_it_and_fails_waiting_alerts(w: &World) {
    let [gone, other] = [w.channel("gone").await, w.channel("other").await];
    let [both, only, beside] = [w.schedule().await, w.schedule().await, w.schedule().await];
    w.tell_failures(both, &[gone, other]).await;
    w.tell_failures(only, &[gone]).await;
    w.tell_failures(beside, &[other]).await;
    w.fail(both, 2).await;
    w.relay(minute(3), &ONE_BY_ONE).await;
    assert!(w.store.delete_channel(&w.write(minute(3)), gone).await.expect("delete"));
    for (schedule, channels, detached) in [
        (both, vec![other], Some("gone")),
        (only, vec![], Some("gone")),
        (beside, vec![other], None),
    ] {
        let read = w.store.preference(w.account, schedule).await.expect("read").expect("there");
        let attached: Vec<_> = read.channels.iter().map(|one| one.channel.id).collect();
        assert_eq!((attached, read.detached.as_deref()), (channels, detached));
        assert_eq!(read.policy.notify_on, NotifyOn::Failure, "the rest stays");
    }
    let claimed = w.claim_due(minute(3)).await;
    assert_eq!(claimed.undeliverable, 1);
    let to: Vec<_> = claimed.taken.iter().map(|one| one.channel).collect();
    assert_eq!(to, [other]);
    let failed = (DeliveryStatus::Failed, Some(DeliveryError::ChannelDeleted));
    assert_eq!(stand(w, gone).await, [failed]);
    let all = w.deliveries().await;
    let failed = all.iter().find(|one| one.channel == Some(gone)).expect("kept");
    assert_eq!((failed.channel_type, failed.channel_label.as_deref()), (None, None));
    assert_eq!((failed.completed_at, failed.tries.len()), (Some(minute(3)), 0));
    // Later failures alert the remaining channels. A failure without any channel is recorded.
    w.fail(both, 4).await;
    w.fail(only, 4).await;
    w.relay(minute(5), &ONE_BY_ONE).await;
    let none = w.deliveries().await.into_iter().filter(|one| one.channel.is_none());
    let none: Vec<_> = none.map(|one| (one.schedule, one.error_code)).collect();
    assert_eq!(none, [(Some(only), Some(DeliveryError::NoChannel))]);
    assert_eq!(stand(w, gone).await.len(), 1);
    // A new choice of channels ends the warning.
    w.tell_failures(only, &[other]).await;
    let read = w.store.preference(w.account, only).await.expect("read").expect("there");
    assert_eq!(read.detached, None);
}

pub async fn deliveries_to_an_unverified_channel_fail(w: &World) {
    let id = w.channel("ops").await;
    let schedule = w.schedule().await;
    w.tell_failures(schedule, &[id]).await;
    let fails = (DeliveryStatus::Failed, Some(DeliveryError::ChannelUnverified));
    for (round, at) in [(1, 2), (2, 10)] {
        w.verify(id).await;
        w.fail(schedule, at).await;
        w.relay(minute(at + 1), &ONE_BY_ONE).await;
        let write = w.write(minute(at + 1));
        if round == 1 {
            let revision = w.stored(id).await.revision;
            let change = ChannelChange { config: Some(config("x")), ..ChannelChange::default() };
            let changed = w.store.change_channel(&write, id, revision, &change).await;
            assert_eq!(changed.expect("change"), ChannelChanged::Done);
        } else {
            assert!(w.store.unverify_channel(&write, id, "they left").await.expect("unverify"));
        }
        let claimed = w.claim_due(minute(at + 1)).await;
        assert_eq!((claimed.taken.len(), claimed.undeliverable), (0, 1));
        assert_eq!(stand(w, id).await, vec![fails; round]);
    }
    let read = w.store.preference(w.account, schedule).await.expect("read").expect("there");
    let [attached] = &read.channels[..] else { panic!("{read:?}") };
    assert_eq!(
        (attached.channel.verified, attached.trouble.as_deref()),
        (false, Some("they left"))
    );
    w.verify(id).await;
    let read = w.store.preference(w.account, schedule).await.expect("read").expect("there");
    assert_eq!((read.channels[0].channel.verified, &read.channels[0].trouble), (true, &None));
}

pub async fn accounts_that_are_suspended_or_gone_are_refused(w: &World) {
    let id = w.channel("ops").await;
    let schedule = w.schedule().await;
    let revision = w.stored(id).await.revision;
    let write = || w.write(minute(2));
    let kinds = async || {
        let change = ChannelChange { config: Some(config("x")), ..ChannelChange::default() };
        let preference = NewPreference { policy: AlertPolicy::default(), channels: Vec::new() };
        let new = new_channel(w, "another");
        let errors = [
            w.store.create_channel(&write(), &new, None).await.err(),
            w.store.create_channel(&write(), &new, Some(9)).await.err(),
            w.store.change_channel(&write(), id, revision, &change).await.err(),
            w.store.verify_channel(&write(), id, revision, None).await.err(),
            w.store.delete_channel(&write(), id).await.err(),
            w.store.count_test(w.account, id, minute(2)).await.err(),
            w.store.set_preference(&write(), schedule, &preference).await.err(),
        ];
        errors.map(|error| error.expect("refused").kind())
    };
    assert!(w.store.set_suspended(&write(), true).await.expect("suspend"));
    assert_eq!(kinds().await, [StoreErrorKind::Suspended; 7]);
    assert_eq!(labels(w, w.account).await, ["ops"], "it is read still");
    let left = w.store.unverify_channel(&write(), id, "they left").await;
    assert!(left.expect("unverify"), "the reader can unsubscribe in any state of the account");
    assert!(w.store.delete_account(&write()).await.expect("delete"));
    assert_eq!(kinds().await, [StoreErrorKind::NoSuchAccount; 7]);
    assert_eq!(labels(w, w.account).await, [""; 0]);
    assert_eq!(w.store.channel(w.account, id).await.expect("read"), None);
    assert_eq!(w.store.preference(w.account, schedule).await.expect("read"), None);
    assert!(!w.store.unverify_channel(&write(), id, "they left").await.expect("unverify"));
}

/// Returns the next representable instant.
pub fn after(at: Timestamp) -> Timestamp {
    at.plus(Duration::from_millis(1))
}

/// `spoil` runs a statement directly on the database. `reopen` opens the store with other keys.
pub async fn configurations_are_encrypted(
    w: &World,
    reopen: impl AsyncFn(SecretCipher) -> SharedStore,
    spoil: impl AsyncFn(&'static str),
) {
    w.store.use_keys(&[]).await.expect("a new store takes any key");
    let [fine, moved] = [w.channel("fine").await, w.channel("moved").await];
    spoil("DELETE FROM notification_channels WHERE config LIKE '%hidden%' OR config LIKE '%http%'")
        .await;
    assert_eq!(labels(w, w.account).await.len(), 2, "nothing of it can be read");
    let other = reopen(cipher_of(&["other"])).await;
    let read = other.channel(w.account, fine).await.expect("read").expect("there");
    assert_eq!((read.config, read.channel.label.as_str()), (None, "fine"));
    // The configuration of another channel cannot be opened here.
    spoil(
        "UPDATE notification_channels SET config =
             (SELECT config FROM notification_channels WHERE label = 'fine')
         WHERE label = 'moved'",
    )
    .await;
    assert_eq!(w.stored(moved).await.config, None);
    let schedule = w.schedule().await;
    w.tell_failures(schedule, &[moved]).await;
    w.fail(schedule, 2).await;
    w.relay(minute(3), &ONE_BY_ONE).await;
    let claimed = w.claim_due(minute(3)).await.taken;
    let [claimed] = &claimed[..] else { panic!("{claimed:?}") };
    assert_eq!((claimed.channel, &claimed.config), (moved, &None), "the sender reports it");

    assert!(w.store.delete_channel(&w.write(minute(2)), moved).await.expect("delete"));
    let both = reopen(cipher_of(&["new", "test"])).await;
    both.use_keys(&[]).await.expect("it has both");
    let before = both.stale_secrets().await.expect("count");
    let done = both.reseal(SealedTable::Channels, [0; 16], 9).await.expect("reseal");
    assert_eq!((done.sealed, done.unreadable), (1, vec![]));
    assert_eq!(both.stale_secrets().await.expect("count"), before - 1);
    let new = reopen(cipher_of(&["new"])).await;
    let read = new.channel(w.account, fine).await.expect("read").expect("there");
    assert_eq!(read.config, Some(config("first")));
    assert!(read.channel.verified, "nothing else has changed");
    assert_eq!(read.revision, w.stored(fine).await.revision);
}
