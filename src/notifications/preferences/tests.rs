use super::*;
use crate::domain::Timestamp;
use crate::domain::plan::ChannelType;
use crate::store::AttachedChannel;

const AT: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Returns two verified channels and one unverified channel, each of another type.
fn channels() -> Vec<Channel> {
    let kinds = [ChannelType::Email, ChannelType::Slack, ChannelType::Webhook];
    let channel = |(number, kind): (u128, ChannelType)| Channel {
        id: ChannelId::new(AT, number),
        kind,
        label: kind.to_string(),
        verified: kind != ChannelType::Webhook,
        created_at: AT,
        updated_at: AT,
    };
    (0..).zip(kinds).map(channel).collect()
}

fn id(number: u128) -> String {
    ChannelId::new(AT, number).to_string()
}

fn request(notify_on: &str, ids: &[String]) -> PreferenceUpdate {
    PreferenceUpdate {
        notify_on: Field::Value(notify_on.to_owned()),
        channel_ids: Field::Value(ids.to_vec()),
        ..PreferenceUpdate::default()
    }
}

fn errors(request: PreferenceUpdate) -> String {
    read(request, &channels()).expect_err("not valid").to_string()
}

#[test]
fn absent_fields_have_defaults_and_integers_are_clamped() {
    let new = read(request("failure", &[id(0)]), &channels()).expect("valid");
    let usual = AlertPolicy { notify_on: NotifyOn::Failure, ..AlertPolicy::default() };
    assert_eq!((new.policy, new.channels.len()), (usual, 1));
    for (given, threshold, repeat) in
        [(i64::MIN, 1, 1), (0, 1, 1), (7, 7, 7), (i64::MAX, MAX_THRESHOLD, MAX_REPEAT_MINUTES)]
    {
        let request = PreferenceUpdate {
            failure_threshold: Field::Value(given),
            repeat_every_minutes: Field::Value(given),
            notify_on_recovery: Field::Value(true),
            ..request("both", &[id(1)])
        };
        let policy = read(request, &channels()).expect("valid").policy;
        assert_eq!(
            (policy.failure_threshold, policy.repeat_every_minutes),
            (threshold, Some(repeat))
        );
        assert!(policy.notify_on_recovery);
    }
}

#[test]
fn channels_are_named_once_in_their_order() {
    let ids = [id(1), id(0), id(1), id(0)];
    let new = read(request("success", &ids), &channels()).expect("valid");
    assert_eq!(new.channels, [ChannelId::new(AT, 1), ChannelId::new(AT, 0)]);
    let many: Vec<String> = vec![id(0); 50];
    assert!(read(request("success", &many), &channels()).is_ok(), "one channel");
    let many: Vec<String> = (0..11).map(id).collect();
    assert_eq!(errors(request("success", &many)), "channelIds: Must name at most 10 channels");
}

#[test]
fn channels_must_exist_and_be_verified_whatever_the_outcomes() {
    for notify_on in ["failure", "none"] {
        for wrong in ["", "x", "sch_01HF7YAT000000000000000007", &id(9), &id(0).to_lowercase()] {
            let refused = errors(request(notify_on, &[wrong.to_owned(), id(0)]));
            assert_eq!(refused, "channelIds: Channel not found", "{wrong}");
        }
        let refused = errors(request(notify_on, &[id(2)]));
        assert_eq!(refused, "channelIds: Channel must be verified");
    }
    let refused = errors(request("both", &[id(2), id(8), id(9)]));
    assert_eq!(refused, "channelIds: Channel not found, Channel must be verified");
}

#[test]
fn a_channel_is_required_unless_nothing_is_reported() {
    let missing = "channelIds: Must name at least one channel";
    assert_eq!(errors(request("failure", &[])), missing);
    for absent in [Field::Absent, Field::Null] {
        let given =
            |notify_on| PreferenceUpdate { channel_ids: absent.clone(), ..request(notify_on, &[]) };
        assert_eq!(errors(given("both")), missing);
        assert!(read(given("none"), &channels()).expect("valid").channels.is_empty());
    }
}

#[test]
fn wrong_fields_are_all_named() {
    let wrong = PreferenceUpdate {
        notify_on: Field::Value("sometimes".to_owned()),
        channel_ids: Field::Wrong("Must be an array of strings".into()),
        failure_threshold: Field::Wrong("Must be an integer".into()),
        notify_on_recovery: Field::Wrong("Must be a boolean".into()),
        repeat_every_minutes: Field::Wrong("Must be an integer".into()),
    };
    assert_eq!(
        errors(wrong),
        "channelIds: Must be an array of strings; failureThreshold: Must be an integer; notifyOn: \
         Must be one of none, failure, success, both; notifyOnRecovery: Must be a boolean; \
         repeatEveryMinutes: Must be an integer"
    );
    assert_eq!(errors(PreferenceUpdate::default()), "notifyOn: Required");
}

#[test]
fn a_plan_limits_the_additions_of_a_preference() {
    let plan = Plan {
        channel_types: Some(vec![ChannelType::Email]),
        notify_on: Some(vec![NotifyOn::Failure]),
        ..Plan::unlimited("free")
    };
    let all = channels();
    let check = |notify_on: &str, number: u128, current: &StoredPreference| {
        let new = read(request(notify_on, &[id(number)]), &all).expect("valid");
        check_plan(&plan, &new, current, &all).map_err(|refused| (refused.limit, refused.choice))
    };
    let nothing = StoredPreference::default();
    assert_eq!(check("failure", 0, &nothing), Ok(()));
    assert_eq!(check("none", 0, &nothing), Ok(()), "silence is always allowed");
    assert_eq!(check("both", 0, &nothing), Err(("notifyOn", Some("both"))));
    assert_eq!(check("failure", 1, &nothing), Err(("channelTypes", Some("slack"))));
    let attached = AttachedChannel { channel: all[1].clone(), trouble: None };
    let policy = AlertPolicy { notify_on: NotifyOn::Both, ..AlertPolicy::default() };
    let larger = StoredPreference { policy, channels: vec![attached], detached: None };
    assert_eq!(check("both", 1, &larger), Ok(()), "it stays as it is");
    assert_eq!(check("success", 1, &larger), Err(("notifyOn", Some("success"))));
}
