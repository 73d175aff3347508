use punctual::domain::alert::AlertKind;
use punctual::domain::alert::policy::AlertPolicy;
use punctual::domain::audit::Action;
use punctual::domain::plan::NotifyOn;
use punctual::domain::{ChannelId, ScheduleId};
use punctual::store::{
    AttemptEnd, AuditQuery, ChannelUses, NewPreference, PreferenceSet, StoredPreference,
    WriteContext,
};

use super::alerts::ONE_BY_ONE;
use super::world::{World, minute};

fn policy(notify_on: NotifyOn) -> AlertPolicy {
    AlertPolicy { notify_on, ..AlertPolicy::default() }
}

async fn read(w: &World, schedule: ScheduleId) -> StoredPreference {
    w.store.preference(w.account, schedule).await.expect("read").expect("a schedule")
}

fn attached(preference: &StoredPreference) -> Vec<ChannelId> {
    preference.channels.iter().map(|attached| attached.channel.id).collect()
}

async fn set(
    w: &World,
    write: WriteContext,
    schedule: ScheduleId,
    channels: &[ChannelId],
) -> PreferenceSet {
    let new = NewPreference { policy: policy(NotifyOn::Failure), channels: channels.to_vec() };
    w.store.set_preference(&write, schedule, &new).await.expect("set")
}

pub async fn one_is_there_from_the_beginning_and_replaced_whole(w: &World) {
    let [id, other] = [w.schedule().await, w.schedule().await];
    assert_eq!(read(w, id).await, StoredPreference::default());
    assert_eq!(read(w, id).await.policy.notify_on, NotifyOn::None);
    let mut channels = Vec::new();
    for label in ["a", "b", "c"] {
        channels.push(w.channel(label).await);
    }
    let [a, b, c] = channels[..] else { panic!("three") };
    let full = AlertPolicy {
        notify_on: NotifyOn::Both,
        failure_threshold: 1_000,
        notify_on_recovery: true,
        repeat_every_minutes: Some(10_080),
    };
    w.tell(id, full, &[c, a, b]).await;
    let stored = read(w, id).await;
    assert_eq!((stored.policy, stored.detached.as_ref()), (full, None));
    assert_eq!(attached(&stored), [c, a, b], "in their order");
    assert!(stored.channels.iter().all(|one| one.channel.verified && one.trouble.is_none()));
    w.tell(id, policy(NotifyOn::Success), &[b]).await;
    let stored = read(w, id).await;
    assert_eq!((stored.policy, attached(&stored)), (policy(NotifyOn::Success), vec![b]));
    // All settings are stored, even those without an effect.
    let off = AlertPolicy { notify_on: NotifyOn::None, ..full };
    w.tell(id, off, &[]).await;
    assert_eq!((read(w, id).await.policy, attached(&read(w, id).await)), (off, vec![]));
    assert_eq!(read(w, other).await, StoredPreference::default());
    let action = Some(Action::PreferenceSet);
    let query = AuditQuery { from: None, to: None, actor: None, action, after: None, limit: 9 };
    let log = w.store.audit_log(w.account, &query).await.expect("list").entries;
    assert_eq!(log.len(), 3);
    assert!(log.iter().all(|entry| entry.object == id.to_string()));
}

pub async fn a_channel_that_fails_its_test_does_not_change(w: &World) {
    let id = w.schedule().await;
    let fine = w.channel("fine").await;
    let unverified = w.unverified_channel(w.account, "unverified").await;
    let foreign = w.unverified_channel(w.foreign, "foreign").await;
    let unknown = ChannelId::new(minute(0), 1);
    w.tell(id, policy(NotifyOn::Both), &[fine]).await;
    let before = read(w, id).await;
    for (channels, expected) in [
        (vec![fine, unknown], PreferenceSet::NoSuchChannel(unknown)),
        (vec![fine, foreign], PreferenceSet::NoSuchChannel(foreign)),
        (vec![fine, unverified], PreferenceSet::Unverified(unverified)),
        (vec![unverified, unknown], PreferenceSet::Unverified(unverified)),
    ] {
        assert_eq!(set(w, w.write(minute(2)), id, &channels).await, expected);
        assert_eq!(read(w, id).await, before);
    }
    let nothing = ScheduleId::new(minute(0), 1);
    let refused = PreferenceSet::NoSuchSchedule;
    assert_eq!(set(w, w.write(minute(2)), nothing, &[fine]).await, refused);
    let theirs = w.write_for(w.foreign, minute(2));
    assert_eq!(set(w, theirs, id, &[]).await, refused);
    assert_eq!(w.store.preference(w.foreign, id).await.expect("read"), None);
    assert_eq!(w.store.preference(w.account, nothing).await.expect("read"), None);
    assert_eq!(read(w, id).await, before);
}

