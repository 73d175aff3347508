//! Tests of the grouping of alerts.

use super::*;

const RULES: GroupingRules = GroupingRules {
    per_minute: 2,
    incident_schedules: 3,
    gather: Duration::from_millis(500),
    gather_most: Duration::from_secs(2),
    calm: Duration::from_secs(60),
    stale: Duration::from_secs(600),
    longest: Duration::from_secs(3_600),
};

fn ms(ms: i64) -> Timestamp {
    Timestamp::from_millis(1_000_000 + ms)
}

fn failing(times: &[i64]) -> IncidentState {
    let mut state = IncidentState::new(ms(times[0]));
    for at in times {
        let verdict = state.failed(IncidentMember::New, ms(*at), ms(*at), &RULES);
        assert_eq!(verdict, GroupingVerdict::Held, "{at}");
    }
    state
}

#[test]
fn a_channel_gets_so_many_alerts_a_minute_and_then_one_digest() {
    let mut flow = ChannelFlow::default();
    let mut take = |at| flow.take(ms(at), &RULES);
    assert_eq!((take(0), take(1)), (AlertFlow::Send, AlertFlow::Send));
    assert_eq!(take(2), AlertFlow::BeginDigest { due: ms(60_000) });
    assert_eq!((take(3), take(59_999)), (AlertFlow::JoinDigest, AlertFlow::JoinDigest));
    assert_eq!((take(60_000), take(60_001)), (AlertFlow::Send, AlertFlow::Send));
    assert_eq!(take(60_002), AlertFlow::BeginDigest { due: ms(120_000) });
}

#[test]
fn a_limit_of_none_sends_everything() {
    let (mut flow, rules) = (ChannelFlow::default(), GroupingRules { per_minute: 0, ..RULES });
    assert!((0..1_000).all(|at| flow.take(ms(at), &rules) == AlertFlow::Send));
}

#[test]
fn one_failure_is_released_after_a_moment_and_forgotten_when_it_recovers() {
    let mut state = failing(&[0]);
    assert_eq!(state.judge(ms(499), &RULES), Judgement::Goes);
    assert_eq!(state.judge(ms(500), &RULES), Judgement::Release);
    assert_eq!(state.judge(ms(501), &RULES), Judgement::Goes);
    assert_eq!(state.recovered(ms(60_000), &RULES), GroupingVerdict::Alone);
    assert_eq!(state.judge(ms(60_000), &RULES), Judgement::Forget);
}

#[test]
fn failures_that_come_one_after_the_other_are_gathered_but_not_for_ever() {
    let times: Vec<i64> = (0..10).map(|n| n * 400).collect();
    let state = failing(&times[..3]);
    assert_eq!(state.due_at, ms(1_300));
    let state = failing(&times);
    assert_eq!(state.due_at, ms(2_000), "gather_most");
}

#[test]
fn enough_schedules_open_an_incident_that_takes_in_all_others() {
    let mut state = failing(&[0, 10, 20]);
    assert_eq!(state.judge(ms(520), &RULES), Judgement::Open);
    assert_eq!(
        state.failed(IncidentMember::New, ms(600), ms(600), &RULES),
        GroupingVerdict::Merged
    );
    assert_eq!(
        state.failed(IncidentMember::Failing, ms(700), ms(700), &RULES),
        GroupingVerdict::Merged
    );
    assert_eq!((state.schedules, state.failing, state.failures), (4, 4, 5));
    for at in [800, 801, 802] {
        assert_eq!(state.recovered(ms(at), &RULES), GroupingVerdict::Merged);
        assert_eq!(state.judge(ms(at), &RULES), Judgement::Goes);
    }
    assert_eq!(state.recovered(ms(803), &RULES), GroupingVerdict::Merged);
    assert_eq!(state.judge(ms(803), &RULES), Judgement::Close);
}

#[test]
fn schedules_that_fail_one_by_one_make_an_incident_in_the_end() {
    let mut state = failing(&[0]);
    assert_eq!(state.judge(ms(500), &RULES), Judgement::Release);
    assert_eq!(
        state.failed(IncidentMember::New, ms(9_000), ms(9_000), &RULES),
        GroupingVerdict::Held
    );
    assert_eq!(state.judge(ms(9_500), &RULES), Judgement::Release);
    assert_eq!(
        state.failed(IncidentMember::Failing, ms(10_000), ms(10_000), &RULES),
        GroupingVerdict::Held
    );
    assert_eq!(state.judge(ms(10_500), &RULES), Judgement::Release, "two schedules fail");
    assert_eq!(
        state.failed(IncidentMember::New, ms(11_000), ms(11_000), &RULES),
        GroupingVerdict::Held
    );
    assert_eq!(state.judge(ms(11_500), &RULES), Judgement::Open);
}

#[test]
fn schedules_that_fail_and_recover_while_gathered_make_one_incident_and_close_it() {
    let mut state = failing(&[0, 1, 2]);
    for at in [10, 11, 12] {
        assert_eq!(state.recovered(ms(at), &RULES), GroupingVerdict::Held);
    }
    assert_eq!(state.judge(ms(502), &RULES), Judgement::Open);
    assert_eq!(state.judge(ms(502), &RULES), Judgement::Close);
}

#[test]
fn an_incident_is_closed_when_some_recover_and_the_others_do_not_run() {
    let mut state = failing(&[0, 1, 2]);
    assert_eq!(state.judge(ms(502), &RULES), Judgement::Open);
    state.recovered(ms(1_000), &RULES);
    assert_eq!(state.due_at, ms(60_002));
    assert_eq!(state.judge(ms(60_001), &RULES), Judgement::Goes);
    assert_eq!(state.judge(ms(60_002), &RULES), Judgement::Close);
}

#[test]
fn an_incident_does_not_hide_the_few_schedules_that_continue_failing() {
    let mut state = failing(&[0, 1, 2]);
    assert_eq!(state.judge(ms(502), &RULES), Judgement::Open);
    state.recovered(ms(1_000), &RULES);
    for at in (10_000..60_000).step_by(10_000) {
        state.failed(IncidentMember::Failing, ms(at), ms(at), &RULES);
        assert_eq!(state.judge(ms(at), &RULES), Judgement::Goes);
    }
    assert_eq!(state.due_at, ms(61_000));
    assert_eq!(state.judge(ms(61_000), &RULES), Judgement::Close);
}

#[test]
fn a_failure_after_a_recovery_keeps_it_open() {
    let mut state = failing(&[0, 1, 2]);
    assert_eq!(state.judge(ms(502), &RULES), Judgement::Open);
    state.recovered(ms(1_000), &RULES);
    state.failed(IncidentMember::Recovered, ms(2_000), ms(2_000), &RULES);
    assert_eq!((state.schedules, state.failing), (3, 3));
    assert_eq!(state.judge(ms(70_000), &RULES), Judgement::Goes);
}

#[test]
fn quiet_and_old_incidents_are_forgotten() {
    let mut state = failing(&[0, 1, 2]);
    assert_eq!(state.judge(ms(502), &RULES), Judgement::Open);
    assert_eq!(state.due_at, ms(600_002));
    assert_eq!(state.judge(ms(600_002), &RULES), Judgement::Forget);
    let mut state = failing(&[0, 1, 2]);
    state.judge(ms(502), &RULES);
    state.failed(IncidentMember::Failing, ms(3_600_000), ms(3_600_000), &RULES);
    assert_eq!(state.judge(ms(3_600_502), &RULES), Judgement::Forget);
    let mut state = failing(&[0]);
    state.judge(ms(502), &RULES);
    assert_eq!(state.judge(ms(600_000), &RULES), Judgement::Forget);
}