pub async fn jobs_that_end_from_then_on_raise_events_by_it(w: &World) {
    let id = w.schedule().await;
    let channel = w.channel("ops").await;
    let ends = async |at, end| {
        let job = w.manual_job(id, minute(at)).await;
        w.run(minute(at), job, end).await.events
    };
    let failed = || AttemptEnd::Failed(super::world::failure());
    assert_eq!(ends(1, failed()).await, 0);
    // The preference also applies to a job that is already running.
    let job = w.manual_job(id, minute(2)).await;
    let claimed = w.claim(minute(2), &[job]).await.remove(0);
    w.tell(id, policy(NotifyOn::Failure), &[channel]).await;
    let committed = w.commit(minute(2), &[w.completion(&claimed, None, failed())]).await;
    assert_eq!(committed.events, 1);
    w.tell(id, policy(NotifyOn::Success), &[channel]).await;
    assert_eq!(ends(3, failed()).await, 0);
    assert_eq!(ends(4, AttemptEnd::Succeeded).await, 2, "that it has recovered is for incidents");
    assert_eq!(ends(5, AttemptEnd::Succeeded).await, 1);
    w.tell(id, policy(NotifyOn::None), &[channel]).await;
    assert_eq!(ends(6, AttemptEnd::Succeeded).await, 0);
    w.relay(minute(9), &ONE_BY_ONE).await;
    let kinds: Vec<_> = w.deliveries().await.into_iter().map(|one| (one.kind, one.at)).collect();
    let at = |n| super::world::soon(minute(n));
    assert_eq!(
        kinds,
        [
            (AlertKind::JobFailed, minute(2)),
            (AlertKind::JobSucceeded, at(4)),
            (AlertKind::JobSucceeded, at(5)),
        ]
    );
}

pub async fn it_goes_with_its_schedule(w: &World) {
    let id = w.schedule().await;
    let channel = w.channel("ops").await;
    w.tell(id, policy(NotifyOn::Failure), &[channel]).await;
    let job = w.manual_job(id, minute(2)).await;
    let claimed = w.claim(minute(2), &[job]).await.remove(0);
    let before = w.store.rows_left(w.account).await.expect("count");
    assert!(w.store.delete_schedule(&w.write(minute(2)), id).await.expect("delete"));
    assert_eq!(w.store.preference(w.account, id).await.expect("read"), None);
    // The schedule, its preference and its attached channel are gone, and the log has one more
    // entry.
    assert_eq!(w.store.rows_left(w.account).await.expect("count"), before - 2);
    let ended = w.completion(&claimed, None, AttemptEnd::Failed(super::world::failure()));
    assert_eq!(w.commit(minute(3), &[ended]).await.events, 0);
    assert_eq!(w.store.channels(w.account).await.expect("list").len(), 1, "the channel stays");
}

pub async fn channels_are_deleted_before_or_after_it_is_set(w: &World) {
    let ids = [w.schedule().await, w.schedule().await, w.schedule().await];
    for round in 0..4 {
        let channel = w.channel(&round.to_string()).await;
        let sets = ids.map(|id| {
            let (store, write) = (w.store.clone(), w.write(minute(2)));
            let policy = policy(NotifyOn::Failure);
            let new = NewPreference { policy, channels: vec![channel] };
            w.spawn(async move { store.set_preference(&write, id, &new).await.expect("set") })
        });
        let (store, write) = (w.store.clone(), w.write(minute(2)));
        let deleted = w.spawn(async move { store.delete_channel(&write, channel).await });
        let sets = futures_util::future::join_all(sets).await;
        assert!(deleted.await.expect("delete"));
        for (id, set) in ids.into_iter().zip(sets) {
            let stored = read(w, id).await;
            assert_eq!(attached(&stored), [], "{set:?}");
            if set == PreferenceSet::Done {
                assert_eq!(stored.detached, Some(round.to_string()));
            } else {
                assert_eq!(set, PreferenceSet::NoSuchChannel(channel));
            }
        }
    }
}

pub async fn the_schedules_that_name_a_channel_are_found(w: &World) {
    let uses = async |account, channel, limit| {
        w.store.channel_uses(account, channel, limit).await.expect("read")
    };
    let [used, other] = [w.channel("used").await, w.channel("other").await];
    assert_eq!(uses(w.account, used, 9).await, ChannelUses::default());
    let mut expected = Vec::new();
    for number in 0..5 {
        let name = format!("schedule {number}");
        let id = w.schedule_with(|new| new.name = name.clone()).await;
        // Those that raise no alerts are found too.
        let notify_on = if number == 3 { NotifyOn::None } else { NotifyOn::Both };
        w.tell(id, policy(notify_on), &[other, used]).await;
        expected.push((id, name));
    }
    let unrelated = w.schedule().await;
    w.tell(unrelated, policy(NotifyOn::Both), &[other]).await;
    expected.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
    let all = ChannelUses { schedules: expected.clone(), total: 5 };
    assert_eq!(uses(w.account, used, 9).await, all);
    let some = ChannelUses { schedules: expected[..2].to_vec(), total: 5 };
    assert_eq!(uses(w.account, used, 2).await, some);
    assert_eq!(uses(w.account, other, 9).await.total, 6);
    assert_eq!(uses(w.foreign, used, 9).await, ChannelUses::default());

    // Another preference, a deleted schedule and a deleted channel leave none.
    w.tell(expected[0].0, policy(NotifyOn::Both), &[other]).await;
    assert!(w.store.delete_schedule(&w.write(minute(2)), expected[1].0).await.expect("delete"));
    let left = ChannelUses { schedules: expected[2..].to_vec(), total: 3 };
    assert_eq!(uses(w.account, used, 9).await, left);
    assert!(w.store.delete_channel(&w.write(minute(3)), used).await.expect("delete"));
    assert_eq!(uses(w.account, used, 9).await, ChannelUses::default());
    assert!(w.store.delete_account(&w.write(minute(4))).await.expect("delete"));
    assert_eq!(uses(w.account, other, 9).await, ChannelUses::default());
}
